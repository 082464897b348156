"""Hot rows become cold: written to a segment, published, and only then forgotten."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa

from metadata.schema import Table, TableId
from metadata.tokens import Range
from store import hot, manifest, segments
from store.failures import InvalidRowError
from store.manifest import Segment
from store.means import Guard, Means, kept_if_published
from store.merging import table_of
from store.ranges import Span, spans_of
from store.rows import Position, Row

FLUSHED_ROWS_MAX = 64 * 1024
FLUSHED_BYTES_MAX = 64 * 1024 * 1024
PAGE_ROWS_MAX = 4096
FORGOTTEN_ROWS_MAX = 2048
"""So many rows at once, so that writes do not wait long behind it."""

_UNFIT = (
    msgspec.MsgspecError,
    pa.ArrowException,
    UnicodeDecodeError,
    RecursionError,
    OverflowError,
)
"""What a row that should never have been taken in does to a flush."""


async def flush(means: Means, table: Table, ranges: Iterable[Range], guard: Guard) -> list[Segment]:
    """Everything written to these ranges before the call is in segments afterwards.

    A segment is published in one transaction. From then on its rows are both hot and cold, which
    a reader cannot tell: of equal versions it sees one. A crash there costs nothing.
    """
    spans = spans_of(ranges)
    flushed: list[Segment] = []
    position: Position | None = None
    async with means.locks[table.id]:
        while rows := await _chunk(means, table.id, spans, position):
            segment = await asyncio.to_thread(_written, means, table, rows)
            await means.reached("flush-written")
            flushed.append(await _publish(means, segment, guard))
            await means.reached("flush-published")
            await _forget(means, table.id, rows)
            position = Position(rows[-1].token, rows[-1].key)
    return flushed


async def _publish(means: Means, segment: Segment, guard: Guard) -> Segment:
    def work(connection: sqlite3.Connection) -> Segment:
        guard(connection)
        return manifest.add(connection, segment)

    async with kept_if_published(means, [segment.path]):
        return await means.database.write(work)


async def _chunk(
    means: Means, table: TableId, spans: Sequence[Span], position: Position | None
) -> list[Row]:
    """The next rows, as many as fit into one segment."""
    rows: list[Row] = []
    size_bytes = 0
    while len(rows) < FLUSHED_ROWS_MAX and size_bytes < FLUSHED_BYTES_MAX:

        def page(connection: sqlite3.Connection, after: Position | None = position) -> hot.Found:
            return hot.page(connection, table, spans, after=after, rows_max=PAGE_ROWS_MAX)

        found = await means.database.read(page)
        rows += found.rows
        size_bytes += sum(len(row.content or b"") for row in found.rows)
        position = found.following
        if position is None:
            break
    return rows


def _written(means: Means, table: Table, rows: list[Row]) -> Segment:
    pages = (table_of(table, page) for page in _pages(rows, segments.GROUP_ROWS_MAX))
    try:
        written = segments.write(means.folder, means.new_path(table.id), table, pages)
    except _UNFIT as error:
        raise InvalidRowError(
            f"Rows of table {table.name} cannot be written to a segment: {error}."
        ) from error
    assert written is not None
    return written


async def _forget(means: Means, table: TableId, rows: list[Row]) -> None:
    for page in _pages(rows, FORGOTTEN_ROWS_MAX):
        versions = [hot.version_of(row) for row in page]
        await means.database.write(
            lambda connection, gone=versions: hot.forget(connection, table, gone)  # type: ignore[misc] # bound now
        )
        await means.reached("flush-forgetting")


def _pages(rows: list[Row], rows_max: int) -> Iterator[list[Row]]:
    for start in range(0, len(rows), rows_max):
        yield rows[start : start + rows_max]
