"""Questions about what the node's file holds that only the data plane asks."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable

from metadata.schema import TableId
from metadata.sessions import SessionId
from services.http.data_messages import Import, Imported
from store import manifest
from store.manifest import Segment

SCHEMA = """
CREATE TABLE IF NOT EXISTS node_imports (
    session  INTEGER NOT NULL,
    name     TEXT NOT NULL,
    table_id INTEGER NOT NULL,
    path     TEXT NOT NULL,
    PRIMARY KEY (session, name, path)
) WITHOUT ROWID;
"""

_TABLES = """
    WITH RECURSIVE found(id) AS (
        SELECT min(table_id) FROM {table}
        UNION ALL
        SELECT (SELECT min(table_id) FROM {table} WHERE table_id > found.id)
        FROM found WHERE found.id IS NOT NULL
    )
    SELECT id FROM found WHERE id IS NOT NULL
"""
"""Jumps from table to table, where DISTINCT would look at every row."""


def tables_held(connection: sqlite3.Connection) -> set[TableId]:
    """Those of which there are rows or segments, whether the schema has them or not."""
    found: set[TableId] = set()
    for table in ("store_rows", "store_segments"):
        found.update(row[0] for row in connection.execute(_TABLES.format(table=table)))
    return found


def note_import(connection: sqlite3.Connection, wanted: Import, paths: Iterable[str]) -> None:
    """In the transaction that registers the files."""
    rows = [(wanted.session, wanted.name, wanted.table, path) for path in paths]
    connection.executemany("INSERT OR IGNORE INTO node_imports VALUES (?, ?, ?, ?)", rows)


def imported_segments(connection: sqlite3.Connection, wanted: Imported) -> list[Segment]:
    """The segments that were registered under names with this prefix, as they are now."""
    found = connection.execute(
        "SELECT table_id, path FROM node_imports WHERE session = ? AND substr(name, 1, ?) = ?",
        (wanted.session, len(wanted.prefix), wanted.prefix),
    )
    paths: dict[TableId, set[str]] = {}
    for table, path in found:
        paths.setdefault(table, set()).add(path)
    return [
        segment
        for table, named in sorted(paths.items())
        for segment in manifest.live(connection, table)
        if segment.path in named
    ]


def forget_imports(connection: sqlite3.Connection, is_open: Callable[[SessionId], bool]) -> None:
    """Nobody reads back what was imported under a session that is closed."""
    found = connection.execute("SELECT DISTINCT session FROM node_imports").fetchall()
    closed = [(session,) for (session,) in found if not is_open(session)]
    connection.executemany("DELETE FROM node_imports WHERE session = ?", closed)
