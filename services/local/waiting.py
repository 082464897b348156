"""Waiting for what sends no signal: another's process, another's lock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

POLL_INTERVAL_S = 0.02


async def until(condition: Callable[[], bool], *, timeout_s: float) -> None:
    """Return once `condition` holds, or raise `TimeoutError`."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 there is no event to wait for
            await asyncio.sleep(POLL_INTERVAL_S)
