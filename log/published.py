"""What this process has applied, for everybody in it who reads or waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from log.entry import SealedEntry
from log.replay import Applied
from metadata.epoch import Epoch

RECENT_ENTRIES_MAX = 10_000
RECENT_BYTES_MAX = 16 * 1024 * 1024


class Published:
    """The newest version, and the last entries that led to it.

    Readers take `applied` once and use that version to the end. Followers are mostly at the tip,
    so what they ask for is nearly always here.
    """

    def __init__(self, applied: Applied) -> None:
        self.applied = applied
        self._recent: deque[SealedEntry] = deque()
        self._recent_bytes = 0
        self._changed = asyncio.Event()
        self._waiting = 0

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for something newer."""
        return self._waiting > 0

    def publish(self, applied: Applied, entries: Sequence[SealedEntry]) -> None:
        """Swap the version in and wake all who wait. Only the task that applies calls this."""
        self.applied = applied
        for sealed in entries:
            self._recent.append(sealed)
            self._recent_bytes += len(sealed.payload)
        while len(self._recent) > RECENT_ENTRIES_MAX or self._recent_bytes > RECENT_BYTES_MAX:
            self._recent_bytes -= len(self._recent.popleft().payload)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def jump(self, applied: Applied) -> None:
        """The same from a snapshot: the entries at hand do not lead there."""
        self._recent.clear()
        self._recent_bytes = 0
        self.publish(applied, [])

    def recent_after(
        self, epoch: Epoch, *, entries_max: int, bytes_max: int
    ) -> list[SealedEntry] | None:
        """Entries behind `epoch`, or None where they are no longer in memory."""
        tip = self.applied.metadata.epoch
        if epoch >= tip:
            return []
        if not self._recent or self._recent[0].epoch > epoch + 1:
            return None
        found: list[SealedEntry] = []
        size_bytes = 0
        skipped = epoch + 1 - self._recent[0].epoch
        for index in range(skipped, min(len(self._recent), skipped + entries_max)):
            sealed = self._recent[index]
            size_bytes += len(sealed.payload)
            if found and size_bytes > bytes_max:
                break
            found.append(sealed)
        return found

    async def wait_beyond(self, epoch: Epoch, timeout_s: float) -> bool:
        """True once something newer than `epoch` is published; False at the timeout."""
        self._waiting += 1
        try:
            async with asyncio.timeout(timeout_s):
                while self.applied.metadata.epoch <= epoch:
                    await self._changed.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
        return True
