"""Proof, before a sequence is accepted, that its plan does what it promises."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from metadata.cluster import ClusterMetadata
from metadata.epoch import following
from metadata.locks import AffectedRanges
from metadata.placements import ReplicaGroups, RingPlacement, build
from metadata.plans import PlacementPlan, Step
from metadata.quorums import FORWARD, disjoint_quorums
from metadata.schema import Replication
from metadata.strategies import owners_at, zones_of
from metadata.tokens import Range, position
from transformations.outcome import Reason, Rejected
from transformations.planning import Plans, RingChange, replications_in_use


def unproved(
    metadata: ClusterMetadata, change: RingChange, plans: Plans, ranges: AffectedRanges
) -> Rejected | None:
    """Why the plan must not be followed, if there is a reason."""
    for key, plan in plans.items():
        placement = _excerpt(metadata.placements.placed[key], ranges.of(key))
        # Lazily: steps can be tried only on the owners that they were planned for.
        faults = chain(
            _missed_quorums(plan),
            _base_faults(plan, placement),
            _step_faults(metadata, change, plan, placement),
        )
        for fault in faults:
            return Rejected(Reason.UNSAFE_PLAN, f"{key}: {fault}")
    return None


def _step_faults(
    metadata: ClusterMetadata, change: RingChange, plan: PlacementPlan, placement: RingPlacement
) -> Iterator[str]:
    versions = _forward(metadata, plan, placement)
    replication = replications_in_use(metadata)[plan.placement]
    yield from _early_readers(plan, versions)
    yield from _cancel_faults(metadata, plan, placement, versions)
    yield from _end_faults(replication, change, versions[-1])


def _missed_quorums(plan: PlacementPlan) -> Iterator[str]:
    for item in plan.changes:
        where = disjoint_quorums(item)
        if where is not None:
            yield f"reads and writes of {item.range} may miss each other: {where}"


def _end_faults(
    replication: Replication, change: RingChange, final: RingPlacement
) -> Iterator[str]:
    """Every range that was touched must end up with the owners that the new ring gives it."""
    zones = zones_of(replication, change.after, change.locations)
    for place, owners in _owners(final):
        wanted = owners_at(zones, place)
        if owners != (wanted, wanted):
            yield f"the steps lead to {owners} where the ring after them gives {wanted}"


def _base_faults(plan: PlacementPlan, placement: RingPlacement) -> Iterator[str]:
    for item in () if plan.founding else plan.changes:
        for side in (placement.reads, placement.writes):
            found = side.at(item.range.right)
            if found is None or found.owners != item.before:
                yield f"{item.range} is not owned by {list(item.before)} now"


def _early_readers(plan: PlacementPlan, versions: list[RingPlacement]) -> Iterator[str]:
    """A node may read a range only if it was already a writer of it one step earlier."""
    for step, earlier, later in zip(FORWARD[1:], versions, versions[1:], strict=False):
        for item in plan.changes:
            right = item.range.right
            readers, writers = later.readers(right), earlier.writers(right)
            if readers is None or writers is None:
                continue
            if not set(readers.owners) <= set(writers.owners):
                yield f"at {step}, {item.range} gets readers that were not writers before"


def _cancel_faults(
    metadata: ClusterMetadata,
    plan: PlacementPlan,
    placement: RingPlacement,
    versions: list[RingPlacement],
) -> Iterator[str]:
    epoch = following(metadata.epoch)
    before = list(_owners(placement))
    for step, version in zip(FORWARD[:-1], versions, strict=False):
        undone = plan.undo(plan.apply(Step.CANCEL, version, epoch), epoch)
        if list(_owners(undone)) != before:
            yield f"cancelling after {step} does not restore the owners"


def _forward(
    metadata: ClusterMetadata, plan: PlacementPlan, placement: RingPlacement
) -> list[RingPlacement]:
    """The placement after each step on the way to FINISH."""
    versions = []
    for step in FORWARD:
        placement = plan.apply(step, placement, following(metadata.epoch))
        versions.append(placement)
    return versions


def _owners(placement: RingPlacement) -> Iterator[tuple[int, tuple[object, object]]]:
    sides = zip(placement.reads.groups, placement.writes.groups, strict=True)
    for place, (reads, writes) in zip(placement.reads.places, sides, strict=True):
        yield place, (reads.owners, writes.owners)


def _excerpt(placement: RingPlacement, spans: tuple[Range, ...]) -> RingPlacement:
    """Only the ranges that the plan reserves; a proof need not copy the whole ring."""
    return RingPlacement(
        _overlapping(placement.reads, spans), _overlapping(placement.writes, spans)
    )


def _overlapping(groups: ReplicaGroups, spans: tuple[Range, ...]) -> ReplicaGroups:
    found = (item for span in spans for item in groups.overlapping(span))
    return build((position(span.right), group) for span, group in found)
