"""What every process does besides its work: run several duties, stop when asked, say why not."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

Serve = Callable[[asyncio.Event, Callable[[], None]], Coroutine[Any, Any, None]]
"""Until the event is set; says by a call that it has begun, and from then on ends by itself."""


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


async def until_stopped(serve: Serve) -> None:
    """Serve until the process is told to end, also if that is before it has begun: where there is
    no CMS, or no database, it looks for one for minutes.
    """
    loop, stop, has_begun = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    work = asyncio.ensure_future(serve(stop, has_begun.set))

    def ask() -> None:
        stop.set()
        if not (has_begun.is_set() or work.cancelling()):
            work.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    with suppress(asyncio.CancelledError):
        await work


def first_of(error: BaseException) -> BaseException:
    """What a group of failures began with."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
