"""What one job copies: ranges of one table for one target, and the files that hold their rows."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from metadata.directory import NodeId
from metadata.schema import Table
from metadata.strategies import Owners
from metadata.tokens import FULL, Range
from movement.transfers import Gained, Transfer
from store.ranges import Span, common, spans_of
from store.segments import Group

RANGES_MAX = 64
"""Of one job: each adds to the expression that says in which range a row lies."""

Spans = tuple[Span, ...]
Place = tuple[str, int]
"""A file and a row group in it."""
Counts = dict[Place, int]


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A segment's file at a node. Only rows in `ranges` count; the others were cleaned away.

    `footer` is the hash of its end, or empty where its node has none from an earlier release.
    `groups` and `is_bare` are known once its footer was read: its row groups, and whether it has
    no column that the table has not.
    """

    node: NodeId
    path: str
    rows: int
    size_bytes: int
    first: int
    last: int
    ranges: tuple[Range, ...] = (FULL,)
    sha256: str = ""
    footer: str = ""
    groups: tuple[Group, ...] = ()
    is_bare: bool = False

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


def parted(readings: Iterable[Reading]) -> tuple[list[Reading], list[Reading]]:
    """Files whose rows are in no other file, and files whose versions have to be merged.

    One file has each row once: whoever writes a segment sees to that.
    """
    listed = list(readings)
    tangled = _tangled(listed)
    alone = (_kept(reading, lambda piece: piece.path not in tangled) for reading in listed)
    merged = (_kept(reading, lambda piece: piece.path in tangled) for reading in listed)
    return [item for item in alone if item.pieces], [item for item in merged if item.pieces]


def divided(readings: Iterable[Reading]) -> tuple[list[Piece], list[Reading]]:
    """Files that can be taken as they are, and what is left to be read row by row.

    Every row of such a file is wanted, counts, and is in no other file; and the file has nothing
    that the table has not.
    """
    alone, merged = parted(readings)
    taken = [
        piece
        for reading in alone
        for piece in reading.pieces
        if piece.sha256
        and piece.is_bare
        and common(reading.spans, (piece.reach,)) == (piece.reach,)
    ]
    paths = {piece.path for piece in taken}
    rest = (_kept(reading, lambda piece: piece.path not in paths) for reading in alone)
    return taken, [*(item for item in rest if item.pieces), *merged]


def expected(readings: Iterable[Reading], counts: Mapping[Place, int] = {}) -> tuple[int, int]:
    """About how many rows and bytes will be read.

    Tokens are hashes and hence spread evenly over a row group, but not over a file: between its
    first and its last token may lie ranges of which its node has nothing. Of some row groups it
    is known how many are wanted.
    """
    rows, size_bytes = 0.0, 0.0
    for reading in readings:
        for piece in reading.pieces:
            found = _rows_within(piece, reading.spans, counts)
            rows += found
            size_bytes += found * piece.size_bytes / max(1, piece.rows)
    return round(rows), round(size_bytes)


def copies_of(sources: Mapping[Range, Sequence[NodeId]]) -> float:
    """How often each row is read, on average: owners of a range have about the same rows."""
    width = sum(item.width for item in sources)
    total = sum(item.width * len(nodes) for item, nodes in sources.items())
    return max(1.0, total / width) if width else 1.0


def _kept(reading: Reading, wanted: Callable[[Piece], bool]) -> Reading:
    return Reading(reading.spans, tuple(piece for piece in reading.pieces if wanted(piece)))


def _tangled(readings: list[Reading]) -> set[str]:
    """Paths of files that have a token in common with another, or with one that has."""
    parts = sorted(
        (part, piece.path)
        for reading in readings
        for piece in reading.pieces
        for part in common(reading.spans, (piece.reach,))
    )
    tangled: set[str] = set()
    cluster: set[str] = set()
    last: int | None = None
    for part, path in parts:
        if last is not None and part.first > last:
            cluster, last = set(), None
        cluster.add(path)
        last = part.last if last is None else max(last, part.last)
        if len(cluster) > 1:
            tangled |= cluster
    return tangled


def _rows_within(piece: Piece, spans: Spans, counts: Mapping[Place, int]) -> float:
    groups = piece.groups or (Group(0, piece.rows, piece.size_bytes, piece.reach),)
    rows, place = 0.0, 0
    for group in groups:
        known = counts.get((piece.path, group.index))
        if known is not None:
            rows += known
            continue
        # Both are in order, so what lies before this group lies before all that follow.
        while place < len(spans) and spans[place].last < group.span.first:
            place += 1
        for span in spans[place:]:
            if span.first > group.span.last:
                break
            (part,) = common((span,), (group.span,))
            rows += group.rows * _width(part) / _width(group.span)
    return rows


def _width(span: Span) -> int:
    return span.last - span.first + 1
