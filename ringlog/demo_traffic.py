"""Programs that load rows, and that go on reading and writing while the cluster changes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from metadata.replicas import Consistency
from ringlog.commands.figures import count
from ringlog.demo_rows import Rows
from ringlog.demo_show import Tell
from services.local.failure import LocalServerError

PAGE_ROWS = 1_000
LOADERS = 4
WRITERS = 3
READERS = 3
PAUSE_S = 0.03
"""Between two requests of one program, so that there is room for the others on two cores."""
RETRIES_MAX = 100
RETRY_PAUSE_S = 0.1
AT_ONCE = 32


class Traffic:
    """`keys` are rewritten while rows of `others`, which nobody writes any more, are read too."""

    def __init__(self, rows: Rows, keys: Sequence[str], others: Sequence[str]) -> None:
        self._rows = rows
        self._keys = keys
        self._others = others
        self._stopping = asyncio.Event()
        self._random = random.Random()  # noqa: S311 spreads load, guards nothing

    @asynccontextmanager
    async def flowing(self) -> AsyncIterator[None]:
        """While the block runs; afterwards every write that was begun is acknowledged."""
        async with asyncio.TaskGroup() as group:
            for number in range(WRITERS):
                group.create_task(self._write(self._keys[number::WRITERS]))
            for _ in range(READERS):
                group.create_task(self._read())
            yield
            self._stopping.set()
        for key in self._rows.book.unsettled:
            await _until_written(self._rows, [key])

    def told(self) -> str:
        counts = self._rows.counts
        return (
            f"So far {count(counts['written'])} writes were acknowledged and "
            f"{count(counts['read'])} reads answered, all at quorum; {count(counts['unanswered'])} "
            f"requests got no answer, {count(counts['refused'])} were refused, "
            f"{count(counts['retried'])} writes were sent again; "
            f"{len(self._rows.violations)} promises were broken."
        )

    async def _write(self, mine: Sequence[str]) -> None:
        while not self._stopping.is_set():
            failed = await self._rows.write([self._random.choice(mine)])
            while failed and not self._stopping.is_set():
                self._rows.counts["retried"] += 1
                await asyncio.sleep(RETRY_PAUSE_S)
                failed = await self._rows.write(failed)
            await asyncio.sleep(PAUSE_S)

    async def _read(self) -> None:
        while not self._stopping.is_set():
            keys = self._random.choice((self._keys, self._others))
            await self._rows.read(self._random.choice(keys))
            await asyncio.sleep(PAUSE_S)


async def load(rows: Rows, keys: Sequence[str], tell: Tell) -> None:
    """At `all`, so that no copy is missing before anything dies."""
    pages = [keys[start : start + PAGE_ROWS] for start in range(0, len(keys), PAGE_ROWS)]
    todo = iter(pages)

    async def loader() -> None:
        for page in todo:
            await _until_written(rows, page, Consistency.ALL)
            tell(rows.counts["written"])

    async with asyncio.TaskGroup() as group:
        for _ in range(LOADERS):
            group.create_task(loader())


async def complete(rows: Rows, keys: Sequence[str]) -> None:
    """Read these at `all`, which brings them to owners that were away when they were written."""
    todo = iter(keys)

    async def reader() -> None:
        for key in todo:
            for _ in range(RETRIES_MAX):
                if await rows.read(key, Consistency.ALL):
                    break
                await asyncio.sleep(RETRY_PAUSE_S)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(reader())


async def _until_written(
    rows: Rows, keys: Sequence[str], consistency: Consistency = Consistency.QUORUM
) -> None:
    left = list(keys)
    for _ in range(RETRIES_MAX):
        left = await rows.write(left, consistency)
        if not left:
            return
        rows.counts["retried"] += len(left)
        await asyncio.sleep(RETRY_PAUSE_S)
    raise LocalServerError(f"{len(left)} rows, {left[0]} among them, could not be written.")
