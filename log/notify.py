"""Waking up when somebody appended, by Postgres NOTIFY; a look at intervals where that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress

import asyncpg

from log.follower import DIGITS_MAX
from log.messages import Message, Receive, as_message
from log.postgres import CHANNEL
from log.postgres_sessions import BROKEN, CONNECT_TIMEOUT_S
from log.sequencer import BEYOND_ALL
from metadata.epoch import EMPTY, Epoch

LOOK_EVERY_S = 1.0
"""A lost notification costs this much delay and nothing else."""
NEWS_MAX = 16
"""Whoever is further behind asks a CMS, which has the newest entries in memory."""
READ_TIMEOUT_S = 5.0

_NEWS = "SELECT epoch, payload, hash FROM log_entries WHERE epoch > $1 ORDER BY epoch LIMIT $2"


async def listen(dsn: str, wake: Callable[[Epoch], None]) -> None:
    """Call `wake` whenever there may be something new, up to the epoch given, until cancelled."""
    async with aclosing(_tips(dsn)) as tips:
        async for _, tip in tips:
            wake(tip)


async def bring(
    dsn: str, position: Callable[[], Epoch], receive: Receive, wake: Callable[[Epoch], None]
) -> None:
    """The same for somebody who applies, with a few entries behind `position` before the wake-up.

    Where they cannot be read, `wake` alone is called: the log is to be asked another way.
    """
    async with aclosing(_tips(dsn)) as tips:
        async for connection, tip in tips:
            for message in await _news(connection, position(), tip):
                receive(message)
            wake(tip)


async def _news(connection: asyncpg.Connection | None, after: Epoch, tip: Epoch) -> list[Message]:
    if connection is None or not after < tip <= after + NEWS_MAX:
        return []
    try:
        rows = await connection.fetch(_NEWS, after, NEWS_MAX, timeout=READ_TIMEOUT_S)
    except (*BROKEN, asyncpg.InsufficientPrivilegeError):
        return []
    return [as_message(row["epoch"], row["payload"], row["hash"]) for row in rows]


async def _tips(dsn: str) -> AsyncGenerator[tuple[asyncpg.Connection | None, Epoch], None]:
    """How far the log may go, and a connection to ask it, where there is one."""
    while True:
        try:
            connection = await asyncpg.connect(dsn, timeout=CONNECT_TIMEOUT_S)
        except BROKEN:
            yield None, BEYOND_ALL
            await asyncio.sleep(LOOK_EVERY_S)
            continue
        try:
            ear = _Ear()
            await connection.add_listener(CHANNEL, ear.notified)
            while not connection.is_closed():
                yield connection, await ear.next()
        except BROKEN:
            continue
        finally:
            connection.terminate()


class _Ear:
    """Keeps what one notification after the other said until somebody asks."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._look_s = self._clock()
        self._tip = EMPTY
        self._woken = asyncio.Event()

    def notified(self, _connection: object, _pid: int, _channel: str, said: object) -> None:
        is_tip = isinstance(said, str) and said.isdecimal() and len(said) <= DIGITS_MAX
        self._tip = max(self._tip, Epoch(int(str(said))) if is_tip else BEYOND_ALL)
        self._woken.set()

    async def next(self) -> Epoch:
        """The highest since the last call; and at intervals, however much is told, `BEYOND_ALL`:
        some leave everything else for later."""
        pause_s = self._look_s - self._clock()
        if pause_s > 0 and await self._heard(pause_s):
            self._woken.clear()
            tip, self._tip = self._tip, EMPTY
            return tip
        self._look_s = self._clock() + LOOK_EVERY_S
        return BEYOND_ALL

    async def _heard(self, timeout_s: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        return self._woken.is_set()
