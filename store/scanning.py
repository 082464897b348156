"""Rows of ranges, hot and cold merged, page by page."""

from __future__ import annotations

import sqlite3
from asyncio import to_thread
from collections.abc import Iterable, Sequence

import msgspec
import pyarrow as pa

from metadata.schema import Table
from metadata.tokens import MINIMUM, Range, Token
from store import hot, manifest
from store.manifest import Segment
from store.means import Means
from store.merging import behind, newest_of, schema_of, table_of
from store.ranges import Span, common, spans_of
from store.reading import SegmentReader
from store.rows import Position, spans_behind
from store.segments import Group


class Found(msgspec.Struct, frozen=True):
    """A page as an Arrow table; `following` is where the next one begins, if there may be one."""

    rows: pa.Table
    following: Position | None


async def page(
    means: Means,
    table: Table,
    ranges: Iterable[Range],
    *,
    after: Position | None,
    rows_max: int,
) -> Found:
    """On one state of the node. A page may be empty and yet not the last one."""
    spans = spans_behind(spans_of(ranges), after)

    def read(connection: sqlite3.Connection) -> tuple[hot.Found, list[Segment]]:
        rows = hot.page(connection, table.id, spans, after=after, rows_max=rows_max)
        return rows, manifest.overlapping(connection, table.id, ranges)

    with means.readers.entered():
        warm, segments = await means.database.read(read)
        cold = await to_thread(
            _cold_page, means.reader, table, segments, spans=spans, rows_max=rows_max
        )
    versions = pa.concat_tables([cold.rows, table_of(table, warm.rows)])
    if after is not None:
        versions = behind(versions, after)
    return _cut(newest_of(versions), _earlier(warm.following, cold.following), rows_max)


def _cold_page(
    reader: SegmentReader,
    table: Table,
    segments: Sequence[Segment],
    *,
    spans: Sequence[Span],
    rows_max: int,
) -> Found:
    groups = [group for segment in segments for group in reader.groups(table, segment, spans)]
    end = window_end(groups, rows_max, hot.PAGE_BYTES_MAX)
    if end is not None:
        spans = common(spans, (Span(MINIMUM, end),))
    parts = [reader.rows(table, segment, spans) for segment in segments]
    rows = pa.concat_tables([schema_of(table).empty_table(), *parts])
    return Found(rows, None if end is None else Position(end))


def window_end(groups: Iterable[Group], rows_max: int, bytes_max: int) -> Token | None:
    """The token up to which about so many rows or bytes lie; None if there are not as many."""
    ordered = sorted(groups, key=lambda group: group.span.last)
    if not ordered:
        return None
    for group in ordered:
        rows_max -= group.rows
        bytes_max -= group.size_bytes
        if rows_max <= 0 or bytes_max <= 0:
            break
    return group.span.last if group.span.last < ordered[-1].span.last else None


def _cut(rows: pa.Table, end: Position | None, rows_max: int) -> Found:
    """Drop what lies behind the end, where another source may not have been read yet."""
    if end is not None:
        rows = rows.slice(0, len(rows) - len(behind(rows, end)))
    if len(rows) <= rows_max:
        return Found(rows, end)
    rows = rows.slice(0, rows_max)
    return Found(rows, Position(rows["_token"][-1].as_py(), rows["_key"][-1].as_py()))


def _earlier(one: Position | None, other: Position | None) -> Position | None:
    if one is None or other is None:
        return one or other
    return other if other.precedes(one.token, one.key or "") else one
