"""What a node does with its own tables when nobody asks: flush, merge, forget what is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial

import structlog

from log.listeners import Change
from metadata.cluster import ClusterMetadata
from metadata.limits import Label
from metadata.schema import Table, TableId
from metadata.sessions import SessionId
from metadata.tokens import FULL
from services.http.problems import Code, ProblemError
from services.http.reports import TABLES_MAX
from services.node.data.manifests import forget_imports, tables_held
from services.node.data.movement import COPYING
from services.node.data.permits import Permits
from services.node.engine import NodeEngine
from store.database import Database
from store.failures import StoreError
from store.rows import Row
from store.store import Store

logger = structlog.get_logger()

HOT_BYTES_MAX = 32 * 1024 * 1024
HOT_ROWS_MAX = 100_000
UPKEEP_EVERY_S = 5.0
COUNT_EVERY_S = 10.0
FORGET_EVERY_S = 60.0
"""A job that goes on after its session was closed may stage files that nobody announces."""
COMPACTIONS_MAX = 4
"""For one table in a row, so that every table gets its turn."""
DRAIN_TIMEOUT_S = 10.0


class Hot:
    """About how much of a table was written since it was flushed: guessed, never read."""

    def __init__(self) -> None:
        self.rows = 0
        self.size_bytes = 0

    @property
    def is_large(self) -> bool:
        return self.rows > HOT_ROWS_MAX or self.size_bytes > HOT_BYTES_MAX

    def add(self, rows: int, size_bytes: int) -> None:
        self.rows += rows
        self.size_bytes += size_bytes


class Upkeep:
    """One thing at a time. `figures` are rows and bytes by table, a few seconds old."""

    def __init__(self, engine: NodeEngine, store: Store, database: Database) -> None:
        self.figures: dict[Label, dict[Label, int]] = {}
        self._engine = engine
        self._store = store
        self._database = database
        self._permits = Permits(engine)
        self._hot: dict[TableId, Hot] = {}
        self._wake = asyncio.Event()
        self._is_stale = True

    def count_written(self, table: Table, rows: Sequence[Row]) -> None:
        hot = self._hot.setdefault(table.id, Hot())
        hot.add(len(rows), sum(len(row.key) + len(row.content or b"") for row in rows))
        if hot.is_large:
            self._wake.set()

    def heard(self, change: Change) -> None:
        """Sessions that closed and tables that went are looked after soon."""
        if change.components & {"sessions", "schema"}:
            self._is_stale = True
            self._wake.set()

    async def begin(self) -> None:
        """Before anything is written."""
        await self._store.sweep_orphans()
        for table in await self._database.read(tables_held):
            size = await self._store.hot_size(table)
            self._hot.setdefault(table, Hot()).add(size.rows, size.size_bytes)

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        counted_s = forgotten_s = float("-inf")
        while True:
            self._wake.clear()
            try:
                if clock() - forgotten_s >= FORGET_EVERY_S:
                    forgotten_s, self._is_stale = clock(), True
                is_well = await self.turn()
                if clock() - counted_s >= COUNT_EVERY_S:
                    counted_s = clock()
                    self.figures = await self._counted()
            except StoreError as error:
                logger.warning("upkeep_failed", error=str(error))
                is_well = False
            if not is_well:
                # A disk that is full may have room again; it is tried again in any case.
                self._is_stale = True
                await asyncio.sleep(UPKEEP_EVERY_S)
            await self._rest()

    async def turn(self) -> bool:
        """Everything that is due, once; what fails is told, and holds up nothing else."""
        metadata, is_well = self._engine.applied.metadata, True
        if self._is_stale:
            self._is_stale = False
            is_well &= await _tried(self._forget(metadata))
            is_well &= await _tried(self._store.recheck())
        for held in await self._database.read(tables_held):
            table = metadata.schema.tables.get(held)
            if table is not None:
                is_well &= await _tried(self._flush_large(table), table=held)
                is_well &= await _tried(self._compact(table), table=held)
        return await _tried(self._store.sweep()) and is_well

    async def _flush_large(self, table: Table) -> None:
        hot = self._hot.get(table.id, Hot())
        if not hot.is_large:
            return
        self._hot[table.id] = Hot()
        try:
            await self._store.flush(table, (FULL,))
        except StoreError:
            self._hot[table.id].add(hot.rows, hot.size_bytes)
            raise

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(UPKEEP_EVERY_S):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _forget(self, metadata: ClusterMetadata) -> None:
        """Pins and staged files of sessions that are closed, and tables that are dropped."""
        is_open = partial(_may_be_open, metadata)
        for session in await self._store.pinning():
            if not is_open(session):
                await self._store.unpin(session)
        await self._database.write(partial(forget_imports, is_open=is_open))
        await self._store.sweep_staged(is_open)
        gone = await self._database.read(tables_held) - set(metadata.schema.tables)
        if gone and not await self._engine.drained(metadata.epoch, DRAIN_TIMEOUT_S):
            # Whoever still writes to them would leave rows behind.
            self._is_stale = True
            return
        for table in gone:
            check = partial(_check_gone, table)
            await self._permits.run(check, partial(self._store.drop, table))
            self._hot.pop(table, None)
            logger.info("table_dropped", table=table)

    async def _compact(self, table: Table) -> None:
        """Not while files are imported, which are read back as they came."""
        for _ in range(COMPACTIONS_MAX):
            if self._is_target or await self._store.compact(table) is None:
                return

    @property
    def _is_target(self) -> bool:
        opened = self._engine.applied.metadata.sessions.open.values()
        return any(
            self._engine.node in session.nodes and session.purpose in COPYING for session in opened
        )

    async def _counted(self) -> dict[Label, dict[Label, int]]:
        found: dict[Label, dict[Label, int]] = {}
        tables = list(self._engine.applied.metadata.schema.tables.values())
        for table in tables[:TABLES_MAX]:
            size = await self._store.estimate(table, (FULL,))
            found[f"{table.keyspace}.{table.name}"] = {"rows": size.rows, "bytes": size.size_bytes}
        return found


async def _tried(work: Awaitable[object], **about: int) -> bool:
    """Whether it was done; if not, the log says why."""
    try:
        await work
    except (StoreError, ProblemError) as error:
        logger.warning("upkeep_failed", error=str(error), **about)
        return False
    return True


def _may_be_open(metadata: ClusterMetadata, session: SessionId) -> bool:
    """A session is named by the epoch that opened it: of a later one this version knows nothing."""
    return session > metadata.epoch or metadata.sessions.find(session) is not None


def _check_gone(table: TableId, metadata: ClusterMetadata) -> None:
    if table in metadata.schema.tables:
        raise ProblemError(Code.UNKNOWN_TABLE, f"Table {table} is not gone.")
