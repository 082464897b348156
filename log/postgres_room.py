"""Room in the log: partitions are made well before the first entry needs them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from log.postgres_sessions import Sessions
from log.store import StoreUnavailableError
from metadata.epoch import Epoch

ENTRIES_AHEAD = 1_000_000
"""More than are ever appended between two looks."""
LOOK_EVERY_S = 5.0


async def make_room(sessions: Sessions, tip: Epoch) -> None:
    """Let the log take at least so many entries more."""
    await sessions.fetch("SELECT extend_log($1)", tip + ENTRIES_AHEAD)


async def keep_room(sessions: Sessions, tip: Callable[[], Epoch]) -> None:
    """Do so until cancelled; a store that is away now is asked again."""
    while True:
        with contextlib.suppress(StoreUnavailableError):
            await make_room(sessions, tip())
        await asyncio.sleep(LOOK_EVERY_S)
