"""What every Prepare has in common: plan, reserve, prove, store."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from metadata.cluster import ClusterMetadata, Component
from metadata.directory import Directory, NodeId, NodeState
from metadata.epoch import following
from metadata.locks import AffectedRanges, SequenceId
from metadata.placements import Placements, RingPlacement
from metadata.plans import PlacementPlan, RangeChange, Step
from metadata.quorums import FORWARD
from metadata.receipts import enough_sources, sources_needed, thins_out
from metadata.ring import Ring
from metadata.sequences import Sequence, SequenceKind
from metadata.sessions import Purpose
from metadata.tokens import Token
from transformations.guards import conflicting, first_unknown, in_progress
from transformations.interference import interference, pending
from transformations.outcome import Accepted, Outcome, Reason, Rejected, Result
from transformations.planning import Plans, RingChange, plan, ring_change
from transformations.proofs import unproved


def prepare(
    metadata: ClusterMetadata,
    draft: Sequence,
    after: Ring,
    directory: Directory | None = None,
) -> Outcome:
    """Reserve what leads to the ring `after`, or say why it may not be.

    `draft` is the sequence without id and plan; `directory` is given where a state changes.
    Nothing is owned differently yet, so a crash straight after this entry leaves all data where
    it was.
    """
    unknown = first_unknown(metadata, draft.dead)
    if unknown is not None:
        return unknown
    change = ring_change(metadata, after)
    plans, ranges = plan(metadata, change)
    refused = (
        _in_the_way(metadata, change, ranges)
        or _cleanup_open(metadata, plans)
        or _sources_lost(metadata, draft, plans)
        or unproved(metadata, change, plans, ranges)
    )
    if refused is not None:
        return refused

    epoch = following(metadata.epoch)
    sequence = msgspec.structs.replace(
        draft, id=SequenceId(epoch), plans=tuple(plans.values())
    ).after(Step.PREPARE, epoch)
    components: dict[str, Component] = {}
    if any(item.splits for item in sequence.plans):
        components["placements"] = placements_after(metadata, sequence, Step.PREPARE)
    if directory is not None:
        components["directory"] = directory
    after_step = metadata.successor(
        locks=metadata.locks.acquire(sequence.id, ranges),
        sequences=metadata.sequences.with_sequence(sequence),
        **components,
    )
    return Accepted(after=after_step, affected=ranges, result=Result(sequence=sequence.id))


def at_once(
    metadata: ClusterMetadata, after: Ring, directory: Directory, accept_loss: str | None
) -> Outcome:
    """All steps in one epoch, without a copy: refused where that would lose rows."""
    change = ring_change(metadata, after)
    plans, ranges = plan(metadata, change)
    refused = (
        _in_the_way(metadata, change, ranges)
        or _cleanup_open(metadata, plans)
        or (_needs_steps(metadata, plans) if accept_loss is None else None)
        or unproved(metadata, change, plans, ranges)
    )
    if refused is not None:
        return refused

    changed = {
        key: _all_steps(metadata, item, metadata.placements.placed[key])
        for key, item in plans.items()
    }
    placements = metadata.placements.with_placements(changed)
    components: dict[str, Component] = {"placements": placements} if plans else {}
    after_all = metadata.successor(ring=after, directory=directory, **components)
    return Accepted(after=after_all, affected=ranges)


def _all_steps(
    metadata: ClusterMetadata, item: PlacementPlan, placement: RingPlacement
) -> RingPlacement:
    for step in FORWARD:
        placement = item.apply(step, placement, following(metadata.epoch))
    return placement


def placements_after(metadata: ClusterMetadata, sequence: Sequence, step: Step) -> Placements:
    epoch = following(metadata.epoch)
    placed = metadata.placements.placed
    changed = {
        item.placement: item.apply(step, placed[item.placement], epoch) for item in sequence.plans
    }
    return metadata.placements.with_placements(changed)


def busy(metadata: ClusterMetadata, node: NodeId) -> Rejected | None:
    sequence = metadata.sequences.of_node(node)
    return None if sequence is None else in_progress(sequence, f"node {node} is busy")


def wrong_state(node: NodeId, state: NodeState, hint: str) -> Rejected:
    return Rejected(Reason.WRONG_STATE, f"node {node} is {state}", hint)


def bad_tokens(
    metadata: ClusterMetadata, node: NodeId, tokens: tuple[Token, ...]
) -> Rejected | None:
    """Refuse tokens given twice, owned by another node or on their way to one."""
    seen: set[Token] = set()
    for token in tokens:
        if token in seen:
            return Rejected(Reason.DUPLICATE_TOKEN, f"token {token} is given twice")
        seen.add(token)
        owner = metadata.ring.owner_of(token)
        if owner not in (None, node):
            return Rejected(
                Reason.TOKEN_TAKEN,
                f"token {token} belongs to node {owner}",
                "take another token",
            )
    for sequence in pending(metadata):
        common = sorted(seen & set(sequence.tokens))
        if common:
            return Rejected(
                Reason.TOKEN_TAKEN,
                f"token {common[0]} is on its way to node {sequence.node}",
                "take another token",
                sequence=sequence.id,
                step=sequence.due,
            )
    return None


def _in_the_way(
    metadata: ClusterMetadata, change: RingChange, ranges: AffectedRanges
) -> Rejected | None:
    conflict = metadata.locks.conflict_with(ranges) or interference(metadata, change)
    return None if conflict is None else conflicting(metadata, conflict)


def _cleanup_open(metadata: ClusterMetadata, plans: Plans) -> Rejected | None:
    for session in metadata.sessions.open.values():
        if session.purpose is not Purpose.CLEANUP:
            continue
        for change, node in _gains(plans):
            if node in session.nodes and any(change.range.intersects(x) for x in session.ranges):
                return Rejected(
                    Reason.CLEANUP_OPEN,
                    f"node {node} is cleaning up {change.range}, which it would get back",
                    f"wait until session {session.id} is closed; if node {node} is gone, remove "
                    "or replace it first",
                    ranges=(change.range,),
                )
    return None


def _gains(plans: Plans) -> Iterator[tuple[RangeChange, NodeId]]:
    for item in plans.values():
        yield from item.gains()


def _sources_lost(metadata: ClusterMetadata, draft: Sequence, plans: Plans) -> Rejected | None:
    """Refuse to copy where too few of the owners are alive to have every acknowledged row."""
    if draft.accept_loss:
        return None
    for key, item in plans.items():
        if not metadata.schema.tables_placed_by(key):
            continue
        for change in item.changes:
            fewer = len(change.after) < len(change.before)
            if thins_out(change) or (fewer and draft.kind is not SequenceKind.LEAVE):
                return _thinned(change)
        for change, target in item.gains():
            needed = sources_needed(change.before, change.wanted)
            alive = tuple(node for node in change.before if node not in draft.dead)
            if not enough_sources(change, target, alive):
                return Rejected(
                    Reason.SOURCES_LOST,
                    f"of the owners {list(change.before)} of {change.range} only {list(alive)} are "
                    f"alive; {needed} are needed to have every "
                    "acknowledged row",
                    "bring one of them back, or give accept_loss a sentence that says why rows "
                    "may be lost",
                    ranges=(change.range,),
                )
    return None


def _thinned(change: RangeChange) -> Rejected:
    return Rejected(
        Reason.TOO_FEW_REPLICAS,
        f"{change.range} would have {len(change.after)} owners instead of {len(change.before)}, "
        "and rows that were acknowledged might be on too few of them",
        "join another node first, or give accept_loss a sentence that says why rows may be lost",
        ranges=(change.range,),
    )


def _needs_steps(metadata: ClusterMetadata, plans: Plans) -> Rejected | None:
    for key, item in plans.items():
        if metadata.schema.tables_placed_by(key) and _takes_over(item):
            return Rejected(
                Reason.NEEDS_STEPS,
                f"tables are placed by {key}, and ranges would get other owners without their rows",
                "prepare a sequence instead, or give accept_loss a sentence that says why rows "
                "may be lost",
                ranges=tuple(change.range for change in item.changes[:1]),
            )
    return None


def _takes_over(item: PlacementPlan) -> bool:
    """Ranges that nobody owned hold no rows."""
    return not item.founding and any(change.before for change in item.changes)
