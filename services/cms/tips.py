"""Linearizable reads: one look at the tip serves all who wait for it."""

from __future__ import annotations

import asyncio

from log.chain import Tip
from log.store import LogStore


class TipReader:
    """Whoever comes while a read is under way waits for the next one.

    The read under way may have looked before that caller's request came, and so may miss what
    was acknowledged in between.
    """

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._current: asyncio.Task[Tip] | None = None
        self._next: asyncio.Task[Tip] | None = None

    async def read(self) -> Tip:
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._current))
        return await asyncio.shield(self._next)

    async def _after(self, current: asyncio.Task[Tip] | None) -> Tip:
        if current is not None:
            await asyncio.wait([current])
        self._current, self._next = self._next, None
        return await self._store.tip()
