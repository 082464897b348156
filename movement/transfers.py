"""Which rows go from where to where: what a sequence gains, and sources that have all of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from metadata.barriers import moved_with_tables
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.plans import RangeChange, Step
from metadata.receipts import enough_sources, sources_needed
from metadata.schema import Table, TableId
from metadata.sequences import Sequence
from metadata.strategies import Owners
from metadata.tokens import Range, intersections


class Gained(msgspec.Struct, frozen=True):
    """A range of one table that a node is to hold."""

    table: Table
    change: RangeChange
    target: NodeId


class Transfer(msgspec.Struct, frozen=True):
    """Something gained, and the nodes whose rows together are all of it."""

    gained: Gained
    sources: Owners


Old = Mapping[tuple[NodeId, TableId], tuple[Range, ...]]
"""Where a node has rows of a table as they were before it was set back."""


class Lacking(msgspec.Struct, frozen=True):
    """The sources that answer may lack acknowledged rows. `waits_for` would make it whole."""

    gained: Gained
    waits_for: Owners
    detail: str


def gained_by(metadata: ClusterMetadata, sequence: Sequence) -> list[Gained]:
    """For each table that existed at START, what each target must get of it."""
    start = sequence.epoch_of(Step.START)
    assert start is not None, sequence.id
    return [
        Gained(table, change, target)
        for plan in moved_with_tables(metadata, sequence)
        for table in metadata.schema.tables_placed_by(plan.placement)
        if table.created <= start
        for change, target in plan.gains()
    ]


def candidates(gained: Iterable[Gained], dead: Collection[NodeId]) -> Owners:
    """Everybody from whom something might be read."""
    return tuple(sorted({node for item in gained for node in item.change.before} - set(dead)))


def chosen(
    gained: Iterable[Gained], sequence: Sequence, answering: Collection[NodeId]
) -> list[Transfer] | Lacking:
    """Sources for all of it among the nodes that answer, or for whom it waits."""
    transfers: list[Transfer] = []
    for item in gained:
        found = _sources(item, sequence, answering)
        if isinstance(found, Lacking):
            return found
        transfers.append(Transfer(item, found))
    return transfers


def without_old(transfers: Iterable[Transfer], old: Old) -> list[Transfer]:
    """Leave out nodes with old rows where the others have all that was acknowledged.

    Old rows may have been deleted since, and the tombstones may be gone from everybody else; but
    where the others do not suffice, they may be the only ones.
    """
    found = []
    for item in transfers:
        table, change = item.gained.table.id, item.gained.change
        fresh = tuple(
            node
            for node in item.sources
            if not intersections((change.range,), old.get((node, table), ()))
        )
        suffices = len(fresh) >= sources_needed(change.before, change.wanted)
        found.append(Transfer(item.gained, fresh) if suffices else item)
    return found


def _sources(gained: Gained, sequence: Sequence, answering: Collection[NodeId]) -> Owners | Lacking:
    """The losing replica itself; else as many of the others as meet every write quorum."""
    change, target = gained.change, gained.target
    alive = tuple(node for node in change.before if node not in sequence.dead)
    there = tuple(node for node in alive if node in answering)
    predecessor = change.predecessor_of(target)
    if predecessor in there:
        assert predecessor is not None
        return (predecessor,)
    needed = sources_needed(change.before, change.wanted)
    if len(there) >= needed:
        found = there[:needed]
        assert enough_sources(change, target, found), (change, found)
        return found
    if sequence.accept_loss and len(alive) < needed and there == alive:
        # Somebody answers for what only the dead had; whoever lives is still waited for.
        return alive
    return _lacking(gained, alive, there, needed)


def _lacking(gained: Gained, alive: Owners, there: Owners, needed: int) -> Lacking:
    change, target = gained.change, gained.target
    absent = tuple(node for node in alive if node not in there)
    predecessor = change.predecessor_of(target)
    instead = f"node {predecessor}, or for " if predecessor in absent else ""
    dead = [node for node in change.before if node not in alive]
    missing = needed - len(there)
    if missing > len(absent) and not instead:
        waits = (
            f"too many of its owners are dead ({_listed(dead)}): "
            "cancel the sequence, or prepare it again with accept_loss"
        )
    else:
        waits = f"waits for {instead}{missing} of {_listed(absent)} to answer"
    return Lacking(
        gained,
        absent,
        f"range {change.range} of table {gained.table.keyspace}.{gained.table.name} "
        f"for node {target}: {waits}",
    )


def _listed(nodes: Iterable[NodeId]) -> str:
    return f"nodes {', '.join(map(str, nodes))}"
