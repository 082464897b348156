"""What the later steps of every sequence have in common."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from metadata.directory import NodeId
from metadata.locks import SequenceId
from metadata.plans import Step
from metadata.schema import Simple
from metadata.sequences import SequenceKind
from metadata.sessions import Purpose
from metadata.tokens import Token
from tests.builders import (
    STEPS,
    accepted,
    advanced,
    advanced_to,
    commit,
    due_step,
    in_step,
    joined_cluster,
    keyspace,
    only_sequence,
    preparation,
    reads,
    rejected,
    writes,
)
from transformations.ending import CancelSequence, RetireSequence
from transformations.kinds import execute
from transformations.leave import PrepareLeave
from transformations.outcome import Reason

FORWARD = [Step.PREPARE, Step.START, Step.MID, Step.FINISH]
ALL_STEPS: dict[tuple, type] = {
    **{
        (kind, step): transformation
        for kind, transformations in STEPS.items()
        for step, transformation in zip(FORWARD[1:], transformations, strict=True)
    },
    (None, Step.RETIRE): RetireSequence,
}


def cluster():
    return joined_cluster(nodes=5, spare=1)


@pytest.mark.parametrize("step", [*FORWARD, Step.CANCEL])
@pytest.mark.parametrize("kind", SequenceKind)
def test_only_the_step_due_is_taken(kind, step):
    """No step is skipped, taken twice or taken by a transformation of another kind."""
    before = in_step(cluster(), kind, step)
    sequence = only_sequence(before)
    due = type(due_step(before, sequence))

    for transformation in ALL_STEPS.values():
        outcome = execute(transformation(sequence=sequence.id), before)
        if transformation is due:
            continue
        refused = rejected(outcome, Reason.WRONG_STEP)
        assert (refused.sequence, refused.step) == (sequence.id, sequence.due)
        assert f"next step is {sequence.due}" in refused.detail
        assert refused.remedy == f"commit {sequence.due} of sequence {sequence.id}"
    accepted(execute(due_step(before, sequence), before))


@pytest.mark.parametrize("transformation", [*ALL_STEPS.values(), CancelSequence])
def test_refuses_a_sequence_that_is_not_in_progress(transformation):
    before = in_step(cluster(), SequenceKind.JOIN, Step.RETIRE)

    outcome = execute(transformation(sequence=SequenceId(before.epoch - 4)), before)

    rejected(outcome, Reason.UNKNOWN_SEQUENCE)


@pytest.mark.parametrize("step", [Step.FINISH, Step.CANCEL])
@pytest.mark.parametrize("kind", SequenceKind)
def test_after_finish_or_cancel_only_retire_is_left(kind, step):
    before = in_step(cluster(), kind, step)
    sequence = only_sequence(before)

    refused = rejected(execute(CancelSequence(sequence=sequence.id), before), Reason.WRONG_STEP)

    assert refused.step is sequence.due is Step.RETIRE


@pytest.mark.parametrize("kind", SequenceKind)
def test_every_step_is_recorded_with_its_epoch(kind):
    prepared = in_step(cluster(), kind, Step.PREPARE)

    finished = advanced_to(prepared, Step.FINISH)

    sequence = only_sequence(finished)
    assert [item.step for item in sequence.taken] == FORWARD
    assert [item.epoch for item in sequence.taken] == [sequence.id + n for n in range(4)]
    assert sequence.epoch_of(Step.MID) == sequence.id + 2
    assert sequence.epoch_of(Step.CANCEL) is None
    assert sequence.last_epoch == finished.epoch


@pytest.mark.parametrize("kind", SequenceKind)
def test_the_plan_never_changes(kind):
    prepared = in_step(cluster(), kind, Step.PREPARE)

    for step in (Step.START, Step.MID, Step.FINISH):
        later = advanced_to(prepared, step)

        assert only_sequence(later).plans == only_sequence(prepared).plans


@pytest.mark.parametrize("step", [Step.START, Step.MID, Step.FINISH, Step.CANCEL])
@pytest.mark.parametrize("kind", SequenceKind)
def test_ranges_stay_locked_until_retire(kind, step):
    prepared = in_step(cluster(), kind, Step.PREPARE)
    sequence = only_sequence(prepared)

    later = advanced_to(prepared, step)
    retired = advanced_to(later, Step.RETIRE) if step is not Step.CANCEL else advanced(later)

    assert later.locks is prepared.locks
    assert sequence.id not in retired.locks.held
    assert sequence.id not in retired.sequences.in_progress


@pytest.mark.parametrize("kind", SequenceKind)
def test_every_step_affects_what_is_locked(kind):
    before = in_step(cluster(), kind, Step.PREPARE)
    locked = before.locks.held[only_sequence(before).id]

    for _ in range(4):
        outcome = accepted(execute(due_step(before, only_sequence(before)), before))
        before = outcome.after

        assert outcome.affected == locked


@pytest.mark.parametrize("kind", SequenceKind)
def test_retire_changes_no_placement_and_no_node(kind):
    finished = in_step(cluster(), kind, Step.FINISH)

    retired = advanced(finished)

    assert retired.placements is finished.placements
    assert retired.directory is finished.directory
    assert retired.ring is finished.ring


@pytest.mark.parametrize("kind", SequenceKind)
def test_neighbouring_steps_differ_in_reads_or_in_writes(kind):
    before = in_step(cluster(), kind, Step.PREPARE)
    versions = [before, *(advanced_to(before, step) for step in (Step.START, Step.MID))]

    for earlier, later in pairwise(versions):
        assert (reads(earlier) == reads(later)) != (writes(earlier) == writes(later))


@pytest.mark.parametrize("kind", SequenceKind)
def test_start_opens_a_session_for_whoever_gains_ranges(kind):
    prepared = in_step(cluster(), kind, Step.PREPARE)

    outcome = accepted(execute(due_step(prepared, only_sequence(prepared)), prepared))

    started = only_sequence(outcome.after)
    (session,) = outcome.after.sessions.open.values()
    gains = {node for plan in started.plans for _, node in plan.gains()}
    assert started.session == session.id == outcome.result.session == outcome.after.epoch
    assert session.purpose is Purpose.MOVEMENT
    assert session.sequence == started.id
    assert set(session.nodes) == gains
    assert all(
        any(change.range.intersects(span) for span in session.ranges)
        for plan in started.plans
        for change, _ in plan.gains()
    )


@pytest.mark.parametrize("step", [Step.MID, Step.CANCEL])
@pytest.mark.parametrize("kind", SequenceKind)
def test_mid_or_cancel_closes_the_session(kind, step):
    started = in_step(cluster(), kind, Step.START)

    closed = advanced_to(started, step)

    assert len(started.sessions.open) == 1
    assert len(closed.sessions.open) == 0


def test_cancel_before_start_closes_nothing():
    prepared = in_step(cluster(), SequenceKind.JOIN, Step.PREPARE)

    after = advanced_to(prepared, Step.CANCEL)

    assert after.sessions is prepared.sessions


def test_a_group_has_a_new_epoch_only_where_its_members_change():
    """Split ranges inherit, merged ones take the later; here one keyspace of each kind."""
    before = joined_cluster(nodes=3, replication=Simple(2), spare=1)
    old = before.placements.placed[Simple(2).key].reads.groups[0].epoch

    prepared = in_step(before, SequenceKind.JOIN, Step.PREPARE)
    finished = advanced_to(prepared, Step.FINISH)

    sequence = only_sequence(finished)
    start, mid, finish = (sequence.epoch_of(step) for step in FORWARD[1:])
    split = prepared.placements.placed[Simple(2).key]
    after = finished.placements.placed[Simple(2).key]
    assert {group.epoch for _, group in (*split.read_groups(), *split.write_groups())} == {old}
    assert [group.epoch for _, group in after.read_groups()] == [mid, mid, old, old, mid]
    assert [group.epoch for _, group in after.write_groups()] == [finish, finish, old, old, finish]
    assert start is not None


def test_a_merged_range_takes_the_later_epoch():
    before = joined_cluster(nodes=4, replication=Simple(2))
    old = before.placements.placed[Simple(2).key].reads.groups[0].epoch

    left = in_step(before, SequenceKind.LEAVE, Step.RETIRE)

    mid = left.epoch - 2
    groups = left.placements.placed[Simple(2).key].reads
    assert [(span.right, group.epoch) for span, group in groups.items()] == [
        (200, mid),
        (300, old),
        (400, mid),
        (-(2**63), mid),
    ]


def test_all_placements_move_together():
    before = commit(cluster(), *keyspace(Simple(1), "one"), *keyspace(Simple(2), "two", tables=0))

    after = in_step(before, SequenceKind.JOIN, Step.RETIRE)

    new = NodeId(6)
    for replication in (Simple(1), Simple(2), Simple(3)):
        assert new in reads(after, replication)[100, 150]


def test_a_step_touches_only_what_it_must():
    before = in_step(cluster(), SequenceKind.JOIN, Step.PREPARE)
    expected = {
        Step.START: {"directory", "placements", "sequences", "sessions"},
        Step.MID: {"placements", "sequences", "sessions"},
        Step.FINISH: {"directory", "placements", "ring", "sequences"},
        Step.RETIRE: {"locks", "sequences"},
    }

    for step, components in expected.items():
        after = advanced_to(before, step)

        changed = {name for name, item in after.components() if item.epoch == after.epoch}
        assert changed == components, step


def stamped_in_vain(before, after):
    """Components that say they changed and have the content they had."""
    return [
        name
        for name, item in after.components()
        if item.epoch == after.epoch
        and msgspec.structs.replace(item, epoch=getattr(before, name).epoch).digest
        == getattr(before, name).digest
    ]


@pytest.mark.parametrize("nodes", [3, 5])
@pytest.mark.parametrize("replication", [None, Simple(2), Simple(3)])
@pytest.mark.parametrize("kind", SequenceKind)
def test_a_component_says_it_changed_only_if_it_did(kind, replication, nodes):
    before = joined_cluster(nodes=nodes, replication=replication, spare=1, tables=0)
    prepare = PrepareLeave(node=NodeId(1), force=True)
    version = commit(before, prepare if kind is SequenceKind.LEAVE else preparation(before, kind))
    history = [before, version]

    while len(version.sequences.in_progress):
        if only_sequence(version).due is not Step.RETIRE:
            turned = advanced_to(version, Step.CANCEL)
            assert not stamped_in_vain(version, turned)
            assert not stamped_in_vain(turned, advanced(turned))
        version = advanced(version)
        history.append(version)

    assert not [stamped_in_vain(*pair) for pair in pairwise(history) if stamped_in_vain(*pair)]


def test_the_primary_of_a_range_is_the_owner_of_its_right_token():
    ring = joined_cluster(nodes=3).ring

    primaries = [ring.primary_of(Token(right)) for right in (100, 150, 300, 301, -(2**63))]

    assert primaries == [1, 2, 3, 1, 1]
