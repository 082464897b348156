"""Waking up when somebody appended, by Postgres NOTIFY; a look at intervals where that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg

from log.postgres import CHANNEL
from log.postgres_sessions import BROKEN, CONNECT_TIMEOUT_S
from log.sequencer import BEYOND_ALL
from metadata.epoch import Epoch

LOOK_EVERY_S = 1.0
"""A lost notification costs this much delay and nothing else."""


async def listen(dsn: str, wake: Callable[[Epoch], None]) -> None:
    """Call `wake` whenever there may be something new, up to the epoch given, until cancelled."""

    def notified(_connection: object, _pid: int, _channel: str, tip: str) -> None:
        wake(Epoch(int(tip)) if tip.isdecimal() else BEYOND_ALL)

    while True:
        try:
            connection = await asyncpg.connect(dsn, timeout=CONNECT_TIMEOUT_S)
        except BROKEN:
            wake(BEYOND_ALL)
            await asyncio.sleep(LOOK_EVERY_S)
            continue
        try:
            await connection.add_listener(CHANNEL, notified)
            wake(BEYOND_ALL)
            while not connection.is_closed():
                await asyncio.sleep(LOOK_EVERY_S)
                wake(BEYOND_ALL)
        except BROKEN:
            continue
        finally:
            connection.terminate()
