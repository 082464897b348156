"""Who must have applied a step before the next one may be taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from metadata.cluster import ClusterMetadata
from metadata.directory import KnownNode, Location, NodeId
from metadata.limits import NODES_LISTED_MAX
from metadata.plans import PlacementPlan, RangeChange, Step
from metadata.quorums import majority
from metadata.schema import PlacementKey
from metadata.sequences import Sequence
from metadata.strategies import Owners, by_datacenter


class Level(StrEnum):
    """How many of each group: a majority in each datacenter, a majority, or everybody."""

    EACH_QUORUM = "each-quorum"
    QUORUM = "quorum"
    ALL = "all"


class Evidence(msgspec.Struct, frozen=True):
    """What a driver saw: the nodes that had applied the step before."""

    level: Level
    applied: Annotated[tuple[KnownNode, ...], Meta(max_length=NODES_LISTED_MAX)]


class Shortfall(msgspec.Struct, frozen=True):
    """A group that has not enough nodes at the epoch: who is missing, and how many are needed."""

    group: Owners
    missing: Owners
    needed: int


def voter_groups(metadata: ClusterMetadata, sequence: Sequence) -> frozenset[Owners]:
    """The groups of the barrier behind the last step that the sequence took.

    For every affected range of a placement with tables: its readers and its writers, before
    that step and after it. Nodes that the sequence declares dead have no vote.
    """
    groups: set[Owners] = set()
    for plan in sequence.plans:
        if metadata.schema.tables_placed_by(plan.placement):
            groups.update(_present(metadata, sequence, plan.placement))
            groups.update(group for change in plan.changes for group in _past(change, sequence))
    dead = set(sequence.dead)
    voters = {tuple(node for node in group if node not in dead) for group in groups}
    return frozenset(voters - {()})


def closing_targets(sequence: Sequence) -> Owners:
    """Those who gained ranges under a session that the last step closed: all must have seen it.

    Until a target has, it could still import under the session. A dead one cannot.
    """
    if sequence.session is None or sequence.last not in (Step.MID, Step.CANCEL):
        return ()
    return tuple(node for node in targets(sequence) if node not in sequence.dead)


def targets(sequence: Sequence) -> Owners:
    """Every node that gains some range."""
    return tuple(sorted({node for plan in sequence.plans for _, node in plan.gains()}))


def shortfalls(
    groups: Iterable[Owners],
    evidence: Evidence,
    locations: Mapping[NodeId, Location],
) -> list[Shortfall]:
    """The groups in which the evidence falls short of its own level."""
    applied = set(evidence.applied)
    found = []
    for group in sorted(set(_split(groups, evidence.level, locations))):
        needed = len(group) if evidence.level is Level.ALL else majority(len(group))
        if sum(node in applied for node in group) < needed:
            missing = tuple(node for node in group if node not in applied)
            found.append(Shortfall(group, missing, needed))
    return found


def _split(
    groups: Iterable[Owners], level: Level, locations: Mapping[NodeId, Location]
) -> Iterator[Owners]:
    for group in groups:
        if level is Level.EACH_QUORUM:
            yield from (tuple(part) for part in by_datacenter(group, locations).values())
        else:
            yield group


def _present(metadata: ClusterMetadata, sequence: Sequence, key: PlacementKey) -> Iterator[Owners]:
    placement = metadata.placements.placed[key]
    for span in metadata.locks.held[sequence.id].of(key):
        for side in (placement.reads, placement.writes):
            yield from (group.owners for _, group in side.overlapping(span))


def _past(change: RangeChange, sequence: Sequence) -> tuple[Owners, ...]:
    """Readers and writers of a range before the last step, where it changed them."""
    match sequence.last:
        case Step.START | Step.MID:
            return (change.before,)
        case Step.FINISH:
            return (change.during,)
        case Step.CANCEL if sequence.epoch_of(Step.MID) is not None:
            return (change.after,)
        case _:
            return ()


def moved_with_tables(metadata: ClusterMetadata, sequence: Sequence) -> list[PlacementPlan]:
    """The plans whose ranges held a table when the sequence started, so that rows must move."""
    start = sequence.epoch_of(Step.START)
    assert start is not None, sequence.id
    return [
        plan
        for plan in sequence.plans
        if any(table.created <= start for table in metadata.schema.tables_placed_by(plan.placement))
    ]
