"""The metadata of any past epoch: the nearest version known, and the entries from there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from log.entry import SealedEntry
from log.replay import Applied, apply
from metadata.epoch import Epoch
from snapshots.restore import Report, newest_usable
from snapshots.store import SnapshotStore

VERSIONS_KEPT_MAX = 64
PAGE_ENTRIES_MAX = 1000
PAGE_BYTES_MAX = 8 * 1024 * 1024

ReadAfter = Callable[[Epoch, int, int], Awaitable[Sequence[SealedEntry]]]


class History:
    """Keeps the versions that were asked for last; a past epoch never changes."""

    def __init__(self, read_after: ReadAfter, snapshots: SnapshotStore, report: Report) -> None:
        self._read_after = read_after
        self._snapshots = snapshots
        self._report = report
        self._kept: OrderedDict[Epoch, Applied] = OrderedDict()

    async def at(self, epoch: Epoch) -> Applied:
        """The version at an epoch that is in the log."""
        found = self._kept.get(epoch)
        if found is None:
            found = await self._replayed(epoch)
            self._kept[epoch] = found
            if len(self._kept) > VERSIONS_KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(epoch)
        return found

    async def _replayed(self, epoch: Epoch) -> Applied:
        applied = await self._nearest(epoch)
        while applied.metadata.epoch < epoch:
            wanted = min(PAGE_ENTRIES_MAX, epoch - applied.metadata.epoch)
            entries = await self._read_after(applied.metadata.epoch, wanted, PAGE_BYTES_MAX)
            if not entries:
                raise LookupError(f"epoch {epoch} is not in the log")
            for sealed in entries:
                applied = apply(sealed, applied)
        return applied

    async def _nearest(self, epoch: Epoch) -> Applied:
        snapshot = await newest_usable(self._snapshots, up_to=epoch, report=self._report)
        earlier = [known for known in self._kept if known <= epoch]
        if earlier and max(earlier) > snapshot.metadata.epoch:
            return self._kept[max(earlier)]
        return snapshot
