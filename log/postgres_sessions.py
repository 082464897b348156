"""Connections to Postgres: one for appending, a few for reading, all replaced when they break."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from log.store import StoreUnavailableError

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 15.0
DOUBT_AFTER_S = 15.0
"""When an append that does not answer counts as one whose outcome is unknown."""
READERS_MAX = 4

BROKEN = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # A connection that is killed in the middle of an operation may end in this one.
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.CannotConnectNowError,
    # No connection, memory or disk left; or rolled back in favour of another transaction.
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.ReadOnlySQLTransactionError,
)


class NotDurableError(Exception):
    """The server would acknowledge what it may lose."""


class Sessions:
    """Opens connections when they are needed and forgets those that failed."""

    def __init__(self, dsn: str, *, doubt_after_s: float = DOUBT_AFTER_S) -> None:
        self._dsn = dsn
        self._doubt_after_s = doubt_after_s
        self._writer: asyncpg.Connection | None = None
        self._clock_offset_s = 0.0
        self._readers: asyncpg.Pool | None = None

    async def append(
        self,
        statement: str,
        onto: tuple[int, bytes],
        arguments: Sequence[object],
        *,
        valid_for_s: float,
    ) -> bool:
        """Run an append; False if its guard did not hold.

        There is no timeout on the statement itself that would cancel it: a cancelled commit may
        have happened. If no answer comes the connection is given up and the outcome is unknown.
        """
        try:
            writer = await self._connected_writer()
            deadline = datetime.now(UTC) + timedelta(seconds=valid_for_s + self._clock_offset_s)
            async with asyncio.timeout(self._doubt_after_s):
                return bool(await writer.fetchval(statement, *onto, deadline, *arguments))
        except BROKEN as error:
            self._drop_writer()
            raise StoreUnavailableError(repr(error)) from error

    async def fetch(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        try:
            pool = await self._connected_readers()
            async with asyncio.timeout(READ_TIMEOUT_S):
                rows: list[asyncpg.Record] = await pool.fetch(statement, *arguments)
                return rows
        except BROKEN as error:
            if self._readers is not None:
                await self._readers.expire_connections()
            raise StoreUnavailableError(repr(error)) from error

    async def close(self) -> None:
        if self._writer is not None:
            try:
                await self._writer.close(timeout=CONNECT_TIMEOUT_S)
            except BROKEN:
                self._writer.terminate()
            self._writer = None
        if self._readers is not None:
            await asyncio.wait_for(self._readers.close(), CONNECT_TIMEOUT_S)
            self._readers = None

    async def _connected_writer(self) -> asyncpg.Connection:
        if self._writer is None or self._writer.is_closed():
            writer = await asyncpg.connect(
                self._dsn,
                timeout=CONNECT_TIMEOUT_S,
                # On a nearly empty log the guard would be planned as a scan of the whole table,
                # and the prepared statement would keep that plan while the log grows.
                server_settings={"enable_seqscan": "off", "application_name": "ringlog-append"},
            )
            await _check_durable(writer)
            before = time.time()
            theirs = await writer.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
            self._clock_offset_s = float(theirs) - before
            self._writer = writer
        return self._writer

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.terminate()
            self._writer = None

    async def _connected_readers(self) -> asyncpg.Pool:
        if self._readers is None:
            pool: Any = asyncpg.create_pool(
                self._dsn,
                min_size=0,
                max_size=READERS_MAX,
                timeout=CONNECT_TIMEOUT_S,
                reset=_as_it_is,
                server_settings={"application_name": "ringlog-read"},
            )
            self._readers = await pool
        return self._readers


async def _as_it_is(_connection: asyncpg.Connection) -> None:
    """Single statements leave nothing to reset, and a reset is a round trip of its own."""


async def _check_durable(connection: asyncpg.Connection) -> None:
    for setting in ("fsync", "full_page_writes", "synchronous_commit"):
        value = await connection.fetchval("SELECT current_setting($1)", setting)
        if value == "off":
            await connection.close()
            raise NotDurableError(
                f"Postgres has {setting} = off and may lose what it acknowledged; turn it on."
            )
