"""Which segments a node has: the truth about its cold rows, in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence

import msgspec

from metadata.schema import TableId
from metadata.sessions import SessionId
from metadata.tokens import FULL, Range, Token
from store.ranges import Span, coalesced, common, overlap, spans_of, without

SCHEMA = """
CREATE TABLE IF NOT EXISTS store_segments (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    table_id    INTEGER NOT NULL,
    path        TEXT    NOT NULL UNIQUE,
    rows        INTEGER NOT NULL,
    size_bytes  INTEGER NOT NULL,
    sha256      TEXT    NOT NULL,
    first       INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    oldest      INTEGER NOT NULL,
    newest      INTEGER NOT NULL,
    ranges      BLOB    NOT NULL,
    repaired    BLOB    NOT NULL,
    removed     INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS store_segments_live ON store_segments (table_id, removed, last);
CREATE TABLE IF NOT EXISTS store_footers (
    segment INTEGER PRIMARY KEY,
    sha256  TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS store_pins (
    session INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    PRIMARY KEY (session, segment)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS store_pins_segment ON store_pins (segment);
CREATE TABLE IF NOT EXISTS store_imports (
    name    TEXT PRIMARY KEY,
    content BLOB NOT NULL
) WITHOUT ROWID;
"""

_FIELDS = (
    "id, table_id, path, rows, size_bytes, sha256, first, last, oldest, newest, "
    "(SELECT f.sha256 FROM store_footers f WHERE f.segment = store_segments.id), ranges, repaired"
)
_LIVE = f"SELECT {_FIELDS} FROM store_segments WHERE table_id = ? AND NOT removed"  # noqa: S608
_PINNED = "(SELECT segment FROM store_pins)"

STAGED = "staged"
"""The folder in which sessions leave files for the node to import, each in one of its own."""

_RANGES = msgspec.json.Decoder(tuple[Range, ...])


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A file of rows. Only those in `ranges` count; the others were cleaned away.

    Tombstones in `repaired` are known to every owner. `first` and `last` are the least and the
    greatest token in the file as plain numbers, `oldest` and `newest` its timestamps; `path` is
    relative to the node's data folder. `footer` is the hash of its end, which says what lies where
    and which no page's checksum covers; None if a release wrote the file that did not keep it.
    """

    id: int
    table: TableId
    path: str
    rows: int
    size_bytes: int
    sha256: str
    first: Token
    last: Token
    oldest: int
    newest: int
    footer: str | None = None
    ranges: tuple[Range, ...] = (FULL,)
    repaired: tuple[Range, ...] = ()

    @property
    def spans(self) -> tuple[Span, ...]:
        return common(spans_of(self.ranges), (Span(self.first, self.last),))


def add(connection: sqlite3.Connection, segment: Segment) -> Segment:
    """Its id is given here."""
    cursor = connection.execute(
        "INSERT INTO store_segments (table_id, path, rows, size_bytes, sha256, first, last, "
        "oldest, newest, ranges, repaired) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            segment.table,
            segment.path,
            segment.rows,
            segment.size_bytes,
            segment.sha256,
            segment.first,
            segment.last,
            segment.oldest,
            segment.newest,
            msgspec.json.encode(segment.ranges),
            msgspec.json.encode(segment.repaired),
        ),
    )
    assert cursor.lastrowid is not None
    if segment.footer is not None:
        connection.execute(
            "INSERT INTO store_footers VALUES (?, ?)", (cursor.lastrowid, segment.footer)
        )
    return msgspec.structs.replace(segment, id=cursor.lastrowid)


def live(connection: sqlite3.Connection, table: TableId) -> list[Segment]:
    return [_segment(found) for found in connection.execute(f"{_LIVE} ORDER BY id", (table,))]


def holding(connection: sqlite3.Connection, table: TableId, token: int) -> list[Segment]:
    """Those that may have a row with this token, the one with the newest rows first."""
    found = connection.execute(
        f"{_LIVE} AND first <= ? AND last >= ? ORDER BY newest DESC", (table, token, token)
    )
    segments = map(_segment, found)
    return [item for item in segments if any(s.first <= token <= s.last for s in item.spans)]


def overlapping(
    connection: sqlite3.Connection, table: TableId, ranges: Iterable[Range]
) -> list[Segment]:
    spans = spans_of(ranges)
    return [segment for segment in live(connection, table) if common(segment.spans, spans)]


def newest_timestamp(connection: sqlite3.Connection, table: TableId) -> int:
    """No cold row of the table is newer."""
    (found,) = connection.execute(
        "SELECT coalesce(max(newest), -1) FROM store_segments WHERE table_id = ? AND NOT removed",
        (table,),
    ).fetchone()
    return int(found)


def same(connection: sqlite3.Connection, segments: Sequence[Segment]) -> bool:
    """True if all of them are still there and as they were."""
    return all(_find(connection, segment.id) == segment for segment in segments)


def remove(connection: sqlite3.Connection, segments: Iterable[Segment]) -> None:
    """From now on nobody reads them; their files go later, when no session has them pinned."""
    ids = [(segment.id,) for segment in segments]
    connection.executemany("UPDATE store_segments SET removed = 1 WHERE id = ?", ids)


def clean(connection: sqlite3.Connection, table: TableId, ranges: Sequence[Range]) -> int:
    """Hide these ranges in every segment; how many segments changed."""
    touched = overlapping(connection, table, ranges)
    for segment in touched:
        kept = without(segment.ranges, ranges)
        if common(spans_of(kept), (Span(segment.first, segment.last),)):
            connection.execute(
                "UPDATE store_segments SET ranges = ? WHERE id = ?",
                (msgspec.json.encode(kept), segment.id),
            )
        else:
            remove(connection, [segment])
    return len(touched)


def cover(
    connection: sqlite3.Connection,
    session: SessionId,
    ranges: Sequence[Range],
    paths: Collection[str],
) -> int:
    """Note that a repair has brought these ranges of these files to all owners.

    They are those that it has read, which are pinned, and those that it has brought itself.
    """
    known = (*pinned_by(connection, session), *staged_by(connection, session))
    found = {segment.id: segment for segment in known if segment.path in paths}
    for segment in found.values():
        repaired = coalesced((*segment.repaired, *overlap(ranges, segment.ranges)))
        connection.execute(
            "UPDATE store_segments SET repaired = ? WHERE id = ?",
            (msgspec.json.encode(repaired), segment.id),
        )
    return len(found)


def pin(connection: sqlite3.Connection, session: SessionId, segments: Iterable[Segment]) -> None:
    pairs = [(session, segment.id) for segment in segments]
    connection.executemany("INSERT OR IGNORE INTO store_pins VALUES (?, ?)", pairs)


def unpin(connection: sqlite3.Connection, session: SessionId) -> None:
    connection.execute("DELETE FROM store_pins WHERE session = ?", (session,))


def pinned_by(connection: sqlite3.Connection, session: SessionId) -> list[Segment]:
    found = connection.execute(
        f"SELECT {_FIELDS} FROM store_segments WHERE id IN "  # noqa: S608 - our own constant
        "(SELECT segment FROM store_pins WHERE session = ?) ORDER BY id",
        (session,),
    )
    return [_segment(row) for row in found]


def staged_by(connection: sqlite3.Connection, session: SessionId) -> list[Segment]:
    """What was imported under a session."""
    folder = f"{STAGED}/{session}/"
    found = connection.execute(
        f"SELECT {_FIELDS} FROM store_segments WHERE NOT removed "  # noqa: S608 - our own constant
        "AND substr(path, 1, ?) = ? ORDER BY id",
        (len(folder), folder),
    )
    return [_segment(row) for row in found]


def pinned(connection: sqlite3.Connection, segments: Iterable[Segment]) -> bool:
    """True if any session has any of them."""
    query = "SELECT 1 FROM store_pins WHERE segment = ?"
    return any(connection.execute(query, (item.id,)).fetchone() for item in segments)


def sessions_pinning(connection: sqlite3.Connection) -> list[SessionId]:
    found = connection.execute("SELECT DISTINCT session FROM store_pins ORDER BY session")
    return [session for (session,) in found]


def unpinned(connection: sqlite3.Connection, table: TableId) -> list[Segment]:
    found = connection.execute(f"{_LIVE} AND id NOT IN {_PINNED} ORDER BY id", (table,))
    return [_segment(row) for row in found]


def deletable(connection: sqlite3.Connection, segments_max: int) -> list[tuple[int, str]]:
    """Ids and paths of segments that are removed and that no session has pinned."""
    found = connection.execute(
        f"SELECT id, path FROM store_segments WHERE removed AND id NOT IN {_PINNED} LIMIT ?",  # noqa: S608 - our own constant
        (segments_max,),
    )
    return found.fetchall()


def delete(connection: sqlite3.Connection, ids: Iterable[int]) -> None:
    """Once their files are gone."""
    gone = [(item,) for item in ids]
    connection.executemany("DELETE FROM store_segments WHERE id = ?", gone)
    connection.executemany("DELETE FROM store_footers WHERE segment = ?", gone)


def paths(connection: sqlite3.Connection) -> set[str]:
    """Of all files that are somebody's, those not yet deleted included."""
    return {path for (path,) in connection.execute("SELECT path FROM store_segments")}


def imported(connection: sqlite3.Connection, name: str) -> bytes | None:
    found = connection.execute("SELECT content FROM store_imports WHERE name = ?", (name,))
    row = found.fetchone()
    return None if row is None else bytes(row[0])


def note_import(connection: sqlite3.Connection, name: str, content: bytes) -> None:
    connection.execute("INSERT INTO store_imports VALUES (?, ?)", (name, content))


def _find(connection: sqlite3.Connection, segment: int) -> Segment | None:
    found = connection.execute(
        f"SELECT {_FIELDS} FROM store_segments WHERE id = ? AND NOT removed",  # noqa: S608 - our own constant
        (segment,),
    ).fetchone()
    return None if found is None else _segment(found)


def _segment(found: tuple[object, ...]) -> Segment:
    *plain, ranges, repaired = found
    values = dict(zip(_PLAIN, plain, strict=True))
    return Segment(
        **values,  # type: ignore[arg-type] # SQLite gives objects of the declared types
        ranges=_RANGES.decode(ranges),  # type: ignore[arg-type] # as above
        repaired=_RANGES.decode(repaired),  # type: ignore[arg-type] # as above
    )


_PLAIN = tuple(name for name in Segment.__struct_fields__ if name not in ("ranges", "repaired"))
