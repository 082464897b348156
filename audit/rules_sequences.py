"""Rules about sequences: legal order of steps, locks, sessions."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from audit.transition import AT_ONCE, Transition
from metadata.cluster import ClusterMetadata
from metadata.locks import AffectedRanges, SequenceId
from metadata.plans import Step
from metadata.sequences import Sequence, Taken
from metadata.sessions import Purpose, Session
from metadata.tokens import Range, position


def step_order(found: Transition) -> Iterator[str]:
    """One sequence takes one step, the one that is due or CANCEL before FINISH."""
    before, after = found.before.sequences.in_progress, found.after.sequences.in_progress
    touched = [
        (item, before.get(item), after.get(item))
        for item in sorted({*before, *after})
        if before.get(item) is not after.get(item)
    ]
    if found.step is not None and not touched:
        yield f"{found.kind} took no step of any sequence"
    for item, old, new in touched:
        fault = _step_fault(found, item, old, new)
        if fault is not None:
            yield f"sequence {item}: {fault}"


def _step_fault(
    found: Transition, item: SequenceId, old: Sequence | None, new: Sequence | None
) -> str | None:
    if old is None:
        assert new is not None, item
        prepared = (Taken(Step.PREPARE, found.epoch),)
        right = found.step is Step.PREPARE and int(item) == found.epoch and new.taken == prepared
        return None if right else f"{found.kind} at epoch {found.epoch} is not its PREPARE"
    named = getattr(found.entry.transformation, "sequence", None)
    if named != item:
        return f"{found.kind} does not name it and changed it"
    if new is None:
        ended = found.step is Step.RETIRE and old.due is Step.RETIRE
        return None if ended else f"{found.kind} ended it, and {old.due} was due"
    return _next_fault(found, old, new) or _plan_fault(found, old, new)


def _next_fault(found: Transition, old: Sequence, new: Sequence) -> str | None:
    step = found.step
    if step is None:
        return f"{found.kind} is no step and changed it"
    gives_up = old.cancelled and set(old.dead) < set(new.dead)
    cancels = step is Step.CANCEL and (old.due is not Step.RETIRE or gives_up)
    if step is not old.due and not cancels:
        return f"{step} was taken, and {old.due} was due"
    if new.taken != (*old.taken, Taken(step, found.epoch)):
        return f"it does not remember that {step} was taken at epoch {found.epoch}"
    own = step in (Step.CANCEL, Step.RETIRE) or found.kind.lower().endswith(str(old.kind))
    return None if own else f"{found.kind} is no step of a {old.kind}"


def _plan_fault(found: Transition, old: Sequence, new: Sequence) -> str | None:
    """What was planned is what is done; START notes the session, CANCEL may add dead nodes."""
    session = new.session if found.step is Step.START else old.session
    dead = new.dead if found.step is Step.CANCEL else old.dead
    kept = msgspec.structs.replace(old, session=session, dead=dead, taken=new.taken)
    if kept != new or not set(old.dead) <= set(new.dead):
        return "its plan is not the one that was prepared"
    return None


def locks(found: Transition) -> Iterator[str]:
    """Locks come with PREPARE, go with RETIRE, stay as they are and exclude each other."""
    before, after = found.before.locks.held, found.after.locks.held
    for item in sorted({*before, *after}):
        old, new = before.get(item), after.get(item)
        if old is new:
            continue
        if new is None:
            if found.step is not Step.RETIRE or found.after.sequences.find(item) is not None:
                yield f"the lock of sequence {item} went before the sequence was retired"
        elif old is not None:
            yield f"the lock of sequence {item} changed while it was held"
        else:
            yield from _acquired(found, item, new)


def _acquired(found: Transition, item: SequenceId, lock: AffectedRanges) -> Iterator[str]:
    sequence = found.after.sequences.find(item)
    if found.step is not Step.PREPARE or sequence is None or int(item) != found.epoch:
        yield f"{found.kind} acquired a lock for sequence {item}"
        return
    conflict = found.before.locks.conflict_with(lock)
    if conflict is not None:
        yield f"sequences {conflict.sequence} and {item} hold the same ranges"
    for change, key in ((x, plan.placement) for plan in sequence.plans for x in plan.changes):
        if not covered(change.range, lock.of(key)):
            yield f"sequence {item} is to change {change.range} of {key} without holding it"


def outside_lock(found: Transition) -> Iterator[str]:
    """A step changes owners only where its sequence holds the ranges, others where nobody does."""
    sequence = found.sequence
    if sequence is not None:
        own = found.before.locks.held.get(sequence.id) or AffectedRanges()
        for change in found.changes:
            if not covered(change.range, own.of(change.placement)):
                yield f"{change.range} of {change.placement} got other owners without a lock"
    elif found.kind in AT_ONCE:
        held = found.before.locks.held.items()
        for change, (item, lock) in ((x, y) for x in found.changes for y in held):
            if any(change.range.intersects(span) for span in lock.of(change.placement)):
                yield f"{change.range} got other owners while sequence {item} held it"


def covered(inner: Range, spans: tuple[Range, ...]) -> bool:
    return any(
        span.left <= inner.left and position(inner.right) <= position(span.right) for span in spans
    )


def sessions(found: Transition) -> Iterator[str]:
    """A session is opened by START or OpenSession; it closes with MID, CANCEL or CloseSession."""
    before, after = found.before.sessions.open, found.after.sessions.open
    for item in sorted({*before, *after}):
        old, new = before.get(item), after.get(item)
        if old is new:
            continue
        if old is not None and new is not None:
            yield f"session {item} changed while it was open"
        elif new is not None and not _opens(found, new):
            yield f"{found.kind} opened session {item} for {new.purpose}"
        elif old is not None and not _closes(found, old):
            yield f"{found.kind} closed session {item}, which is another's"
    sequence = found.sequence if found.step in (Step.MID, Step.CANCEL) else None
    if sequence is not None and sequence.session in after:
        yield f"session {sequence.session} stays open behind {found.step} of {sequence.id}"


def _opens(found: Transition, session: Session) -> bool:
    if int(session.id) != found.epoch:
        return False
    if session.purpose is not Purpose.MOVEMENT:
        return found.kind == "OpenSession" and session.sequence is None
    if session.sequence is None or found.step is not Step.START:
        return False
    owner = found.after.sequences.find(session.sequence)
    return owner is not None and owner.session == session.id


def _closes(found: Transition, session: Session) -> bool:
    if session.sequence is None:
        return getattr(found.entry.transformation, "session", None) == session.id
    named = getattr(found.entry.transformation, "sequence", None)
    return found.step in (Step.MID, Step.CANCEL) and named == session.sequence


def unfinished(after: ClusterMetadata) -> Iterator[str]:
    """At the end of a history: what is still in progress."""
    for sequence in after.sequences.in_progress.values():
        yield f"sequence {sequence.id} ({sequence.kind} of node {sequence.node}) is not over"
    for session in after.sessions.open.values():
        if session.sequence is None:
            yield f"session {session.id} ({session.purpose}) is open"
