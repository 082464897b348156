"""What every part of the store works with."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias

import msgspec

from metadata.schema import Table, TableId
from store.database import Database
from store.failures import DiskFailedError
from store.folder import Folder
from store.manifest import Segment
from store.reading import SegmentReader

Guard: TypeAlias = Callable[[sqlite3.Connection], None]
"""Called inside the transaction of an effect; raises to abort it."""

SEGMENTS = "segments"


def allow(_connection: sqlite3.Connection) -> None:
    """The guard of what needs no permit."""


async def pass_by(_point: str) -> None:
    """What happens at a named point in production: nothing. Tests crash there."""


class Readers:
    """Who reads segments right now, so that no file goes from under them."""

    def __init__(self) -> None:
        self._active: set[int] = set()
        self._next = 0
        self._left = asyncio.Event()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Entered before the manifest is asked, left after the last file was read."""
        ticket, self._next = self._next, self._next + 1
        self._active.add(ticket)
        try:
            yield
        finally:
            self._active.discard(ticket)
            self._left.set()

    async def drained(self, timeout_s: float) -> bool:
        """Wait until all who are in now have left; false if that takes too long."""
        before = self._next
        try:
            async with asyncio.timeout(timeout_s):
                while any(ticket < before for ticket in self._active):
                    self._left.clear()
                    await self._left.wait()
        except TimeoutError:
            return False
        return True


class Means(msgspec.Struct, kw_only=True, eq=False):
    """`new_name` gives a name that was never used before, in this process or another."""

    database: Database
    folder: Folder
    reader: SegmentReader
    new_name: Callable[[], str]
    reached: Callable[[str], Awaitable[None]] = pass_by
    readers: Readers = msgspec.field(default_factory=Readers)
    locks: defaultdict[TableId, asyncio.Lock] = msgspec.field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )
    """Held by whatever takes hot rows away, so that none is taken for flushed that is not."""
    damaged: dict[str, tuple[Table, Segment]] = msgspec.field(default_factory=dict)
    """By path, what a compaction could not read: the next one leaves it out."""
    counted: dict[TableId, dict[Segment, int]] = msgspec.field(default_factory=dict)
    """How many rows count of segments of which something is hidden."""

    def new_path(self, table: TableId) -> str:
        return f"{SEGMENTS}/{table}/{self.new_name()}.parquet"


@asynccontextmanager
async def kept_if_published(means: Means, paths: Sequence[str]) -> AsyncIterator[None]:
    """New files go if the block, which publishes them, raises."""
    try:
        yield
    except DiskFailedError:
        # They may be in the manifest after all, so they stay until a start finds them unnamed.
        raise
    except Exception:
        for path in paths:
            await asyncio.to_thread(means.folder.delete, path)
        raise
