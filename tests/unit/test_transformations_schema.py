"""Keyspaces and tables come, change and go."""

from __future__ import annotations

import pytest

from metadata.columns import ColumnType
from metadata.directory import NodeId
from metadata.limits import COLUMNS_MAX
from metadata.plans import Step
from metadata.schema import Column, Network, Simple, TableId
from metadata.sequences import SequenceKind
from metadata.tokens import Token
from tests.builders import (
    accepted,
    commit,
    founded,
    in_step,
    joined_cluster,
    keyspace,
    only_sequence,
    reads,
    registration,
    rejected,
    writes,
)
from transformations.join import UnsafeJoin
from transformations.kinds import execute
from transformations.outcome import Reason
from transformations.schema import (
    AlterKeyspace,
    AlterTable,
    CreateKeyspace,
    CreateTable,
    DropKeyspace,
    DropTable,
)

ID, TEXT = Column("id", ColumnType.BIGINT), Column("text", ColumnType.STRING)
MORE = Column("more", ColumnType.INT)


def create_table(columns=(ID, TEXT), key=("id",), name="t2", within="shop"):
    return CreateTable(keyspace=within, name=name, columns=columns, partition_key=key)


def alter_table(**changes):
    return AlterTable(keyspace="shop", name="t1", **changes)


def alter_keyspace(replication, **fields):
    return AlterKeyspace(name="shop", replication=replication, **fields)


def test_a_keyspace_is_placed_when_it_is_created():
    before = joined_cluster(nodes=3, replication=None)

    after = commit(before, CreateKeyspace(name="shop", replication=Simple(2)))

    expected = {(-(2**63), 100): (1, 2), (100, 200): (2, 3), (200, 300): (1, 3)}
    assert reads(after) == writes(after) == expected | {(300, -(2**63)): (1, 2)}
    assert after.schema.keyspaces["shop"].epoch == after.epoch


def test_keyspaces_with_the_same_replication_share_a_placement():
    before = joined_cluster(nodes=3, replication=Simple(2))

    after = commit(before, CreateKeyspace(name="more", replication=Simple(2)))

    assert after.placements is before.placements


def test_a_factor_of_zero_places_as_if_it_were_not_named():
    before = joined_cluster(nodes=3, replication=Network({"dc1": 2}))

    after = commit(before, CreateKeyspace(name="m", replication=Network({"dc1": 2, "dc2": 0})))

    assert after.placements is before.placements


def test_a_placement_goes_with_its_last_keyspace():
    before = commit(joined_cluster(nodes=3), CreateKeyspace(name="more", replication=Simple(3)))

    without_one = commit(before, DropKeyspace(name="more"))
    without_both = commit(without_one, DropKeyspace(name="shop"))

    assert without_one.placements is before.placements
    assert not without_both.placements.placed


def test_dropping_a_keyspace_drops_its_tables():
    before = joined_cluster(tables=3)

    after = commit(before, DropKeyspace(name="shop"))

    assert len(after.schema.tables) == 0
    assert after.schema.table("shop", "t1") is None
    assert after.schema.next_table == TableId(4)


def test_a_datacenter_without_nodes_is_accepted_with_a_warning():
    replication = Network({"dc1": 1, "dc3": 3, "dc2": 3})

    outcome = accepted(
        execute(CreateKeyspace(name="shop", replication=replication), joined_cluster(3, None))
    )

    assert outcome.result.warnings == (
        "no node is in datacenter dc2: nothing is placed there",
        "no node is in datacenter dc3: nothing is placed there",
    )
    assert set(reads(outcome.after).values()) == {(1,), (2,), (3,)}


def test_altering_warns_as_well():
    outcome = accepted(
        execute(alter_keyspace(Network({"dc9": 3})), joined_cluster(nodes=3, tables=0))
    )

    assert len(outcome.result.warnings) == 1


def test_a_keyspace_may_come_before_the_first_node():
    before = commit(founded(), *keyspace(Simple(3)))

    after = commit(before, registration(1), UnsafeJoin(node=NodeId(1), tokens=(Token(0),)))

    assert reads(before) == {}
    assert set(reads(after).values()) == {(1,)}


@pytest.mark.parametrize(
    ("transformation", "reason"),
    [
        (CreateKeyspace(name="shop", replication=Simple(1)), Reason.KEYSPACE_EXISTS),
        (AlterKeyspace(name="nil", replication=Simple(1)), Reason.UNKNOWN_KEYSPACE),
        (DropKeyspace(name="nil"), Reason.UNKNOWN_KEYSPACE),
        (create_table(within="nil"), Reason.UNKNOWN_KEYSPACE),
        (create_table(name="t1"), Reason.TABLE_EXISTS),
        (create_table(columns=(ID, ID)), Reason.COLUMN_EXISTS),
        (create_table(key=("nil",)), Reason.INVALID_KEY),
        (create_table(key=("id", "id")), Reason.INVALID_KEY),
        (AlterTable(keyspace="shop", name="nil", add=(MORE,)), Reason.UNKNOWN_TABLE),
        (AlterTable(keyspace="nil", name="t1", add=(MORE,)), Reason.UNKNOWN_TABLE),
        (DropTable(keyspace="shop", name="nil"), Reason.UNKNOWN_TABLE),
        (alter_table(), Reason.NOTHING_TO_DO),
        (alter_table(add=(TEXT,)), Reason.COLUMN_EXISTS),
        (alter_table(add=(MORE, MORE)), Reason.COLUMN_EXISTS),
        (alter_table(drop=("nil",)), Reason.UNKNOWN_COLUMN),
        (alter_table(drop=("id",)), Reason.INVALID_KEY),
        (alter_table(add=(Column("text", ColumnType.INT),)), Reason.TYPE_CHANGED),
        (
            alter_table(drop=("text",), add=(Column("text", ColumnType.INT),)),
            Reason.TYPE_CHANGED,
        ),
    ],
)
def test_refuses(transformation, reason):
    rejected(execute(transformation, joined_cluster(nodes=3)), reason)


def test_replication_without_tables_changes_in_one_epoch():
    before = joined_cluster(nodes=3, tables=0)

    after = commit(before, alter_keyspace(Simple(1)))

    assert set(reads(after).values()) == {(1,), (2,), (3,)}
    assert list(after.placements.placed) == ["simple:1"]


def test_replication_under_tables_needs_steps():
    refused = rejected(
        execute(alter_keyspace(Simple(1)), joined_cluster(nodes=3)), Reason.NEEDS_STEPS
    )

    assert refused.remedy is not None
    assert "accept_loss" in refused.remedy


def test_replication_under_tables_changes_where_loss_is_accepted():
    before = joined_cluster(nodes=3)

    after = commit(before, alter_keyspace(Simple(1), accept_loss="the table is empty"))

    assert list(after.placements.placed) == ["simple:1"]


def test_replication_that_gives_the_same_owners_needs_no_steps():
    before = joined_cluster(nodes=3, replication=Simple(3))

    after = commit(before, alter_keyspace(Network({"dc1": 3})))

    assert set(reads(after).values()) == {(1, 2, 3)}


def test_replication_may_become_that_of_another_keyspace():
    before = commit(joined_cluster(nodes=3, tables=0), *keyspace(Simple(2), "other"))

    after = commit(before, alter_keyspace(Simple(2)))

    assert after.placements.placed[Simple(2).key] is before.placements.placed[Simple(2).key]
    assert list(after.placements.placed) == ["simple:2"]


def test_replication_under_tables_needs_steps_also_where_it_is_placed_already():
    before = commit(joined_cluster(nodes=3), *keyspace(Simple(2), "other", tables=0))

    rejected(execute(alter_keyspace(Simple(2)), before), Reason.NEEDS_STEPS)


MOVING = [
    (kind, step)
    for kind in SequenceKind
    for step in (Step.PREPARE, Step.START, Step.MID, Step.FINISH, Step.CANCEL)
]


@pytest.mark.parametrize(("kind", "step"), MOVING)
@pytest.mark.parametrize(
    "transformation",
    [
        CreateKeyspace(name="more", replication=Simple(2)),
        alter_keyspace(Simple(2), accept_loss="never mind"),
        DropKeyspace(name="shop"),
    ],
    ids=lambda item: type(item).__name__,
)
def test_no_placement_comes_changes_or_goes_during_a_sequence(transformation, kind, step):
    before = in_step(joined_cluster(nodes=4, spare=1), kind, step)

    refused = rejected(execute(transformation, before), Reason.RANGES_LOCKED)

    assert refused.sequence == only_sequence(before).id
    assert refused.step is only_sequence(before).due
    assert refused.ranges
    assert refused.remedy == (
        f"wait until sequence {refused.sequence} is retired; its next step is {refused.step}"
    )


@pytest.mark.parametrize(("kind", "step"), MOVING)
def test_all_other_changes_of_the_schema_go_on_during_a_sequence(kind, step):
    before = in_step(joined_cluster(nodes=4, spare=1), kind, step)

    after = commit(
        before,
        CreateKeyspace(name="more", replication=Simple(3)),
        create_table(within="more"),
        alter_keyspace(Simple(3)),
        create_table(),
        alter_table(add=(MORE,)),
        DropTable(keyspace="shop", name="t1"),
        DropKeyspace(name="shop"),
    )

    assert after.placements is before.placements


def test_no_placement_comes_during_a_sequence_without_keyspaces():
    """The sequence has no plan for it, so nothing would move what is placed meanwhile."""
    before = in_step(
        joined_cluster(nodes=2, replication=None, spare=1), SequenceKind.JOIN, Step.PREPARE
    )

    rejected(execute(CreateKeyspace(name="a", replication=Simple(1)), before), Reason.RANGES_LOCKED)


def test_a_table_gets_a_number_and_remembers_when_it_came():
    outcome = accepted(execute(create_table(), joined_cluster()))

    table = outcome.after.schema.table("shop", "t2")
    assert table is not None
    assert outcome.result.table == table.id == TableId(2)
    assert table.created == table.epoch == outcome.after.epoch
    assert (table.columns, table.partition_key) == ((ID, TEXT), ("id",))


def test_the_number_of_a_table_is_never_given_again():
    before = joined_cluster(tables=1)

    after = commit(before, DropTable(keyspace="shop", name="t1"), create_table(name="t1"))

    table = after.schema.table("shop", "t1")
    assert table is not None
    assert table.id == TableId(2)


def test_altering_a_table_stamps_it_and_keeps_its_number():
    before = joined_cluster()

    after = commit(before, alter_table(add=(MORE,), drop=("text",)))

    table = after.schema.table("shop", "t1")
    assert table is not None
    assert table.columns == (ID, MORE)
    assert table.dropped == (TEXT,)
    assert table.id == TableId(1)
    assert table.created < table.epoch == after.epoch


def test_a_dropped_column_comes_back_only_with_its_old_type():
    before = commit(joined_cluster(), alter_table(drop=("text",)))

    refused = rejected(
        execute(alter_table(add=(Column("text", ColumnType.BINARY),)), before), Reason.TYPE_CHANGED
    )
    after = commit(before, alter_table(add=(TEXT,)))

    assert refused.remedy == "add it as string, or take another name"
    table = after.schema.table("shop", "t1")
    assert table is not None
    assert (table.columns, table.dropped) == ((ID, TEXT), ())


def test_a_column_may_go_and_come_back_in_one_entry():
    after = commit(joined_cluster(), alter_table(drop=("text",), add=(TEXT,)))

    table = after.schema.table("shop", "t1")
    assert table is not None
    assert (table.columns, table.dropped) == ((ID, TEXT), ())


def test_a_table_has_a_limited_number_of_columns():
    many = tuple(Column(f"c{number}", ColumnType.INT) for number in range(COLUMNS_MAX - 2))
    before = commit(joined_cluster(), alter_table(add=many))

    rejected(execute(alter_table(add=(MORE,)), before), Reason.COLUMN_EXISTS)
    commit(before, alter_table(add=(MORE,), drop=("text",)))


def test_a_change_of_tables_touches_the_schema_alone():
    before = joined_cluster()

    after = commit(before, create_table())

    changed = {name for name, item in after.components() if item.epoch == after.epoch}
    assert changed == {"schema"}


def test_tables_are_listed_by_keyspace_and_by_placement():
    metadata = commit(
        joined_cluster(tables=2), *keyspace(Simple(3), "a"), *keyspace(Simple(1), "b")
    )

    schema = metadata.schema
    assert schema.keyspaces_placed_by(Simple(3).key) == ["a", "shop"]
    assert [table.id for table in schema.tables_placed_by(Simple(3).key)] == [3, 1, 2]
    assert [table.id for table in schema.tables_of("b")] == [4]
    assert schema.has_tables("shop")
    assert not schema.has_tables("nil")
