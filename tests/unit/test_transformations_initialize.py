"""Founding a cluster, and marking or forcing its metadata."""

from __future__ import annotations

import msgspec
import pytest

from metadata.cluster import NOTHING_YET
from metadata.columns import ColumnType
from metadata.directory import NodeId
from metadata.image import image_of
from metadata.invariants import violations
from metadata.partitioners import Partitioner
from metadata.plans import Step
from metadata.schema import Column, Simple, TableId
from metadata.sequences import SequenceKind
from metadata.tokens import MINIMUM, Token
from tests.builders import (
    CLUSTER,
    accepted,
    commit,
    founded,
    in_step,
    joined_cluster,
    reads,
    registration,
    rejected,
)
from transformations.directory import Unregister
from transformations.extensions import SetExtension
from transformations.initialize import ForceSnapshot, Initialize, TriggerSnapshot
from transformations.kinds import execute
from transformations.outcome import Reason
from transformations.schema import AlterTable, DropTable

OTHER = "00000000-0000-4000-8000-000000000002"


def test_founds_a_cluster_at_epoch_1():
    outcome = accepted(
        execute(
            Initialize(name="shop", cluster=CLUSTER, partitioner=Partitioner.MURMUR3), NOTHING_YET
        )
    )

    cluster = outcome.after.cluster
    assert outcome.after.epoch == cluster.epoch == 1
    assert outcome.result.cluster == cluster.id == CLUSTER
    assert (cluster.name, cluster.partitioner) == ("shop", Partitioner.MURMUR3)


def test_a_cluster_is_founded_once():
    again = Initialize(name="again", cluster=OTHER)

    refused = rejected(execute(again, founded("shop")), Reason.ALREADY_INITIALIZED)

    assert "shop" in refused.detail
    assert CLUSTER in refused.detail


def test_a_founding_entry_needs_a_cluster_id():
    rejected(execute(Initialize(name="shop"), NOTHING_YET), Reason.NOT_INITIALIZED)


def test_adopts_a_cluster_that_existed_before():
    image = image_of(joined_cluster(nodes=4, spare=1))

    after = accepted(execute(Initialize(name="new", cluster=OTHER, image=image), NOTHING_YET)).after

    assert after.epoch == 1
    assert (after.cluster.id, after.cluster.name) == (OTHER, "new")
    assert reads(after) == reads(joined_cluster(nodes=4))
    assert after.directory.next_node == 6
    assert after.schema.table("shop", "t1") is not None


def test_what_is_adopted_dates_from_the_founding_entry():
    """No epoch of the log that was left behind means anything in the new one."""
    image = image_of(joined_cluster(nodes=4, spare=1))

    after = accepted(execute(Initialize(name="new", cluster=OTHER, image=image), NOTHING_YET)).after

    assert not list(violations(after))
    groups = after.placements.placed[Simple(3).key].read_groups()
    assert {group.epoch for _, group in groups} == {1}
    assert {table.created for table in after.schema.tables.values()} == {1}


@pytest.mark.parametrize("kind", SequenceKind)
def test_adopts_nothing_that_is_still_moving(kind):
    """Sequences are named by epochs, and those of the log that was left behind come again."""
    image = image_of(in_step(joined_cluster(nodes=4, spare=1), kind, Step.START))

    rejected(
        execute(Initialize(name="new", cluster=OTHER, image=image), NOTHING_YET),
        Reason.INVALID_IMAGE,
    )


def contradictions():
    image = image_of(joined_cluster(nodes=2))
    return {
        "a table in no keyspace": msgspec.structs.replace(image, keyspaces=(), placements=()),
        "two groups that end at the same token but lack the end": msgspec.structs.replace(
            image,
            placements=tuple(
                msgspec.structs.replace(item, reads=item.reads[:1]) for item in image.placements
            ),
        ),
        "a number given before": msgspec.structs.replace(image, next_node=NodeId(1)),
        "a component from the future": msgspec.structs.replace(
            image, modified=msgspec.structs.replace(image.modified, ring=image.epoch + 1)
        ),
    }


@pytest.mark.parametrize("what", contradictions())
def test_refuses_an_image_that_contradicts_itself(what):
    image = contradictions()[what]

    rejected(
        execute(Initialize(name="new", cluster=OTHER, image=image), NOTHING_YET),
        Reason.INVALID_IMAGE,
    )
    rejected(execute(ForceSnapshot(image=image), joined_cluster(nodes=3)), Reason.INVALID_IMAGE)


def test_a_trigger_changes_nothing_but_the_epoch():
    before = joined_cluster()

    after = commit(before, TriggerSnapshot())

    assert [item for _, item in after.components()] == [item for _, item in before.components()]
    assert after.epoch == before.epoch + 1


def test_forcing_puts_the_image_in_the_place_of_the_metadata():
    earlier = commit(joined_cluster(), SetExtension(name="a", value="1"))
    later = commit(earlier, SetExtension(name="a", value="2"), SetExtension(name="b", value="3"))

    after = accepted(execute(ForceSnapshot(image=image_of(earlier)), later)).after

    assert after.epoch == later.epoch + 1
    assert after.extensions.by_name["a"].value == "1"
    assert "b" not in after.extensions.by_name


def test_forcing_stamps_only_what_it_changes():
    earlier = joined_cluster()
    later = commit(earlier, SetExtension(name="a", value="2"))

    after = accepted(execute(ForceSnapshot(image=image_of(earlier)), later)).after

    changed = {name for name, item in after.components() if item.epoch == after.epoch}
    assert changed == {"extensions"}


def test_forcing_never_gives_a_number_again():
    earlier = joined_cluster(nodes=3)
    later = commit(
        earlier,
        registration(8),
        Unregister(node=NodeId(4)),
        DropTable(keyspace="shop", name="t1"),
    )

    after = accepted(execute(ForceSnapshot(image=image_of(earlier)), later)).after

    assert after.directory.next_node == NodeId(5)
    assert after.schema.next_table == TableId(2)
    assert commit(after, registration(9)).directory.find(NodeId(5)) is not None


def test_forces_no_image_of_another_cluster():
    image = msgspec.structs.replace(image_of(joined_cluster()), cluster=OTHER)

    refused = rejected(execute(ForceSnapshot(image=image), joined_cluster()), Reason.WRONG_CLUSTER)

    assert OTHER in refused.detail
    assert CLUSTER in refused.detail


def test_forces_no_other_partitioner():
    """Every row would have another token."""
    before = joined_cluster()
    image = msgspec.structs.replace(image_of(before), partitioner=Partitioner.MURMUR3)

    refused = rejected(execute(ForceSnapshot(image=image), before), Reason.INVALID_IMAGE)

    assert "partitioner" in refused.detail


def test_forces_no_image_from_the_future():
    before = joined_cluster()
    image = image_of(commit(before, TriggerSnapshot()))

    refused = rejected(execute(ForceSnapshot(image=image), before), Reason.INVALID_IMAGE)

    assert "yet to come" in refused.detail


def test_forcing_stamps_the_groups_whose_owners_it_changes():
    """Whoever still has the other owners must be told that it is behind for this range."""
    earlier = joined_cluster(nodes=4, spare=1, tables=0)
    later = in_step(earlier, SequenceKind.JOIN, Step.RETIRE)

    after = accepted(execute(ForceSnapshot(image=image_of(earlier)), later)).after

    changed = after.placements.placed[Simple(3).key].readers(Token(100))
    assert changed is not None
    assert reads(after)[MINIMUM, 100] != reads(later)[MINIMUM, 100]
    assert changed.epoch == after.epoch


def test_forcing_stamps_the_tables_and_values_that_it_changes():
    more = AlterTable(keyspace="shop", name="t1", add=(Column("more", ColumnType.INT),))
    earlier = commit(
        joined_cluster(tables=3),
        SetExtension(name="a", value="1"),
        SetExtension(name="b", value="1"),
    )
    later = commit(
        earlier,
        more,
        DropTable(keyspace="shop", name="t2"),
        SetExtension(name="a", value="2"),
        SetExtension(name="b", value="2"),
        SetExtension(name="b", value="1"),
    )

    after = commit(later, ForceSnapshot(image=image_of(earlier)))

    epochs = {table.name: table.epoch for table in after.schema.tables.values()}
    assert epochs["t1"] == epochs["t2"] == after.epoch
    assert epochs["t3"] == earlier.schema.tables[TableId(3)].epoch
    assert after.extensions.by_name["a"].epoch == after.epoch
    assert after.extensions.by_name["b"].epoch == later.epoch
    assert after.schema.keyspaces["shop"] == earlier.schema.keyspaces["shop"]
