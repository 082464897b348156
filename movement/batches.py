"""What one job copies: ranges of one table for one target, and the files that hold their rows."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

import msgspec

from metadata.directory import NodeId
from metadata.schema import Table
from metadata.strategies import Owners
from metadata.tokens import FULL, Range
from movement.transfers import Gained, Transfer
from store.ranges import Span, common, spans_of

RANGES_MAX = 64
"""Of one job: each adds to the expression that says in which range a row lies."""

Spans = tuple[Span, ...]


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A segment's file at a node. Only rows in `ranges` count; the others were cleaned away."""

    node: NodeId
    path: str
    rows: int
    size_bytes: int
    first: int
    last: int
    ranges: tuple[Range, ...] = (FULL,)

    @property
    def reach(self) -> Span:
        return Span(self.first, self.last)  # type: ignore[arg-type] # tokens as plain numbers


class Batch(msgspec.Struct, frozen=True):
    """Ranges of one table for one target, in order."""

    table: Table
    target: NodeId
    ranges: tuple[Range, ...]

    def name_in(self, work: int, step: str) -> str:
        """Of a sequence it is the same in every attempt, because a plan never changes."""
        text = " ".join(map(str, self.ranges))
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"{work}-{step}-{self.table.id}-{self.target}-{digest}"

    def __str__(self) -> str:
        more = f" and {len(self.ranges) - 1} more ranges" if len(self.ranges) > 1 else ""
        return (
            f"table {self.table.keyspace}.{self.table.name}, {self.ranges[0]}{more} "
            f"for node {self.target}"
        )


class Reading(msgspec.Struct, frozen=True):
    """Files of which the same tokens are wanted."""

    spans: Spans
    pieces: tuple[Piece, ...]


def batches(gained: Iterable[Gained]) -> list[Batch]:
    by_job: dict[tuple[int, NodeId], list[Gained]] = defaultdict(list)
    for item in gained:
        by_job[item.table.id, item.target].append(item)
    made = []
    for (_, target), items in sorted(by_job.items()):
        ranges = sorted(item.change.range for item in items)
        parts = (ranges[start : start + RANGES_MAX] for start in range(0, len(ranges), RANGES_MAX))
        made += [Batch(items[0].table, target, tuple(part)) for part in parts]
    return made


def sources_of(batch: Batch, transfers: Iterable[Transfer]) -> dict[Range, Owners]:
    """Whose rows make up each range of the batch."""
    return {
        item.gained.change.range: item.sources
        for item in transfers
        if (item.gained.table.id, item.gained.target) == (batch.table.id, batch.target)
        and item.gained.change.range in batch.ranges
    }


def read_from(sources: Mapping[Range, Owners], pieces: Iterable[Piece]) -> list[Reading]:
    """What to read of whose files: only those that overlap, and of those only what counts."""
    ranges: dict[NodeId, list[Range]] = defaultdict(list)
    for span, nodes in sources.items():
        for node in nodes:
            ranges[node].append(span)
    spans = {node: spans_of(found) for node, found in ranges.items()}
    wanted: dict[Spans, list[Piece]] = defaultdict(list)
    for piece in pieces:
        counted = common(spans.get(piece.node, ()), spans_of(piece.ranges))
        if common(counted, (piece.reach,)):
            wanted[counted].append(piece)
    return [Reading(spans, tuple(found)) for spans, found in sorted(wanted.items())]


def overlaps(readings: Iterable[Reading]) -> bool:
    """True if a row may be in two files, so that its versions have to be merged.

    One file has each row once: whoever writes a segment sees to that.
    """
    reaches = sorted(
        part
        for reading in readings
        for piece in reading.pieces
        for part in common(reading.spans, (piece.reach,))
    )
    return any(one.last >= other.first for one, other in pairwise(reaches))


def expected(readings: Iterable[Reading]) -> tuple[int, int]:
    """About how many rows and bytes will be read: tokens are spread evenly over a file."""
    rows, size_bytes = 0.0, 0.0
    for reading in readings:
        for piece in reading.pieces:
            parts = common(reading.spans, (piece.reach,))
            share = sum(_width(part) for part in parts) / _width(piece.reach)
            rows += piece.rows * share
            size_bytes += piece.size_bytes * share
    return round(rows), round(size_bytes)


def _width(span: Span) -> int:
    return span.last - span.first + 1
