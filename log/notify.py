"""Waking up when somebody appended, by Postgres NOTIFY; a look at intervals where that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg

from log.postgres import CHANNEL
from log.postgres_sessions import BROKEN, CONNECT_TIMEOUT_S

LOOK_EVERY_S = 1.0
"""A lost notification costs this much delay and nothing else."""


async def listen(dsn: str, wake: Callable[[], None]) -> None:
    """Call `wake` whenever there may be something new, until cancelled."""
    while True:
        try:
            connection = await asyncpg.connect(dsn, timeout=CONNECT_TIMEOUT_S)
        except BROKEN:
            wake()
            await asyncio.sleep(LOOK_EVERY_S)
            continue
        try:
            await connection.add_listener(CHANNEL, lambda *_: wake())
            wake()
            while not connection.is_closed():
                await asyncio.sleep(LOOK_EVERY_S)
                wake()
        except BROKEN:
            continue
        finally:
            connection.terminate()
