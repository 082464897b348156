"""A node's own tables: what is written is durable, what is read is the newest of hot and cold."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from uuid import uuid4

import msgspec

from metadata.schema import Table, TableId
from metadata.sessions import SessionId
from metadata.tokens import Range, Token
from store import compaction, flushing, handed, hot, imports, manifest, scanning, sweeping
from store.compaction import Compacted
from store.database import Database
from store.failures import ClosedError, OverloadedError, StoreError
from store.folder import Folder
from store.handed import Handed
from store.imports import Staged
from store.manifest import Segment
from store.means import Guard, Means, allow, pass_by
from store.merging import rows_of
from store.ranges import WHOLE, spans_of
from store.reading import SegmentReader
from store.rows import Position, Row, newest
from store.sizes import Count, Size, estimated

SCHEMAS = (hot.SCHEMA, manifest.SCHEMA, handed.SCHEMA)
"""To be handed to `database.opened`."""

PAGE_ROWS_MAX = 4096
COUNTED_ROWS_MAX = 64 * 1024


class Page(msgspec.Struct, frozen=True):
    """In order of token and key, tombstones included. `following` is None on the last page."""

    rows: tuple[Row, ...]
    following: Position | None


def _unique() -> str:
    return uuid4().hex


class Store:
    """Every effect takes a guard, which is called in the same transaction and raises to abort."""

    def __init__(
        self,
        database: Database,
        folder: Folder,
        *,
        new_name: Callable[[], str] = _unique,
        reached: Callable[[str], Awaitable[None]] = pass_by,
    ) -> None:
        self._means = Means(
            database=database,
            folder=folder,
            reader=SegmentReader(folder),
            new_name=new_name,
            reached=reached,
        )

    async def put(
        self, table: Table, rows: Sequence[Row], guard: Guard = allow
    ) -> list[Row | None]:
        """Durable on return, all or nothing. For each row the one that is held and beats it.

        A failure to find that out leaves the rows written, and is never one that says otherwise.
        """
        assert all(row.table == table.id for row in rows)

        def work(connection: sqlite3.Connection) -> tuple[list[Row | None], int]:
            guard(connection)
            hot.count_write(connection)
            held = [hot.put(connection, row) for row in rows]
            return held, manifest.newest_timestamp(connection, table.id)

        held, newest_cold = await self._means.database.write(work)
        for place, row in enumerate(rows):
            # Mostly false, and then no file is opened: new rows are newer than all cold ones.
            if row.timestamp <= newest_cold:
                found = await self._held(table, row)
                held[place] = found if found is not None and found.order > row.order else None
        return held

    async def get(self, table: Table, token: Token, key: str) -> Row | None:
        """The newest version, which may be a tombstone."""

        def read(connection: sqlite3.Connection) -> tuple[Row | None, list[Segment]]:
            warm = hot.get(connection, table.id, token, key)
            return warm, manifest.holding(connection, table.id, token)

        with self._means.readers.entered():
            best, segments = await self._means.database.read(read)
            if not segments or (best is not None and segments[0].newest < best.timestamp):
                return best
            return await asyncio.to_thread(self._newest, table, segments, token, key, best)

    async def scan(
        self,
        table: Table,
        ranges: Iterable[Range],
        after: Position | None = None,
        rows_max: int = PAGE_ROWS_MAX,
    ) -> Page:
        """One page, on one state of the node; it may be empty and yet not the last one."""
        found = await scanning.page(
            self._means, table, tuple(ranges), after=after, rows_max=rows_max
        )
        return Page(tuple(rows_of(table, found.rows)), found.following)

    async def flush(
        self, table: Table, ranges: Iterable[Range], guard: Guard = allow
    ) -> list[Segment]:
        """Everything written to these ranges before the call is in segments afterwards."""
        return await flushing.flush(self._means, table, ranges, guard)

    async def segments(self, table: TableId, ranges: Iterable[Range]) -> list[Segment]:
        listed = tuple(ranges)
        return await self._means.database.read(lambda c: manifest.overlapping(c, table, listed))

    async def compact(self, table: Table, guard: Guard = allow) -> Compacted | None:
        """Merge some segments of about the same size, if there are enough of them.

        Otherwise write the one again of which cleanup has hidden most, so that its disk is free.
        One that cannot be read is told of once; from then on it is left out, until `recheck`.
        """
        found = await self._means.database.read(lambda c: manifest.unpinned(c, table.id))
        whole = [segment for segment in found if segment.path not in self._means.damaged]
        inputs = compaction.chosen(whole) or compaction.thinned(
            await compaction.weighed(self._means, table, whole)
        )
        return await compaction.compact(self._means, table, inputs, guard) if inputs else None

    @property
    def damaged(self) -> int:
        """How many segments compaction leaves out because they cannot be read."""
        return len(self._means.damaged)

    async def recheck(self) -> None:
        """Look again at what was damaged; takes as long as reading it."""
        await compaction.recheck(self._means)

    async def compact_all(self, table: Table, guard: Guard = allow) -> Compacted | None:
        """Merge everything that one compaction takes, so that tombstones and cleaned rows go."""
        found = await self._means.database.read(lambda c: manifest.unpinned(c, table.id))
        inputs = compaction.bounded(found)
        if not compaction.worthwhile(inputs):
            return None
        return await compaction.compact(self._means, table, inputs, guard)

    async def pin(
        self, session: SessionId, table: TableId, ranges: Iterable[Range], guard: Guard = allow
    ) -> list[Segment]:
        """All segments with rows in these ranges; their files stay until the session unpins them.

        May be repeated. Hot rows are in none of them: flush first.
        """
        listed = tuple(ranges)

        def work(connection: sqlite3.Connection) -> list[Segment]:
            guard(connection)
            found = manifest.overlapping(connection, table, listed)
            manifest.pin(connection, session, found)
            return found

        return await self._means.database.write(work)

    async def unpin(self, session: SessionId, guard: Guard = allow) -> None:
        def work(connection: sqlite3.Connection) -> None:
            guard(connection)
            manifest.unpin(connection, session)
            handed.forget(connection, session)

        await self._means.database.write(work)

    async def handed(
        self, session: SessionId, table: TableId, ranges: Iterable[Range]
    ) -> Handed | None:
        """What was flushed and pinned for a session before, if that was all of these ranges."""
        listed = tuple(ranges)
        return await self._means.database.read(lambda c: handed.find(c, session, table, listed))

    async def pinning(self) -> list[SessionId]:
        """Sessions that have segments pinned, also those that were closed while the node slept."""

        def read(connection: sqlite3.Connection) -> list[SessionId]:
            return sorted({*manifest.sessions_pinning(connection), *handed.sessions(connection)})

        return await self._means.database.read(read)

    async def cover(
        self,
        session: SessionId,
        ranges: Iterable[Range],
        paths: Collection[str],
        guard: Guard = allow,
    ) -> int:
        """Note that a repair has brought these files, as far as these ranges go, to all owners.

        Only then may compaction drop tombstones there. They are files that the session pinned, or
        staged and imported; how many were marked is the answer.
        """
        listed = tuple(ranges)

        def work(connection: sqlite3.Connection) -> int:
            guard(connection)
            return manifest.cover(connection, session, listed, paths)

        return await self._means.database.write(work)

    async def register(
        self, table: Table, name: str, files: Sequence[Staged], guard: Guard = allow
    ) -> bool:
        """Take over files that a job staged, all or none; false if that name was here before."""
        return await imports.register(self._means, table, name, files, guard)

    async def cleanup(self, table: TableId, ranges: Iterable[Range], guard: Guard = allow) -> None:
        """Forget all rows of these ranges, hot and cold, in one transaction."""
        listed = tuple(ranges)

        def work(connection: sqlite3.Connection) -> None:
            guard(connection)
            hot.clean(connection, table, spans_of(listed))
            manifest.clean(connection, table, listed)
            handed.clean(connection, table, listed)

        async with self._means.locks[table]:
            await self._means.database.write(work)

    async def drop(self, table: TableId, guard: Guard = allow) -> None:
        def work(connection: sqlite3.Connection) -> None:
            guard(connection)
            hot.drop(connection, table)
            manifest.remove(connection, manifest.live(connection, table))

        async with self._means.locks[table]:
            await self._means.database.write(work)
        self._means.counted.pop(table, None)

    async def estimate(self, table: Table, ranges: Iterable[Range]) -> Size:
        """Rows and bytes, for planning: every version counts, a row group by what overlaps."""
        return await estimated(self._means, table, tuple(ranges))

    async def hot_size(self, table: TableId) -> Size:
        """What waits to be flushed; takes as long as reading it."""
        rows, size_bytes = await self._means.database.read(lambda c: hot.size(c, table, (WHOLE,)))
        return Size(rows, size_bytes)

    async def count(self, table: Table, ranges: Iterable[Range]) -> Count:
        """Exact, and as slow as reading the keys of all rows."""
        listed = tuple(ranges)
        bare = msgspec.structs.replace(table, columns=())
        rows, tombstones = 0, 0
        position: Position | None = None
        while True:
            found = await scanning.page(
                self._means, bare, listed, after=position, rows_max=COUNTED_ROWS_MAX
            )
            deleted = found.rows["_deleted"].to_pylist().count(True)
            rows, tombstones = rows + len(found.rows) - deleted, tombstones + deleted
            position = found.following
            if position is None:
                return Count(rows, tombstones)

    async def verify(self, table: Table, segments: Iterable[Segment]) -> None:
        """Read whole files and compare them with the manifest; raises for the first bad one."""
        with self._means.readers.entered():
            for segment in segments:
                await asyncio.to_thread(self._means.reader.verify, table, segment)

    async def sweep(self) -> int:
        """Delete the files of segments that were compacted or cleaned away; how many."""
        return await sweeping.sweep(self._means)

    async def sweep_orphans(self) -> list[str]:
        """At start, before anything is written: delete files that were never published."""
        return await sweeping.sweep_orphans(self._means)

    async def sweep_staged(self, is_open: Callable[[SessionId], bool]) -> list[str]:
        """Delete what sessions that are not open have staged and nobody registered."""
        return await sweeping.sweep_staged(self._means, is_open)

    async def _held(self, table: Table, row: Row) -> Row | None:
        try:
            return await self.get(table, row.token, row.key)
        except (OverloadedError, ClosedError) as error:
            raise StoreError(
                f"The row is written, but what beats it is not known: {error}"
            ) from error

    def _newest(
        self, table: Table, segments: list[Segment], token: Token, key: str, best: Row | None
    ) -> Row | None:
        for segment in segments:
            if best is not None and segment.newest < best.timestamp:
                break
            best = newest([best, *self._means.reader.versions(table, segment, token, key)])
        return best
