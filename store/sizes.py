"""How much there is, for those who plan."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence

import msgspec

from metadata.schema import Table
from metadata.tokens import Range
from store import hot, manifest
from store.failures import SegmentError
from store.manifest import Segment
from store.means import Means
from store.ranges import Span, common, spans_of
from store.reading import SegmentReader


class Size(msgspec.Struct, frozen=True):
    rows: int
    size_bytes: int


class Count(msgspec.Struct, frozen=True):
    """Rows that can be read, and tombstones."""

    rows: int
    tombstones: int


async def estimated(means: Means, table: Table, ranges: Sequence[Range]) -> Size:
    spans = spans_of(ranges)

    def read(connection: sqlite3.Connection) -> tuple[tuple[int, int], list[Segment]]:
        warm = hot.size(connection, table.id, spans)
        return warm, manifest.overlapping(connection, table.id, ranges)

    with means.readers.entered():
        (rows, size_bytes), segments = await means.database.read(read)
        for segment in segments:
            part = await asyncio.to_thread(_rows_in, means.reader, table, segment, spans)
            rows += round(part)
            size_bytes += round(part * segment.size_bytes / segment.rows)
    return Size(rows, size_bytes)


def _rows_in(reader: SegmentReader, table: Table, segment: Segment, spans: Sequence[Span]) -> float:
    """Tokens are hashes, so within a row group they lie about evenly."""
    seen = common(spans, segment.spans)
    try:
        groups = reader.groups(table, segment, seen)
    except SegmentError:
        # A guess will do, and who asks for sizes cannot mend the file.
        return segment.rows * _share(Span(segment.first, segment.last), seen)
    return sum(group.rows * _share(group.span, seen) for group in groups)


def _share(group: Span, spans: Sequence[Span]) -> float:
    inside = sum(part.last - part.first + 1 for part in common(spans, (group,)))
    return inside / (group.last - group.first + 1)
