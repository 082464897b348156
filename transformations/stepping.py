"""What the later steps of every sequence have in common: apply what was planned."""

from __future__ import annotations

from collections.abc import Sequence as Listed

import msgspec

from metadata.barriers import (
    Evidence,
    Level,
    closing_targets,
    shortfalls,
    targets,
    voter_groups,
)
from metadata.cluster import ClusterMetadata, Component
from metadata.directory import Directory, NodeState
from metadata.epoch import following
from metadata.locks import SequenceId
from metadata.placements import Placements
from metadata.plans import Step
from metadata.receipts import Receipt
from metadata.sequences import Sequence, SequenceKind
from metadata.sessions import Purpose, Session, SessionId, Sessions
from metadata.strategies import Owners
from metadata.tokens import coalesce
from transformations.interference import ring_after
from transformations.outcome import Accepted, Outcome, Reason, Rejected, Result
from transformations.preparing import placements_after
from transformations.receipts import receipts_refused

_STARTING = {
    SequenceKind.JOIN: NodeState.BOOTSTRAPPING,
    SequenceKind.REPLACE: NodeState.BOOT_REPLACING,
    SequenceKind.LEAVE: NodeState.LEAVING,
    SequenceKind.MOVE: NodeState.MOVING,
}
_FINISHED = {
    SequenceKind.JOIN: NodeState.JOINED,
    SequenceKind.REPLACE: NodeState.JOINED,
    SequenceKind.LEAVE: NodeState.LEFT,
    SequenceKind.MOVE: NodeState.JOINED,
}
_RESTORED = {
    SequenceKind.JOIN: NodeState.REGISTERED,
    SequenceKind.REPLACE: NodeState.REGISTERED,
    SequenceKind.LEAVE: NodeState.JOINED,
    SequenceKind.MOVE: NodeState.JOINED,
}


def start(
    metadata: ClusterMetadata, kind: SequenceKind, wanted: SequenceId, barrier: Evidence | None
) -> Outcome:
    """Add the writers, and open the session under which their rows are copied."""
    sequence = find_due(metadata, wanted, kind, Step.START)
    if isinstance(sequence, Rejected):
        return sequence
    refused = barrier_refused(metadata, sequence, barrier)
    if refused is not None:
        return refused

    epoch = following(metadata.epoch)
    directory = metadata.directory.with_state(sequence.node, _STARTING[sequence.kind])
    changed = sequence.after(Step.START, epoch)
    components: dict[str, Component] = {"directory": directory}
    gains = [pair for plan in sequence.plans for pair in plan.gains()]
    if gains:
        session = Session(
            id=SessionId(epoch),
            purpose=Purpose.MOVEMENT,
            nodes=targets(sequence),
            ranges=coalesce(change.range for change, _ in gains),
            sequence=sequence.id,
        )
        components["sessions"] = metadata.sessions.with_session(session)
        changed = msgspec.structs.replace(changed, session=session.id)
    return _accepted(metadata, changed, Step.START, components)


def mid(
    metadata: ClusterMetadata,
    kind: SequenceKind,
    wanted: SequenceId,
    barrier: Evidence | None,
    receipts: Listed[Receipt],
) -> Outcome:
    """Move the reads, once it is proved that the new readers have the rows."""
    sequence = find_due(metadata, wanted, kind, Step.MID)
    if isinstance(sequence, Rejected):
        return sequence
    refused = barrier_refused(metadata, sequence, barrier) or receipts_refused(
        metadata, sequence, receipts
    )
    if refused is not None:
        return refused

    changed = sequence.after(Step.MID, following(metadata.epoch))
    return _accepted(metadata, changed, Step.MID, _session_closed(metadata, sequence))


def finish(
    metadata: ClusterMetadata, kind: SequenceKind, wanted: SequenceId, barrier: Evidence | None
) -> Outcome:
    """Drop the old writers; the tokens change hands. The ranges stay reserved until RETIRE."""
    sequence = find_due(metadata, wanted, kind, Step.FINISH)
    if isinstance(sequence, Rejected):
        return sequence
    refused = barrier_refused(metadata, sequence, barrier)
    if refused is not None:
        return refused

    directory = metadata.directory.with_state(sequence.node, _FINISHED[sequence.kind])
    if sequence.replaced is not None:
        directory = directory.with_state(sequence.replaced, NodeState.LEFT)
    components: dict[str, Component] = {
        "directory": directory,
        "ring": ring_after(metadata.ring, sequence),
    }
    changed = sequence.after(Step.FINISH, following(metadata.epoch))
    return _accepted(metadata, changed, Step.FINISH, components)


def cancel(
    metadata: ClusterMetadata,
    sequence: Sequence,
    barrier: Evidence | None,
    dead: Owners,
) -> Outcome:
    """Move the reads back; the added writers stay until RETIRE.

    Evidence is checked where it is given but not asked for: whoever reads or writes by any
    version between START and CANCEL meets the others, and a sequence that waits for a node
    that will not answer must be possible to cancel.
    """
    refused = None if barrier is None else barrier_refused(metadata, sequence, barrier)
    if refused is not None:
        return refused

    changed = _without(sequence, dead).after(Step.CANCEL, following(metadata.epoch))
    return _accepted(metadata, changed, Step.CANCEL, _session_closed(metadata, sequence))


def retire(
    metadata: ClusterMetadata, sequence: Sequence, barrier: Evidence | None, dead: Owners
) -> Outcome:
    """Release the ranges; after CANCEL, drop the added writers and undo the split first."""
    refused = barrier_refused(metadata, _without(sequence, dead), barrier)
    if refused is not None:
        return refused

    components: dict[str, Component] = {
        "locks": metadata.locks.release(sequence.id),
        "sequences": metadata.sequences.without(sequence.id),
    }
    if sequence.cancelled:
        components["directory"] = _restored(metadata, sequence)
        if sequence.plans:
            components["placements"] = _undone(metadata, sequence)
    after = metadata.successor(**_changed(metadata, components))
    return Accepted(after=after, affected=metadata.locks.held[sequence.id])


def find_due(
    metadata: ClusterMetadata, wanted: SequenceId, kind: SequenceKind | None, step: Step
) -> Sequence | Rejected:
    """The sequence, if this step of it is the one to take next."""
    sequence = metadata.sequences.find(wanted)
    if sequence is None:
        return Rejected(Reason.UNKNOWN_SEQUENCE, f"no sequence {wanted} is in progress")
    fits = kind in (None, sequence.kind)
    cancellable = step is Step.CANCEL and sequence.due is not Step.RETIRE
    if fits and (sequence.due is step or cancellable):
        return sequence
    given = step if kind is None else f"{step} of a {kind}"
    return Rejected(
        Reason.WRONG_STEP,
        f"sequence {sequence.id} is a {sequence.kind} whose next step is {sequence.due}, "
        f"not {given}",
        f"commit {sequence.due} of sequence {sequence.id}",
        sequence=sequence.id,
        step=sequence.due,
    )


def barrier_refused(
    metadata: ClusterMetadata, sequence: Sequence, barrier: Evidence | None
) -> Rejected | None:
    """Refuse a step that others have not seen enough of the one before it to follow safely."""
    groups = voter_groups(metadata, sequence)
    if not groups:
        return None
    if barrier is None:
        return Rejected(
            Reason.BARRIER_MISSING,
            f"tables are affected: who has applied epoch {sequence.last_epoch}?",
            f"give barrier with level {Level.EACH_QUORUM} and the nodes that have applied it",
            sequence=sequence.id,
            step=sequence.due,
        )
    short = shortfalls(groups, barrier, metadata.locations())
    missing = sorted({node for item in short for node in item.missing})
    unclosed = sorted(set(closing_targets(sequence)) - set(barrier.applied))
    if not missing and not unclosed:
        return None
    why = "every target of the closed session" if unclosed else f"{barrier.level} of the owners"
    return Rejected(
        Reason.BARRIER_NOT_PASSED,
        f"epoch {sequence.last_epoch} must be applied by {why}; "
        f"not yet by nodes {unclosed or missing}",
        "wait until they have applied it",
        sequence=sequence.id,
        step=sequence.due,
    )


def _without(sequence: Sequence, dead: Owners) -> Sequence:
    """The sequence, in which these nodes have no vote any more."""
    return msgspec.structs.replace(sequence, dead=tuple(sorted({*sequence.dead, *dead})))


def _session_closed(metadata: ClusterMetadata, sequence: Sequence) -> dict[str, Component]:
    if sequence.session is None:
        return {}
    sessions: Sessions = metadata.sessions.without(sequence.session)
    return {"sessions": sessions}


def _accepted(
    metadata: ClusterMetadata, changed: Sequence, step: Step, components: dict[str, Component]
) -> Accepted:
    if changed.plans:
        components["placements"] = placements_after(metadata, changed, step)
    components["sequences"] = metadata.sequences.with_sequence(changed)
    after = metadata.successor(**_changed(metadata, components))
    result = Result(sequence=changed.id, session=changed.session if step is Step.START else None)
    return Accepted(after=after, affected=metadata.locks.held[changed.id], result=result)


def _changed(metadata: ClusterMetadata, components: dict[str, Component]) -> dict[str, Component]:
    """Only what differs from before: a step may find a state or an owner where it would put it."""
    return {
        name: component
        for name, component in components.items()
        if component.digest != getattr(metadata, name).digest
    }


def _restored(metadata: ClusterMetadata, sequence: Sequence) -> Directory:
    return metadata.directory.with_state(sequence.node, _RESTORED[sequence.kind])


def _undone(metadata: ClusterMetadata, sequence: Sequence) -> Placements:
    epoch = following(metadata.epoch)
    placed = metadata.placements.placed
    undone = {plan.placement: plan.undo(placed[plan.placement], epoch) for plan in sequence.plans}
    return metadata.placements.with_placements(undone)
