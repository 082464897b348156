"""Which ranges were flushed and pinned for a session, so that it need not be done again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from metadata.epoch import Epoch
from metadata.schema import TableId
from metadata.sessions import SessionId
from metadata.tokens import Range
from store import manifest
from store.manifest import Segment
from store.ranges import coalesced, without

SCHEMA = """
CREATE TABLE IF NOT EXISTS store_handed (
    session  INTEGER NOT NULL,
    table_id INTEGER NOT NULL,
    epoch    INTEGER NOT NULL,
    ranges   BLOB    NOT NULL,
    PRIMARY KEY (session, table_id)
) WITHOUT ROWID;
"""

_RANGES = msgspec.json.Decoder(tuple[Range, ...])


class Handed(msgspec.Struct, frozen=True):
    """Every row that was let in before `epoch` is in these segments, which are pinned."""

    epoch: Epoch
    segments: tuple[Segment, ...]


def note(
    connection: sqlite3.Connection,
    session: SessionId,
    table: TableId,
    *,
    epoch: Epoch,
    ranges: Sequence[Range],
) -> None:
    """In the transaction that pins them."""
    found = _find(connection, session, table)
    if found is not None:
        epoch, ranges = min(found[0], epoch), (*found[1], *ranges)
    _write(connection, session, table, epoch, ranges)


def find(
    connection: sqlite3.Connection, session: SessionId, table: TableId, ranges: Sequence[Range]
) -> Handed | None:
    """What the session got, if it got all of these ranges."""
    found = _find(connection, session, table)
    if found is None or without(ranges, found[1]):
        return None
    pinned = {segment.id for segment in manifest.pinned_by(connection, session)}
    held = manifest.overlapping(connection, table, ranges)
    return Handed(found[0], tuple(segment for segment in held if segment.id in pinned))


def clean(connection: sqlite3.Connection, table: TableId, ranges: Sequence[Range]) -> None:
    """Who forgets rows of a range has handed out nothing of what comes there next."""
    sessions = connection.execute("SELECT session FROM store_handed WHERE table_id = ?", (table,))
    for (session,) in sessions.fetchall():
        found = _find(connection, session, table)
        assert found is not None
        _write(connection, session, table, found[0], without(found[1], ranges))


def forget(connection: sqlite3.Connection, session: SessionId) -> None:
    connection.execute("DELETE FROM store_handed WHERE session = ?", (session,))


def sessions(connection: sqlite3.Connection) -> list[SessionId]:
    """Also those for which there was nothing to pin."""
    found = connection.execute("SELECT DISTINCT session FROM store_handed")
    return [session for (session,) in found]


def _find(
    connection: sqlite3.Connection, session: SessionId, table: TableId
) -> tuple[Epoch, tuple[Range, ...]] | None:
    query = "SELECT epoch, ranges FROM store_handed WHERE session = ? AND table_id = ?"
    found = connection.execute(query, (session, table)).fetchone()
    return None if found is None else (Epoch(found[0]), _RANGES.decode(found[1]))


def _write(
    connection: sqlite3.Connection,
    session: SessionId,
    table: TableId,
    epoch: Epoch,
    ranges: Iterable[Range],
) -> None:
    row = (session, table, epoch, msgspec.json.encode(coalesced(ranges)))
    connection.execute("INSERT OR REPLACE INTO store_handed VALUES (?, ?, ?, ?)", row)
