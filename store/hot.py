"""Hot rows: the newest writes, in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from metadata.schema import TableId
from metadata.tokens import Token
from store.ranges import Span
from store.rows import Order, Position, Row, spans_behind

SCHEMA = """
CREATE TABLE IF NOT EXISTS store_rows (
    table_id  INTEGER NOT NULL,
    token     INTEGER NOT NULL,
    key       TEXT    NOT NULL,
    timestamp INTEGER NOT NULL,
    deleted   INTEGER NOT NULL,
    digest    INTEGER NOT NULL,
    content   BLOB,
    PRIMARY KEY (table_id, token, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS store_writes (
    only  INTEGER PRIMARY KEY CHECK (only = 1),
    count INTEGER NOT NULL
);
INSERT OR IGNORE INTO store_writes VALUES (1, 0);
"""

PAGE_BYTES_MAX = 32 * 1024 * 1024

_PUT = """
    INSERT INTO store_rows VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET
        timestamp = excluded.timestamp, deleted = excluded.deleted,
        digest = excluded.digest, content = excluded.content
    WHERE (excluded.timestamp, excluded.deleted, excluded.digest) > (timestamp, deleted, digest)
"""
_GET = """
    SELECT table_id, token, key, timestamp, digest, content FROM store_rows
    WHERE table_id = ? AND token = ? AND key = ?
"""
_PAGE = """
    SELECT table_id, token, key, timestamp, digest, content FROM store_rows
    WHERE table_id = ? AND token BETWEEN ? AND ? ORDER BY token, key LIMIT ?
"""
_PAGE_BEHIND = """
    SELECT table_id, token, key, timestamp, digest, content FROM store_rows
    WHERE table_id = ? AND token <= ? AND (token, key) > (?, ?) ORDER BY token, key LIMIT ?
"""
_FORGET = """
    DELETE FROM store_rows WHERE table_id = ? AND token = ? AND key = ?
        AND (timestamp, deleted, digest) = (?, ?, ?)
"""
_FORGET_BEATEN = """
    DELETE FROM store_rows WHERE table_id = ? AND token = ? AND key = ?
        AND (timestamp, deleted, digest) <= (?, ?, ?)
"""
_CLEAN = "DELETE FROM store_rows WHERE table_id = ? AND token BETWEEN ? AND ?"
_DROP = "DELETE FROM store_rows WHERE table_id = ?"
_SIZE = """
    SELECT count(*), coalesce(sum(length(key) + coalesce(length(content), 0)), 0) FROM store_rows
    WHERE table_id = ? AND token BETWEEN ? AND ?
"""


class Found(msgspec.Struct, frozen=True):
    """`following` is where to go on, None if that was all."""

    rows: list[Row]
    following: Position | None


class Version(msgspec.Struct, frozen=True, gc=False):
    """Which version of which row, without what it holds."""

    token: int
    key: str
    order: Order


def put(connection: sqlite3.Connection, row: Row) -> Row | None:
    """Keep the newer one; the answer is what is there already and beats the row."""
    fields = (*_place(row), row.timestamp, row.deleted, row.digest, row.content)
    if connection.execute(_PUT, fields).rowcount:
        return None
    held = get(connection, row.table, row.token, row.key)
    return held if held is not None and held.order > row.order else None


def count_write(connection: sqlite3.Connection) -> None:
    """In the transaction of the rows: a copy of the file that lacks them has counted less."""
    connection.execute("UPDATE store_writes SET count = count + 1")


def writes(connection: sqlite3.Connection) -> int:
    """How often rows were put since there is this file; it never falls."""
    (found,) = connection.execute("SELECT count FROM store_writes").fetchone()
    return int(found)


def raise_writes(connection: sqlite3.Connection, least: int) -> None:
    """Go on counting from here on, where a file that is lost had counted further."""
    connection.execute("UPDATE store_writes SET count = max(count, ?)", (least,))


def get(connection: sqlite3.Connection, table: TableId, token: int, key: str) -> Row | None:
    found = connection.execute(_GET, (table, token, key)).fetchone()
    return None if found is None else _row(found)


def page(
    connection: sqlite3.Connection,
    table: TableId,
    spans: Sequence[Span],
    *,
    after: Position | None,
    rows_max: int,
    bytes_max: int = PAGE_BYTES_MAX,
) -> Found:
    """The first rows in these spans behind a position, by token and key."""
    rows: list[Row] = []
    for span in spans_behind(spans, after):
        limit = rows_max - len(rows)
        if after is not None and after.key is not None and span.first == after.token:
            found = connection.execute(
                _PAGE_BEHIND, (table, span.last, after.token, after.key, limit)
            )
        else:
            found = connection.execute(_PAGE, (table, span.first, span.last, limit))
        for row in map(_row, found):
            rows.append(row)
            bytes_max -= len(row.content or b"")
            if len(rows) == rows_max or bytes_max < 0:
                return Found(rows, Position(row.token, row.key))
    return Found(rows, None)


def forget(connection: sqlite3.Connection, table: TableId, flushed: Iterable[Version]) -> None:
    """Delete exactly these versions: a row that was written again meanwhile stays."""
    connection.executemany(_FORGET, [(table, v.token, v.key, *v.order) for v in flushed])


def forget_beaten(connection: sqlite3.Connection, table: TableId, by: Iterable[Version]) -> None:
    """Delete what these versions shadow, before they go themselves."""
    connection.executemany(_FORGET_BEATEN, [(table, v.token, v.key, *v.order) for v in by])


def clean(connection: sqlite3.Connection, table: TableId, spans: Iterable[Span]) -> int:
    """How many rows went."""
    return sum(
        connection.execute(_CLEAN, (table, span.first, span.last)).rowcount for span in spans
    )


def drop(connection: sqlite3.Connection, table: TableId) -> int:
    return connection.execute(_DROP, (table,)).rowcount


def size(connection: sqlite3.Connection, table: TableId, spans: Iterable[Span]) -> tuple[int, int]:
    """Rows and bytes."""
    found = [connection.execute(_SIZE, (table, s.first, s.last)).fetchone() for s in spans]
    return sum(rows for rows, _ in found), sum(size_bytes for _, size_bytes in found)


def version_of(row: Row) -> Version:
    return Version(row.token, row.key, row.order)


def _place(row: Row) -> tuple[int, int, str]:
    return (row.table, row.token, row.key)


def _row(found: tuple[TableId, Token, str, int, int, bytes | None]) -> Row:
    table, token, key, timestamp, digest, content = found
    return Row(
        table=table, token=token, key=key, timestamp=timestamp, digest=digest, content=content
    )
