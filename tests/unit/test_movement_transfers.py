"""Who is read for what a sequence gains: enough to have every acknowledged row, or nobody."""

from __future__ import annotations

from itertools import combinations

import pytest

from metadata.directory import NodeId
from metadata.plans import RangeChange, Step
from metadata.receipts import enough_sources, sources_needed
from metadata.schema import Network, Simple
from metadata.sequences import SequenceKind
from metadata.tokens import Token
from movement.transfers import Lacking, candidates, chosen, gained_by
from tests.builders import (
    THREE,
    advanced_to,
    commit,
    in_step,
    joined_cluster,
    keyspace,
    only_sequence,
    reads,
    spread,
    writes,
)
from transformations.join import PrepareJoin
from transformations.leave import PrepareLeave
from transformations.replace import PrepareReplace
from transformations.schema import CreateTable, DropTable

THREE_EACH = Network({"dc1": 3, "dc2": 3, "dc3": 3})


def started(metadata, prepare=None):
    metadata = commit(metadata, prepare) if prepare else metadata
    return advanced_to(metadata, Step.START)


def transfers_of(gained, sequence, answering):
    """There are enough sources."""
    found = chosen(gained, sequence, answering)
    assert isinstance(found, list), found
    return found


def everybody(metadata):
    return set(metadata.directory.nodes)


@pytest.mark.parametrize("kind", list(SequenceKind))
def test_whoever_loses_a_range_is_its_source(kind):
    metadata = in_step(joined_cluster(5, spare=1), kind, Step.START)
    sequence = only_sequence(metadata)

    transfers = transfers_of(gained_by(metadata, sequence), sequence, everybody(metadata))

    assert transfers
    for transfer in transfers:
        change, target = transfer.gained.change, transfer.gained.target
        assert transfer.sources == (change.predecessor_of(target),)


@pytest.mark.parametrize("kind", list(SequenceKind))
def test_every_gained_range_of_every_table_is_there_once(kind):
    metadata = in_step(joined_cluster(5, spare=1, tables=2), kind, Step.START)
    sequence = only_sequence(metadata)
    before, during = reads(metadata), writes(metadata)
    wanted = {
        (table, span, node)
        for span, owners in during.items()
        for node in set(owners) - set(before[span])
        for table in metadata.schema.tables
    }

    found = [
        (item.table.id, (item.change.range.left, item.change.range.right), item.target)
        for item in gained_by(metadata, sequence)
    ]

    assert len(found) == len(set(found))
    assert set(found) == wanted


@pytest.mark.parametrize("kind", list(SequenceKind))
@pytest.mark.parametrize("down", range(1, 6))
def test_others_stand_in_for_one_who_does_not_answer(kind, down):
    metadata = in_step(joined_cluster(5, spare=1), kind, Step.START)
    sequence = only_sequence(metadata)
    answering = everybody(metadata) - {down}

    transfers = transfers_of(gained_by(metadata, sequence), sequence, answering)

    for transfer in transfers:
        assert down not in transfer.sources
        assert enough_sources(transfer.gained.change, transfer.gained.target, transfer.sources)


def test_a_dead_node_is_replaced_from_two_of_three():
    prepare = PrepareReplace(node=NodeId(5), replaced=NodeId(1), dead=(NodeId(1),))
    metadata = started(joined_cluster(4, spare=1), prepare)
    sequence = only_sequence(metadata)

    transfers = transfers_of(gained_by(metadata, sequence), sequence, everybody(metadata))

    for transfer in transfers:
        assert len(transfer.sources) == 2
        assert NodeId(1) not in transfer.sources


def test_a_dead_node_is_no_source_even_if_it_answers():
    prepare = PrepareReplace(node=NodeId(5), replaced=NodeId(1), dead=(NodeId(1),))
    metadata = started(joined_cluster(4, spare=1), prepare)
    sequence = only_sequence(metadata)

    assert NodeId(1) not in candidates(gained_by(metadata, sequence), sequence.dead)


def test_whom_a_replacement_waits_for_is_named():
    prepare = PrepareReplace(node=NodeId(5), replaced=NodeId(1), dead=(NodeId(1),))
    metadata = started(joined_cluster(4, spare=1), prepare)
    sequence = only_sequence(metadata)

    found = chosen(gained_by(metadata, sequence), sequence, everybody(metadata) - {2})

    assert isinstance(found, Lacking)
    assert found.waits_for == (NodeId(2),)
    assert found.detail.endswith("for node 5: waits for 1 of nodes 2 to answer")
    assert "table shop.t1" in found.detail


def test_a_handover_waits_for_its_loser_or_for_others():
    metadata = in_step(joined_cluster(4, spare=1), SequenceKind.JOIN, Step.START)
    sequence = only_sequence(metadata)
    gained = gained_by(metadata, sequence)[0]
    loser = gained.change.predecessor_of(gained.target)
    others = [node for node in gained.change.before if node != loser]

    found = chosen([gained], sequence, {others[0]})

    assert isinstance(found, Lacking)
    assert f"waits for node {loser}, or for 1 of nodes" in found.detail


def dead_pair():
    return PrepareReplace(
        node=NodeId(5),
        replaced=NodeId(1),
        dead=(NodeId(1), NodeId(2)),
        accept_loss="two disks are gone",
    )


def test_accepted_loss_still_waits_for_those_who_live():
    metadata = started(joined_cluster(4, spare=1), dead_pair())
    sequence = only_sequence(metadata)
    gained = gained_by(metadata, sequence)

    transfers = transfers_of(gained, sequence, everybody(metadata))
    for transfer in transfers:
        alive = {node for node in transfer.gained.change.before if node not in (1, 2)}
        assert len(transfer.sources) == min(2, len(alive))

    one_left = [item for item in gained if {1, 2} < set(item.change.before)]
    assert one_left
    for item in one_left:
        (left,) = set(item.change.before) - {1, 2}
        found = chosen([item], sequence, everybody(metadata) - {left})
        assert isinstance(found, Lacking)
        assert found.waits_for == (left,)


def test_three_datacenters_with_one_dead_replica():
    """Nine owners, five of them acknowledge: five others have everything between them."""
    places = [*spread(12, 3), ("dc1", "r1")]
    metadata = joined_cluster(12, THREE_EACH, spare=1, places=places)
    prepare = PrepareReplace(node=NodeId(13), replaced=NodeId(1), dead=(NodeId(1),))
    metadata = started(metadata, prepare)
    sequence = only_sequence(metadata)
    gained = gained_by(metadata, sequence)

    transfers = transfers_of(gained, sequence, everybody(metadata))

    for transfer in transfers:
        change = transfer.gained.change
        assert len(change.before) == 9
        assert len(transfer.sources) == sources_needed(change.before, change.wanted) == 5
        for acknowledged in combinations(change.before, 5):
            assert set(acknowledged) & set(transfer.sources)


def test_tables_that_came_after_start_are_not_moved():
    metadata = in_step(joined_cluster(4, spare=1), SequenceKind.JOIN, Step.START)
    (table,) = metadata.schema.tables.values()
    late = CreateTable(keyspace="shop", name="late", columns=table.columns, partition_key=("id",))
    metadata = commit(metadata, late)

    found = {item.table.name for item in gained_by(metadata, only_sequence(metadata))}

    assert found == {"t1"}


def test_tables_that_were_dropped_are_not_moved():
    metadata = in_step(joined_cluster(4, spare=1, tables=2), SequenceKind.JOIN, Step.START)
    metadata = commit(metadata, DropTable(keyspace="shop", name="t2"))

    found = {item.table.name for item in gained_by(metadata, only_sequence(metadata))}

    assert found == {"t1"}


def test_each_placement_has_sources_of_its_own():
    """The same range changes hands differently where there are fewer copies."""
    metadata = commit(joined_cluster(5, THREE, spare=1), *keyspace(Simple(1), "cheap"))
    prepare = PrepareJoin(node=NodeId(6), tokens=(Token(250),))
    metadata = started(metadata, prepare)
    sequence = only_sequence(metadata)

    transfers = transfers_of(gained_by(metadata, sequence), sequence, everybody(metadata))

    by_name: dict[str, set] = {}
    for transfer in transfers:
        by_name.setdefault(transfer.gained.table.keyspace, set()).add(transfer.sources)
    assert by_name["cheap"] == {(NodeId(3),)}
    assert len(by_name["shop"]) > 1


def test_nobody_gains_where_everybody_has_everything():
    metadata = started(joined_cluster(3, THREE), PrepareLeave(node=NodeId(1), force=True))

    assert gained_by(metadata, only_sequence(metadata)) == []


def test_sources_are_enough_for_every_write_quorum():
    """By counting: any majority that acknowledged a row meets the sources."""
    for owners in range(1, 8):
        before = tuple(map(NodeId, range(1, owners + 1)))
        needed = sources_needed(before, owners)
        change = RangeChange(range=None, before=before, after=(NodeId(99),), wanted=owners)  # type: ignore[arg-type] # not looked at
        assert enough_sources(change, NodeId(99), before[:needed])
        for acknowledged in combinations(before, owners // 2 + 1):
            assert set(acknowledged) & set(before[:needed])
