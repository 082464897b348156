"""Whether something happened to ranges while work outside the log was done on them; pure."""

from __future__ import annotations

from collections import defaultdict

from metadata.cluster import ClusterMetadata
from metadata.locks import SequenceId
from metadata.placements import Group, RingPlacement
from metadata.schema import Table
from metadata.sessions import Purpose, Session
from metadata.tokens import Range, coalesce, intersections


def holder(metadata: ClusterMetadata, ranges: tuple[Range, ...]) -> SequenceId | None:
    """The sequence that has some of these ranges in hand."""
    held = metadata.locks.held.items()
    return next((item for item, lock in held if lock.overlaps(ranges)), None)


def disturbance(
    before: ClusterMetadata, now: ClusterMetadata, ranges: tuple[Range, ...]
) -> str | None:
    """What came in the way of work on the owners of these ranges, who were those of `before`.

    A group's epoch tells of every change of its owners, also of one that was taken back. Tables
    that came or went meanwhile have no rows that were worked on.
    """
    sequence = holder(now, ranges)
    if sequence is not None:
        return f"sequence {sequence} has begun to move these ranges"
    for table in before.schema.tables.values():
        is_there = table.id in now.schema.tables
        if is_there and _owners(before, table, ranges) != _owners(now, table, ranges):
            return (
                f"the owners of {table.keyspace}.{table.name} have changed between epochs "
                f"{before.epoch} and {now.epoch}"
            )
    return None


def rival(metadata: ClusterMetadata, session: Session) -> Session | None:
    """Another repair that is open for some of the same ranges."""
    return next(
        (
            other
            for other in metadata.sessions.open.values()
            if other.purpose is Purpose.REPAIR
            and other.id != session.id
            and intersections(other.ranges, session.ranges)
        ),
        None,
    )


def _owners(
    metadata: ClusterMetadata, table: Table, ranges: tuple[Range, ...]
) -> dict[tuple[str, Group], tuple[Range, ...]]:
    """What each group reads and writes, wherever ranges are split."""
    keyspace = metadata.schema.find(table.keyspace)
    assert keyspace is not None, table
    placement = metadata.placements.find(keyspace.replication.key) or RingPlacement()
    found: defaultdict[tuple[str, Group], list[Range]] = defaultdict(list)
    for side, groups in (
        ("reads", placement.read_groups()),
        ("writes", placement.write_groups()),
    ):
        for whole, group in groups:
            found[side, group] += intersections((whole,), ranges)
    return {key: coalesce(parts) for key, parts in found.items() if parts}
