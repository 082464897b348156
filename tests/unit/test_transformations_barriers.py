"""Who must have applied a step before the next one may be taken."""

from __future__ import annotations

import pytest

from metadata.barriers import Evidence, Level, voter_groups
from metadata.directory import NodeId
from metadata.plans import Step
from metadata.schema import Network, Simple
from metadata.sequences import SequenceKind
from metadata.tokens import Token
from tests.builders import (
    STEPS,
    accepted,
    advanced_to,
    applied_by,
    commit,
    due_step,
    everyone_applied,
    honest_receipts,
    in_step,
    joined_cluster,
    keyspace,
    only_sequence,
    rejected,
    spread,
)
from transformations.ending import CancelSequence, RetireSequence
from transformations.join import FinishJoin, MidJoin, PrepareJoin, StartJoin
from transformations.kinds import execute
from transformations.leave import PrepareLeave, StartLeave
from transformations.outcome import Reason
from transformations.schema import CreateTable, DropTable

ONE = Simple(1)


def joining(step, **fields):
    """Node 4 joins at 150: node 3's neighbour, with replicas on two nodes."""
    before = joined_cluster(nodes=3, replication=Simple(2), spare=1, **fields)
    return in_step(before, SequenceKind.JOIN, step)


def with_barrier(metadata, barrier):
    """The step due, on this evidence."""
    sequence = only_sequence(metadata)
    if sequence.due is Step.RETIRE:
        return RetireSequence(sequence=sequence.id, barrier=barrier)
    start, mid, finish = STEPS[sequence.kind]
    if sequence.due is Step.MID:
        receipts = honest_receipts(metadata, sequence)
        return mid(sequence=sequence.id, barrier=barrier, receipts=receipts)
    return (start if sequence.due is Step.START else finish)(sequence=sequence.id, barrier=barrier)


def groups(metadata):
    return voter_groups(metadata, only_sequence(metadata))


BEHIND = [Step.PREPARE, Step.START, Step.MID, Step.FINISH, Step.CANCEL]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (Step.PREPARE, {(1, 2), (2, 3)}),
        (Step.START, {(1, 2), (2, 3), (1, 2, 4), (2, 3, 4)}),
        (Step.MID, {(1, 2), (2, 3), (1, 2, 4), (2, 3, 4), (1, 4), (2, 4)}),
        (Step.FINISH, {(1, 2, 4), (2, 3, 4), (1, 4), (2, 4), (2, 3)}),
    ],
)
def test_votes_readers_and_writers_before_and_after_each_step(step, expected):
    """Every group votes for itself; (150, 200] keeps its owners 2 and 3, but was split."""
    assert groups(joining(step)) == expected


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (Step.PREPARE, {(1, 2), (2, 3)}),
        (Step.START, {(1, 2), (2, 3), (1, 2, 4), (2, 3, 4)}),
        (Step.MID, {(1, 2), (2, 3), (1, 2, 4), (2, 3, 4), (1, 4), (2, 4)}),
    ],
)
def test_a_cancel_has_the_readers_it_moves_back_among_its_voters(after, expected):
    assert groups(advanced_to(joining(after), Step.CANCEL)) == expected


@pytest.mark.parametrize("step", BEHIND)
@pytest.mark.parametrize("kind", SequenceKind)
def test_every_step_over_tables_needs_evidence(kind, step):
    before = in_step(joined_cluster(nodes=5, spare=1), kind, step)
    sequence = only_sequence(before)

    refused = rejected(execute(with_barrier(before, None), before), Reason.BARRIER_MISSING)

    assert (refused.sequence, refused.step) == (sequence.id, sequence.due)
    assert f"epoch {sequence.last_epoch}" in refused.detail
    assert refused.remedy is not None
    assert "each-quorum" in refused.remedy


@pytest.mark.parametrize("step", BEHIND)
@pytest.mark.parametrize("kind", SequenceKind)
def test_without_tables_no_evidence_is_needed(kind, step):
    before = in_step(joined_cluster(nodes=5, spare=1, tables=0), kind, step)

    accepted(execute(with_barrier(before, None), before))


def test_a_table_elsewhere_does_not_make_a_placement_vote():
    """The keyspace with tables is on dc2 alone, where nothing moves."""
    places = [("dc1", "r1"), ("dc2", "r1"), ("dc1", "r1"), ("dc1", "r1")]
    before = joined_cluster(
        nodes=3, replication=Network({"dc1": 1}), places=places, spare=1, tables=0
    )
    before = commit(before, *keyspace(Network({"dc2": 1}), "far"))

    leaving = in_step(before, SequenceKind.JOIN, Step.START)

    assert groups(leaving) == {(2,)}


def test_a_table_that_comes_during_a_sequence_brings_its_voters():
    before = joining(Step.START, tables=0)
    table = keyspace(ONE, "other")[1]
    created = commit(
        before,
        CreateTable(
            keyspace="shop", name="t", columns=table.columns, partition_key=table.partition_key
        ),
    )

    rejected(execute(with_barrier(created, None), created), Reason.BARRIER_MISSING)

    after = commit(
        created, with_barrier(created, everyone_applied(created, only_sequence(created)))
    )
    assert only_sequence(after).last is Step.MID


def test_a_table_that_goes_during_a_sequence_takes_its_voters_along():
    before = commit(joining(Step.MID), DropTable(keyspace="shop", name="t1"))

    accepted(execute(with_barrier(before, None), before))


@pytest.mark.parametrize("step", BEHIND)
@pytest.mark.parametrize("level", Level)
def test_nobody_is_never_enough(step, level):
    before = joining(step)

    refused = rejected(
        execute(with_barrier(before, Evidence(level, ())), before), Reason.BARRIER_NOT_PASSED
    )

    assert refused.sequence == only_sequence(before).id
    assert refused.step is only_sequence(before).due


@pytest.mark.parametrize("step", BEHIND)
@pytest.mark.parametrize("level", Level)
def test_everybody_is_always_enough(step, level):
    before = joining(step)
    everybody = everyone_applied(before, only_sequence(before), level=level)

    accepted(execute(with_barrier(before, everybody), before))


def test_names_who_is_waited_for():
    """Of three nodes that own (2, 3) and (1, 2) each two must have applied it."""
    before = joining(Step.PREPARE)
    sequence = only_sequence(before)

    refused = rejected(
        execute(with_barrier(before, applied_by(1, 2)), before), Reason.BARRIER_NOT_PASSED
    )

    assert refused.detail == (
        f"epoch {sequence.last_epoch} must be applied by each-quorum of the owners; "
        "not yet by nodes [3]"
    )
    assert refused.remedy == "wait until they have applied it"


def three_replicas(step):
    """Node 5 takes (100, 150] from node 4, among others."""
    return in_step(joined_cluster(nodes=4, spare=1), SequenceKind.JOIN, step)


@pytest.mark.parametrize(
    ("level", "applied", "enough"),
    [
        (Level.QUORUM, (1, 2, 3), True),
        (Level.EACH_QUORUM, (1, 2, 3), True),
        (Level.ALL, (1, 2, 3), False),
        (Level.ALL, (1, 2, 3, 4), True),
        (Level.QUORUM, (1, 2), False),
        (Level.QUORUM, (1, 2, 99), False),
    ],
)
def test_a_level_says_how_many_of_each_group(level, applied, enough):
    """Of any three out of four nodes two must be among those that applied it."""
    before = three_replicas(Step.PREPARE)

    outcome = execute(with_barrier(before, applied_by(*applied, level=level)), before)

    accepted(outcome) if enough else rejected(outcome, Reason.BARRIER_NOT_PASSED)


def two_datacenters(step):
    """Odd nodes are in dc1, even ones in dc2; each range has three owners in each."""
    before = joined_cluster(
        nodes=8,
        replication=Network({"dc1": 3, "dc2": 3}),
        places=spread(9, datacenters=2),
        spare=1,
    )
    return in_step(before, SequenceKind.JOIN, step)


@pytest.mark.parametrize(
    ("level", "enough"), [(Level.EACH_QUORUM, False), (Level.QUORUM, True), (Level.ALL, False)]
)
def test_each_quorum_counts_by_datacenter(level, enough):
    """All of dc1 and one node of dc2: a majority of every group, and of dc2 in none."""
    before = two_datacenters(Step.PREPARE)
    applied = applied_by(1, 3, 5, 7, 2, level=level)

    outcome = execute(with_barrier(before, applied), before)

    accepted(outcome) if enough else rejected(outcome, Reason.BARRIER_NOT_PASSED)


def test_each_quorum_needs_no_more_than_a_majority_of_each_datacenter():
    before = two_datacenters(Step.PREPARE)

    accepted(execute(with_barrier(before, applied_by(1, 3, 5, 2, 4, 6)), before))


def test_a_majority_of_the_union_is_not_enough():
    """Nodes 1, 2 and 4 are three of the five that read or write, and only one of (2, 3)."""
    before = joining(Step.START)
    short = with_barrier(before, applied_by(1, 2, 4))

    refused = rejected(execute(short, before), Reason.BARRIER_NOT_PASSED)

    assert "[3]" in refused.detail


def removal(dead, step):
    before = joined_cluster(nodes=5)
    leaving = commit(before, PrepareLeave(node=NodeId(2), dead=tuple(map(NodeId, dead))))
    return advanced_to(leaving, step)


@pytest.mark.parametrize("step", BEHIND)
def test_dead_nodes_have_no_vote(step):
    before = removal([2], step)

    assert all(2 not in group for group in groups(before))
    accepted(execute(due_step(before, only_sequence(before)), before))


def test_the_vote_of_a_dead_node_counts_for_nothing():
    """Node 4 has not applied it, and node 2, which has, cannot make up for it."""
    before = removal([2], Step.PREPARE)
    sequence = only_sequence(before)
    level = Level.ALL

    short = StartLeave(sequence=sequence.id, barrier=applied_by(1, 2, 3, 5, level=level))
    full = StartLeave(sequence=sequence.id, barrier=applied_by(1, 3, 4, 5, level=level))

    rejected(execute(short, before), Reason.BARRIER_NOT_PASSED)
    accepted(execute(full, before))


def test_a_group_of_dead_nodes_alone_does_not_vote():
    before = joined_cluster(nodes=3, replication=ONE)
    lossy = PrepareLeave(node=NodeId(2), dead=(NodeId(2),), accept_loss="its disk burned")
    leaving = commit(before, lossy)

    assert groups(leaving) == {(3,)}


def test_every_target_must_see_its_session_close_before_finish():
    """A majority is not enough: a target that lags could still import under the old permit."""
    before = three_replicas(Step.MID)
    sequence = only_sequence(before)
    without = everyone_applied(before, sequence, but=[5])

    refused = rejected(
        execute(FinishJoin(sequence=sequence.id, barrier=without), before),
        Reason.BARRIER_NOT_PASSED,
    )

    assert "every target of the closed session" in refused.detail
    assert "[5]" in refused.detail


def test_every_target_must_see_its_session_close_before_retire_after_cancel():
    before = advanced_to(three_replicas(Step.START), Step.CANCEL)
    sequence = only_sequence(before)
    without = everyone_applied(before, sequence, but=[5])

    refused = rejected(
        execute(RetireSequence(sequence=sequence.id, barrier=without), before),
        Reason.BARRIER_NOT_PASSED,
    )

    assert "[5]" in refused.detail


@pytest.mark.parametrize("step", [Step.START, Step.FINISH])
def test_where_no_session_closes_a_majority_is_enough(step):
    before = three_replicas(step)
    sequence = only_sequence(before)

    accepted(execute(with_barrier(before, everyone_applied(before, sequence, but=[5])), before))


def test_a_cancel_before_start_closes_no_session():
    before = advanced_to(three_replicas(Step.PREPARE), Step.CANCEL)
    without = everyone_applied(before, only_sequence(before), but=[5])

    accepted(execute(with_barrier(before, without), before))


def test_a_leave_waits_for_all_its_targets():
    """Nodes 3, 4 and 5 each gain a range that node 2 gives up."""
    before = removal([], Step.MID)
    sequence = only_sequence(before)
    targets = sorted({node for plan in sequence.plans for _, node in plan.gains()})

    for target in targets:
        without = everyone_applied(before, sequence, but=[target])
        rejected(execute(with_barrier(before, without), before), Reason.BARRIER_NOT_PASSED)

    assert targets == [3, 4, 5]


def test_evidence_that_is_not_asked_for_is_not_held_against_a_step():
    before = in_step(joined_cluster(nodes=5, spare=1, tables=0), SequenceKind.JOIN, Step.PREPARE)

    nobody = Evidence(Level.ALL, ())
    accepted(execute(StartJoin(sequence=only_sequence(before).id, barrier=nobody), before))


def test_the_first_node_votes_for_itself():
    before = joined_cluster(nodes=0, replication=ONE, spare=1)
    founding = commit(before, PrepareJoin(node=NodeId(1), tokens=(Token(0),)))

    assert groups(founding) == {(1,)}
    rejected(execute(with_barrier(founding, applied_by()), founding), Reason.BARRIER_NOT_PASSED)
    accepted(execute(with_barrier(founding, applied_by(1)), founding))


def test_evidence_comes_before_receipts():
    """Who has not seen START cannot have been a source in the sense of START."""
    before = three_replicas(Step.START)

    rejected(execute(MidJoin(sequence=only_sequence(before).id), before), Reason.BARRIER_MISSING)


def test_a_cancelled_sequence_may_be_retired_once_the_others_know():
    before = advanced_to(three_replicas(Step.MID), Step.CANCEL)
    sequence = only_sequence(before)

    after = commit(before, due_step(before, sequence))

    assert len(after.sequences.in_progress) == 0
    rejected(execute(CancelSequence(sequence=sequence.id), after), Reason.UNKNOWN_SEQUENCE)
