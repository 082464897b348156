"""Work that goes on only as long as the metadata asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sequences.ports import Cluster

T = TypeVar("T")

RECHECK_S = 2.0


async def while_due(
    cluster: Cluster, is_due: Callable[[], bool], work: Coroutine[Any, Any, T]
) -> T | None:
    """What the work gives, or None if it is not due any more, and was cancelled."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            epoch = cluster.metadata.epoch
            if not is_due():
                return None
            news = asyncio.ensure_future(cluster.beyond(epoch, RECHECK_S))
            await asyncio.wait({task, news}, return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
            await asyncio.gather(news, return_exceptions=True)
        return await task
    finally:
        task.cancel()
        # Whoever stops the driver while this takes its time is heard all the same.
        await asyncio.gather(task, return_exceptions=True)
