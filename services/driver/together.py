"""Several things at once, of which none goes on when one has failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
S = TypeVar("S")

SILENT_MAX = 3
"""So often in a row somebody may not answer before nothing more is expected of it."""


async def all_of(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What all of them give, in order; when one fails the others are cancelled and awaited."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def together(one: Coroutine[Any, Any, T], other: Coroutine[Any, Any, S]) -> tuple[T, S]:
    """Two of different kinds."""
    first, second = asyncio.ensure_future(one), asyncio.ensure_future(other)
    try:
        return await asyncio.gather(first, second)
    finally:
        first.cancel()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)


async def beside(work: Coroutine[Any, Any, T], watch: Coroutine[Any, Any, None]) -> T:
    """What the work gives. The watch goes on as long, and how it fares is nobody's concern."""
    watching = asyncio.ensure_future(watch)
    try:
        return await work
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def while_alive(
    work: Coroutine[Any, Any, T],
    alive: Callable[[], Coroutine[Any, Any, bool]],
    look_every_s: float,
) -> T | None:
    """What it gives, however long it takes; None once `alive` said no several times in a row."""
    task, silent = asyncio.ensure_future(work), 0
    try:
        while silent < SILENT_MAX:
            done, _ = await asyncio.wait([task], timeout=look_every_s)
            if done:
                return task.result()
            silent = 0 if await alive() else silent + 1
        return None
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
