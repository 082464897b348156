"""Rules about who owns what: nobody reads who did not write, and quorums always meet."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from audit.transition import AT_ONCE, Change, Transition, owner_changes
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId, NodeState
from metadata.plans import PlacementPlan, RangeChange, Step
from metadata.quorums import Version, quorums_meet
from metadata.schema import PlacementKey
from metadata.sequences import Sequence
from metadata.strategies import Owners
from metadata.tokens import Token, position
from transformations.schema import AlterKeyspace


def known_owners(found: Transition) -> Iterator[str]:
    """Who owns a range is registered and has not left, unless it is about to come back."""
    nodes = found.after.directory.nodes
    coming = {item.node for item in found.after.sequences.in_progress.values()}
    for change in found.changes:
        for node in {*change.readers, *change.writers} - coming:
            item = nodes.get(node)
            if item is None or item.state is NodeState.LEFT:
                what = "is not registered" if item is None else "has left"
                yield f"node {node} owns {change.range} of {change.placement} and {what}"
    yield from _left_owning(found, coming)


def _left_owning(found: Transition, coming: set[NodeId]) -> Iterator[str]:
    """Whoever leaves by this entry owns nothing any more, also where no range changed owners."""
    if "directory" not in found.changed:
        return
    before, after = found.before.directory.nodes, found.after.directory.nodes
    gone = {node for node, item in after.items() if item.state is NodeState.LEFT}
    gone = {node for node in gone if node in before and before[node].state is not NodeState.LEFT}
    gone |= {node for node in before if node not in after}
    gone -= coming
    for key, placement in found.after.placements.items() if gone else ():
        for side in (placement.reads, placement.writes):
            for owner in sorted(gone & {node for group in side.groups for node in group.owners}):
                yield f"node {owner} has left and still owns ranges of {key}"


def copies(found: Transition) -> Iterator[str]:
    """A step leaves a range no fewer readers than it had or will have, but for declared dead."""
    sequence = found.sequence
    if sequence is None:
        return
    plans = _plans(sequence)
    for change in found.changes:
        plan = plans.get(change.placement)
        planned = None if plan is None else plan.at(change.range.right)
        # The first owner of all comes to a ring without any, and the last leaves it so.
        if plan is None or planned is None or plan.plan.founding or plan.plan.vacating:
            continue
        dead = set(planned.before) & set(sequence.dead)
        least = min(len(planned.before), len(planned.after)) - len(dead)
        if len(change.readers) < least:
            yield (
                f"{change.range} of {change.placement} is read by {len(change.readers)} nodes, "
                f"and {least} are the least"
            )


def readers_write(found: Transition) -> Iterator[str]:
    """Whoever reads a range writes it, and did so one epoch earlier."""
    for change in found.changes:
        if not set(change.readers) <= set(change.writers):
            yield f"{change.range} of {change.placement} has readers that do not write"
        early = set(change.readers) - {*change.writers_before, *change.readers_before}
        if found.step is not None and change.writers_before and early:
            yield (
                f"{change.range} of {change.placement} is read by nodes {sorted(early)}, "
                "which did not write it before"
            )


def no_gap(found: Transition) -> Iterator[str]:
    """Where there is a ring, a range that had owners has some, unless the last was planned to go.

    A step back leaves those from before, of which a datacenter's first node had none. What
    changes owners in one epoch is for another rule.
    """
    if found.kind in AT_ONCE or not found.after.ring.tokens:
        return
    plans = _plans(found.sequence)
    for change in found.changes:
        exists = found.after.placements.find(change.placement) is not None
        plan = plans.get(change.placement)
        planned = None if plan is None else plan.at(change.range.right)
        if exists and change.readers_before and not change.readers and not _empties(found, planned):
            yield f"{change.range} of {change.placement} has no owner any more"


def _empties(found: Transition, planned: RangeChange | None) -> bool:
    """Whether this step was meant to leave the range without a reader."""
    if found.sequence is None or planned is None:
        return False
    readers, _ = _expected(found, found.sequence, planned)
    return not readers


def planned_owners(found: Transition) -> Iterator[str]:
    """Each step gives a range just the owners that were planned for it."""
    sequence = found.sequence
    if sequence is None:
        yield from _unplanned(found)
        return
    plans = _plans(sequence)
    for change in found.changes:
        planned = plans.get(change.placement)
        wanted = None if planned is None else planned.at(change.range.right)
        if planned is None or (wanted is None and not planned.plan.founding):
            yield f"{change.range} of {change.placement} changed and the plan does not name it"
        elif wanted is not None and not planned.plan.founding:
            owners = _expected(found, sequence, wanted)
            if owners != (change.readers, change.writers) and not planned.plan.vacating:
                yield (
                    f"{found.step} gave {change.range} of {change.placement} readers "
                    f"{list(change.readers)} and writers {list(change.writers)}"
                )


def _unplanned(found: Transition) -> Iterator[str]:
    """PREPARE splits ranges; only where the ring was empty does it give them an owner."""
    if found.step is Step.PREPARE:
        for change in found.changes:
            if change.readers_before or change.writers_before:
                yield f"PREPARE changed the owners of {change.range} of {change.placement}"


def _expected(found: Transition, sequence: Sequence, change: RangeChange) -> tuple[Owners, Owners]:
    match found.step:
        case Step.START:
            return change.before, change.during
        case Step.MID:
            return change.after, change.during
        case Step.FINISH:
            return change.after, change.after
        case Step.CANCEL:
            started = sequence.epoch_of(Step.START) is not None
            return change.before, change.during if started else change.before
        case _:
            return change.before, change.before


def quorums(found: Transition) -> Iterator[str]:
    """Under tables, every read quorum meets every write quorum of the neighbouring epoch."""
    sequence = found.sequence
    if sequence is None:
        return
    plans = _plans(sequence)
    for change in found.changes:
        if not found.before.schema.tables_placed_by(change.placement):
            continue
        planned = plans.get(change.placement)
        groups = None if planned is None else planned.at(change.range.right)
        before = _version(change.readers_before, change.writers_before, groups)
        after = _version(change.readers, change.writers, groups)
        if not (
            quorums_meet(before.readers, after.write_groups)
            and quorums_meet(after.readers, before.write_groups)
        ):
            yield f"reads and writes of {change.range} of {change.placement} may miss each other"


def _version(readers: Owners, writers: Owners, change: RangeChange | None) -> Version:
    """While writers are not readers, a write needs a majority before and a majority after."""
    if set(readers) == set(writers) or change is None:
        return Version(readers, (writers,) if writers else ())
    return Version(readers, tuple(group for group in (change.before, change.after) if group))


def jumps(found: Transition) -> Iterator[str]:
    """Where tables exist, owners change in steps, or under `accept_loss`."""
    if found.accept_loss is not None or found.kind not in AT_ONCE:
        return
    for change in _jumped(found):
        if change.readers_before:
            yield (
                f"{found.kind} gave {change.range} of {change.placement} other owners in one "
                "epoch, without accept_loss"
            )
            return


def _jumped(found: Transition) -> Iterator[Change]:
    transformation = found.entry.transformation
    if isinstance(transformation, AlterKeyspace):
        yield from _replaced_placement(found, transformation.name)
    for change in found.changes:
        stays = found.after.placements.find(change.placement) is not None
        if stays and found.before.schema.tables_placed_by(change.placement):
            yield change


def _replaced_placement(found: Transition, keyspace: str) -> Iterator[Change]:
    """The owners of a keyspace's ranges by its old setting and by its new one."""
    old, new = _key(found.before, keyspace), _key(found.after, keyspace)
    if old is None or new is None or old == new or not found.before.schema.has_tables(keyspace):
        return
    before, after = found.before.placements.find(old), found.after.placements.find(new)
    yield from owner_changes(new, before, after)


def _key(metadata: ClusterMetadata, keyspace: str) -> PlacementKey | None:
    item = metadata.schema.find(keyspace)
    return None if item is None else item.replication.key


def _plans(sequence: Sequence | None) -> dict[PlacementKey, _Planned]:
    if sequence is None:
        return {}
    return {plan.placement: _Planned(plan) for plan in sequence.plans}


class _Planned:
    """A plan whose changes are found by token."""

    def __init__(self, plan: PlacementPlan) -> None:
        self.plan = plan
        self._changes = sorted(plan.changes, key=lambda change: change.range.left)
        self._places = [position(change.range.right) for change in self._changes]

    def at(self, token: Token) -> RangeChange | None:
        index = bisect_left(self._places, position(token))
        found = self._changes[index] if index < len(self._changes) else None
        return found if found is not None and token in found.range else None
