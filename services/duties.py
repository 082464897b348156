"""What every process does besides its work: run several duties, stop when asked, say why not."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def busy(duties: tuple[Coroutine[Any, Any, None], ...]) -> AsyncIterator[None]:
    """Run the duties until the block ends; one that fails ends it."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(duty) for duty in duties]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


def stop_asked() -> asyncio.Event:
    """Set when the process is told to end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


def first_of(error: BaseException) -> BaseException:
    """What a group of failures began with."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
