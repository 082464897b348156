"""Ending a sequence although some of its voters died after FINISH."""

from __future__ import annotations

import pytest

from metadata.directory import NodeId
from metadata.invariants import violations
from metadata.plans import Step
from metadata.schema import Simple
from metadata.sequences import SequenceKind
from tests.builders import (
    applied_by,
    commit,
    everyone_applied,
    in_step,
    joined_cluster,
    only_sequence,
    rejected,
)
from transformations.ending import CancelSequence, RetireSequence
from transformations.kinds import execute
from transformations.leave import PrepareLeave
from transformations.outcome import Reason


def finished(replicas):
    """Node 1 of five has left, and the leave waits to be retired."""
    return in_step(joined_cluster(nodes=5, replication=Simple(replicas)), *LEFT)


LEFT = (SequenceKind.LEAVE, Step.FINISH)


def retire(metadata, *, but, dead=()):
    sequence = only_sequence(metadata)
    barrier = everyone_applied(metadata, sequence, but=but)
    return RetireSequence(sequence=sequence.id, barrier=barrier, dead=tuple(map(NodeId, dead)))


@pytest.mark.parametrize(("replicas", "dead"), [(1, [1]), (3, [1, 2])])
def test_nodes_that_die_after_finish_can_be_declared_dead(replicas, dead):
    """Nothing can turn the sequence back any more, so it must be possible to end it."""
    waiting = finished(replicas)
    rejected(execute(retire(waiting, but=dead), waiting), Reason.BARRIER_NOT_PASSED)
    gone = tuple(map(NodeId, dead))
    cancel = CancelSequence(sequence=only_sequence(waiting).id, dead=gone)
    rejected(execute(cancel, waiting), Reason.WRONG_STEP)

    after = commit(waiting, retire(waiting, but=dead, dead=dead))

    assert not after.locks.held
    assert not after.sequences.in_progress
    assert list(violations(after)) == []
    commit(after, PrepareLeave(node=NodeId(4), dead=gone, force=True, accept_loss="a drill"))


@pytest.mark.parametrize("kind", SequenceKind)
@pytest.mark.parametrize("step", [Step.FINISH, Step.CANCEL])
def test_it_leads_where_the_barrier_would_have_led(kind, step):
    waiting = in_step(joined_cluster(nodes=5, spare=1), kind, step)

    after = commit(waiting, retire(waiting, but=[2, 3], dead=[2, 3]))

    assert after.digest == commit(waiting, retire(waiting, but=[])).digest


def test_those_that_live_must_still_have_applied_the_step():
    waiting = finished(3)
    sequence = only_sequence(waiting).id
    dead = (NodeId(1), NodeId(2))

    bare = RetireSequence(sequence=sequence, dead=dead)
    thin = RetireSequence(sequence=sequence, dead=dead, barrier=applied_by(3))

    rejected(execute(bare, waiting), Reason.BARRIER_MISSING)
    rejected(execute(thin, waiting), Reason.BARRIER_NOT_PASSED)


def test_who_has_applied_the_step_is_not_dead():
    waiting = finished(3)

    refused = rejected(execute(retire(waiting, but=[1], dead=[1, 2]), waiting), Reason.WRONG_STATE)

    assert "[2]" in refused.detail


def test_declares_dead_only_who_is_known():
    waiting = finished(3)

    rejected(execute(retire(waiting, but=[], dead=[9]), waiting), Reason.UNKNOWN_NODE)


def test_a_target_that_died_after_the_cancel_is_not_waited_for():
    started = in_step(joined_cluster(nodes=4, spare=1), SequenceKind.JOIN, Step.START)
    waiting = commit(started, CancelSequence(sequence=only_sequence(started).id))
    rejected(execute(retire(waiting, but=[5]), waiting), Reason.BARRIER_NOT_PASSED)

    after = commit(waiting, retire(waiting, but=[5], dead=[5]))

    assert not after.locks.held
