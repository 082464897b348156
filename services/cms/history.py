"""The metadata of any past epoch: the nearest version known, and the entries from there."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from log.replay import Applied, apply
from log.store import LogStore
from metadata.epoch import Epoch
from snapshots.restore import Report, newest_usable
from snapshots.store import SnapshotStore

VERSIONS_KEPT_MAX = 64
PAGE_ENTRIES_MAX = 1000
PAGE_BYTES_MAX = 8 * 1024 * 1024


class History:
    """Keeps the versions that were asked for last; a past epoch never changes."""

    def __init__(self, log: LogStore, snapshots: SnapshotStore, report: Report) -> None:
        self._log = log
        self._snapshots = snapshots
        self._report = report
        self._kept: OrderedDict[Epoch, Applied] = OrderedDict()
        self._turn = asyncio.Lock()

    async def at(self, epoch: Epoch) -> Applied:
        """The version at an epoch that is in the log."""
        found = self._kept.get(epoch)
        if found is None:
            # One after the other: what one reads is mostly near to what the next one wants.
            async with self._turn:
                found = self._kept.get(epoch) or await self._replayed(epoch)
        self._keep(found)
        return found

    async def _replayed(self, epoch: Epoch) -> Applied:
        applied = await self._nearest(epoch)
        while applied.metadata.epoch < epoch:
            wanted = min(PAGE_ENTRIES_MAX, epoch - applied.metadata.epoch)
            entries = await self._log.read_after(
                applied.metadata.epoch, entries_max=wanted, bytes_max=PAGE_BYTES_MAX
            )
            if not entries:
                raise LookupError(f"epoch {epoch} is not in the log")
            for sealed in entries:
                applied = apply(sealed, applied)
            self._keep(applied)
        return applied

    async def _nearest(self, epoch: Epoch) -> Applied:
        """A large snapshot takes seconds to open, so only one that is nearer than all is."""
        known = max((kept for kept in self._kept if kept <= epoch), default=None)
        listed = await self._snapshots.listed(up_to=epoch, limit=1)
        if known is not None and (not listed or listed[0].epoch <= known):
            return self._kept[known]
        snapshot = await newest_usable(self._snapshots, self._log, up_to=epoch, report=self._report)
        if known is not None and snapshot.metadata.epoch < known:
            return self._kept[known]
        self._keep(snapshot)
        return snapshot

    def _keep(self, applied: Applied) -> None:
        self._kept[applied.metadata.epoch] = applied
        self._kept.move_to_end(applied.metadata.epoch)
        if len(self._kept) > VERSIONS_KEPT_MAX:
            self._kept.popitem(last=False)
