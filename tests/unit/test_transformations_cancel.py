"""Turning back, from every step before FINISH."""

from __future__ import annotations

import pytest

from metadata.directory import NodeId, NodeState
from metadata.plans import Step
from metadata.schema import Network, Simple
from metadata.sequences import SequenceKind
from metadata.tokens import MAXIMUM, MINIMUM, Token
from tests.builders import (
    advanced_to,
    cancelled,
    commit,
    due_step,
    everyone_applied,
    founded,
    in_step,
    joined_cluster,
    keyspace,
    only_sequence,
    preparation,
    reads,
    registration,
    rejected,
    state_of,
    writes,
)
from transformations.ending import CancelSequence, RetireSequence
from transformations.join import PrepareJoin
from transformations.kinds import AnyTransformation, execute
from transformations.leave import Assassinate, PrepareLeave
from transformations.move import PrepareMove
from transformations.outcome import Reason
from transformations.replace import PrepareReplace

BEFORE_FINISH = [Step.PREPARE, Step.START, Step.MID]
EDGES = (Token(MINIMUM), Token(MINIMUM + 1), Token(MAXIMUM))


def assert_restored(before, after):
    """Everything but epochs is as it was before the sequence, and nothing is held."""
    assert owners(after) == owners(before)
    assert after.ring is before.ring
    assert states(after) == states(before)
    assert not len(after.locks.held)
    assert not len(after.sequences.in_progress)
    assert not len(after.sessions.open)


def owners(metadata):
    return {
        key: [
            [(span, group.owners) for span, group in side]
            for side in (placement.read_groups(), placement.write_groups())
        ]
        for key, placement in metadata.placements.items()
    }


def states(metadata):
    return {node.id: node.state for node in metadata.directory.nodes.values()}


@pytest.mark.parametrize("step", BEFORE_FINISH)
@pytest.mark.parametrize("kind", SequenceKind)
@pytest.mark.parametrize("tables", [0, 1])
def test_restores_owners_states_and_locks(kind, step, tables):
    before = commit(
        joined_cluster(nodes=5, spare=1, tables=tables), *keyspace(Simple(1), "one", tables=tables)
    )

    after = cancelled(in_step(before, kind, step))

    assert_restored(before, after)


@pytest.mark.parametrize("step", BEFORE_FINISH)
def test_restores_the_empty_ring_of_a_first_join(step):
    before = commit(founded(), *keyspace(Simple(3)), registration(1))
    joining = commit(before, PrepareJoin(node=NodeId(1), tokens=(Token(0), Token(50))))

    after = cancelled(advanced_to(joining, step))

    assert_restored(before, after)
    assert reads(after) == {}


@pytest.mark.parametrize("step", BEFORE_FINISH)
@pytest.mark.parametrize("replication", [Simple(3), Network({"dc9": 3})])
def test_restores_everything_to_the_last_node(step, replication):
    before = joined_cluster(nodes=1, replication=replication)
    leaving = commit(before, PrepareLeave(node=NodeId(1), force=True, accept_loss="given up"))

    after = cancelled(advanced_to(leaving, step))

    assert_restored(before, after)


@pytest.mark.parametrize("step", BEFORE_FINISH)
@pytest.mark.parametrize("token", EDGES)
@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("kind", SequenceKind)
def test_restores_the_edges_of_the_ring(kind, factor, token, step):
    """The node that comes, goes or is replaced has the token at the edge."""
    leaving = kind in (SequenceKind.LEAVE, SequenceKind.REPLACE)
    tokens = [[token] if leaving else [50], [200], [300], [400]]
    before = joined_cluster(4, Simple(factor), tokens=tokens, spare=1)
    first, spare = NodeId(1), NodeId(5)
    prepare: dict[SequenceKind, AnyTransformation] = {
        SequenceKind.JOIN: PrepareJoin(node=spare, tokens=(token,)),
        SequenceKind.LEAVE: PrepareLeave(node=first),
        SequenceKind.MOVE: PrepareMove(node=first, tokens=(token,)),
        SequenceKind.REPLACE: PrepareReplace(node=spare, replaced=first),
    }

    after = cancelled(advanced_to(commit(before, prepare[kind]), step))

    assert_restored(before, after)


@pytest.mark.parametrize("step", BEFORE_FINISH)
@pytest.mark.parametrize("kind", SequenceKind)
def test_moves_reads_back_at_once_and_keeps_the_writers(kind, step):
    before = joined_cluster(nodes=5, spare=1)
    moving = in_step(before, kind, step)

    cancelling = advanced_to(moving, Step.CANCEL)

    prepared = in_step(before, kind, Step.PREPARE)
    assert reads(cancelling) == reads(prepared)
    assert writes(cancelling) == writes(moving)
    assert only_sequence(cancelling).cancelled
    assert cancelling.locks is moving.locks


@pytest.mark.parametrize(
    ("kind", "node", "during", "after"),
    [
        (SequenceKind.JOIN, 6, NodeState.BOOTSTRAPPING, NodeState.REGISTERED),
        (SequenceKind.REPLACE, 6, NodeState.BOOT_REPLACING, NodeState.REGISTERED),
        (SequenceKind.MOVE, 1, NodeState.MOVING, NodeState.JOINED),
        (SequenceKind.LEAVE, 1, NodeState.LEAVING, NodeState.JOINED),
    ],
)
def test_states_go_back_at_retire(kind, node, during, after):
    cancelling = advanced_to(
        in_step(joined_cluster(nodes=5, spare=1), kind, Step.START), Step.CANCEL
    )

    retired = commit(cancelling, due_step(cancelling, only_sequence(cancelling)))

    assert state_of(cancelling, node) is during
    assert state_of(retired, node) is after


def test_a_node_that_had_left_is_registered_again():
    before = commit(joined_cluster(nodes=4, tables=0), Assassinate(node=NodeId(4)))
    joining = commit(before, PrepareJoin(node=NodeId(4), tokens=(Token(50),)))

    after = cancelled(joining)

    assert state_of(after, 4) is NodeState.REGISTERED


@pytest.mark.parametrize("kind", SequenceKind)
def test_the_same_can_be_prepared_again(kind):
    before = joined_cluster(nodes=5, spare=1)

    again = in_step(cancelled(in_step(before, kind, Step.MID)), kind, Step.RETIRE)

    assert owners(again) == owners(in_step(before, kind, Step.RETIRE))


def test_asks_for_no_barrier_but_checks_the_one_it_gets():
    """A sequence that waits for a node that will not answer must be possible to cancel."""
    started = in_step(joined_cluster(nodes=4, spare=1), SequenceKind.JOIN, Step.START)
    sequence = only_sequence(started)
    nobody = everyone_applied(started, sequence, but=started.directory.nodes)

    refused = rejected(
        execute(CancelSequence(sequence=sequence.id, barrier=nobody), started),
        Reason.BARRIER_NOT_PASSED,
    )

    assert refused.sequence == sequence.id
    commit(started, CancelSequence(sequence=sequence.id))
    commit(
        started,
        CancelSequence(sequence=sequence.id, barrier=everyone_applied(started, sequence)),
    )


def test_retiring_after_a_cancel_waits_for_its_barrier():
    cancelling = in_step(joined_cluster(nodes=4, spare=1), SequenceKind.JOIN, Step.CANCEL)

    rejected(
        execute(RetireSequence(sequence=only_sequence(cancelling).id), cancelling),
        Reason.BARRIER_MISSING,
    )


def test_declares_nodes_dead_that_will_not_answer():
    """Node 5 joined, died, and cannot say that it saw its session close."""
    started = in_step(joined_cluster(nodes=4, spare=1), SequenceKind.JOIN, Step.START)
    sequence = only_sequence(started)

    waiting = commit(started, CancelSequence(sequence=sequence.id))
    given_up = commit(started, CancelSequence(sequence=sequence.id, dead=(NodeId(5),)))

    retire = RetireSequence(
        sequence=sequence.id, barrier=everyone_applied(waiting, only_sequence(waiting), but=[5])
    )
    refused = rejected(execute(retire, waiting), Reason.BARRIER_NOT_PASSED)
    assert "[5]" in refused.detail
    assert only_sequence(given_up).dead == (5,)
    commit(given_up, retire)


@pytest.mark.parametrize("step", [Step.START, Step.MID])
def test_who_dies_after_the_cancel_can_still_be_declared_dead(step):
    """Otherwise retiring would wait for ever, and the ranges stay reserved."""
    waiting = in_step(joined_cluster(nodes=4, spare=1), SequenceKind.JOIN, step)
    sequence = only_sequence(waiting).id
    waiting = commit(waiting, CancelSequence(sequence=sequence))

    given_up = commit(waiting, CancelSequence(sequence=sequence, dead=(NodeId(5),)))

    assert only_sequence(given_up).dead == (5,)
    assert given_up.placements == waiting.placements
    barrier = everyone_applied(given_up, only_sequence(given_up), but=[5])
    assert not commit(given_up, RetireSequence(sequence=sequence, barrier=barrier)).locks.held


def test_a_second_cancel_that_says_nothing_new_is_refused():
    waiting = in_step(joined_cluster(nodes=4, spare=1), SequenceKind.JOIN, Step.START)
    sequence = only_sequence(waiting).id
    cancel = CancelSequence(sequence=sequence, dead=(NodeId(5),))
    waiting = commit(waiting, cancel)

    rejected(execute(cancel, waiting), Reason.WRONG_STEP)
    rejected(execute(CancelSequence(sequence=sequence), waiting), Reason.WRONG_STEP)


def test_declares_dead_only_who_is_known():
    started = in_step(joined_cluster(nodes=4, spare=1), SequenceKind.JOIN, Step.START)
    cancel = CancelSequence(sequence=only_sequence(started).id, dead=(NodeId(9),))

    rejected(execute(cancel, started), Reason.UNKNOWN_NODE)


def test_what_is_declared_dead_adds_to_what_was():
    prepare = PrepareLeave(node=NodeId(2), dead=(NodeId(2),))
    leaving = commit(joined_cluster(nodes=5), prepare)

    after = commit(
        leaving, CancelSequence(sequence=only_sequence(leaving).id, dead=(NodeId(4), NodeId(2)))
    )

    assert only_sequence(after).dead == (2, 4)


@pytest.mark.parametrize("kind", SequenceKind)
def test_without_keyspaces_only_states_go_back(kind):
    before = joined_cluster(nodes=3, replication=None, spare=1)
    prepared = commit(before, preparation(before, kind))

    after = cancelled(advanced_to(prepared, Step.MID))

    assert_restored(before, after)
    assert after.placements is before.placements
