"""Waking up when somebody appended, by Postgres NOTIFY; a look at intervals where that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, suppress

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

# Whatever the server says: it is only asked for hints, and the log is followed without them.
_AWAY = (*BROKEN, asyncpg.PostgresError)

Turn = Callable[[Exception | None], None]
"""Told once why nothing is heard any more, and by None that something is again."""

_Told = tuple[asyncpg.Connection | None, Epoch]

_NEWS = "SELECT epoch, payload, hash FROM log_entries WHERE epoch > $1 ORDER BY epoch LIMIT $2"


def ignore_turn(_error: Exception | None) -> None:
    """For those who need not know."""


async def listen(dsn: str, wake: Callable[[Epoch], None], *, on_turn: Turn = ignore_turn) -> None:
    """Call `wake` whenever there may be something new, up to the epoch given, until cancelled."""
    async with aclosing(_tips(dsn, on_turn)) as tips:
        async for _, tip in tips:
            wake(tip)


async def bring(
    dsn: str,
    position: Callable[[], Epoch],
    receive: Receive,
    wake: Callable[[Epoch], None],
    *,
    on_turn: Turn = ignore_turn,
) -> None:
    """The same for somebody who applies, with a few entries behind `position` before the wake-up.

    Where they cannot be read, `wake` alone is called: the log is to be asked another way.
    """
    async with aclosing(_tips(dsn, on_turn)) as tips:
        async for connection, tip in tips:
            for message in await _news(connection, position(), tip):
                receive(message)
            wake(tip)


async def _news(connection: asyncpg.Connection | None, after: Epoch, tip: Epoch) -> list[Message]:
    if connection is None or not after < tip <= after + NEWS_MAX:
        return []
    try:
        rows = await connection.fetch(_NEWS, after, NEWS_MAX, timeout=READ_TIMEOUT_S)
    except _AWAY:
        return []
    return [as_message(row["epoch"], row["payload"], row["hash"]) for row in rows]


async def _tips(dsn: str, on_turn: Turn) -> AsyncGenerator[_Told, None]:
    """How far the log may go, and a connection to ask it, where there is one."""
    turns = _Turns(on_turn)
    while True:
        async with aclosing(_told(dsn, turns)) as told:
            async for each in told:
                yield each
        # Also behind a connection that was made: one that is cut each time is no reason to hurry.
        yield None, BEYOND_ALL
        await asyncio.sleep(LOOK_EVERY_S)


async def _told(dsn: str, turns: _Turns) -> AsyncGenerator[_Told, None]:
    """The same for as long as one connection lasts."""
    try:
        async with _listening(dsn) as (connection, ear):
            turns.heard()
            while not connection.is_closed():
                yield connection, await ear.next()
    except _AWAY as error:
        turns.failed(error)


class _Turns:
    """Says a thing once, however often it happens in a row."""

    def __init__(self, on_turn: Turn) -> None:
        self._on_turn = on_turn
        self._is_away = False

    def heard(self) -> None:
        if self._is_away:
            self._on_turn(None)
        self._is_away = False

    def failed(self, error: Exception) -> None:
        if not self._is_away:
            self._on_turn(error)
        self._is_away = True


@asynccontextmanager
async def _listening(dsn: str) -> AsyncGenerator[tuple[asyncpg.Connection, _Ear], None]:
    connection = await asyncpg.connect(dsn, timeout=CONNECT_TIMEOUT_S)
    try:
        ear = _Ear()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await connection.add_listener(CHANNEL, ear.notified)
        yield connection, ear
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
