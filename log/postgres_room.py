"""Room in the log: partitions are made well before the first entry needs them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from log.postgres_sessions import Sessions
from log.store import StoreUnavailableError
from metadata.epoch import Epoch

ENTRIES_AHEAD = 1_000_000
"""More than are ever appended between two looks; small partitions are made up to 64 ahead."""
LOOK_EVERY_S = 5.0


async def divide(sessions: Sessions, epochs: int) -> bool:
    """Choose how many epochs a partition holds; False where the log has begun with another size."""
    rows = await sessions.fetch("SELECT divide_log($1) AS is_so", epochs)
    return bool(rows[0]["is_so"])


async def make_room(sessions: Sessions, tip: Epoch) -> None:
    """Let the log take many entries more."""
    await sessions.fetch("SELECT make_log_room($1)", tip)


async def keep_room(sessions: Sessions, tip: Callable[[], Epoch]) -> None:
    """Do so until cancelled; a store that is away now is asked again."""
    while True:
        with contextlib.suppress(StoreUnavailableError):
            await make_room(sessions, tip())
        await asyncio.sleep(LOOK_EVERY_S)
