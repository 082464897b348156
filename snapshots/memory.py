"""Snapshots in a dictionary, for tests and simulation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from metadata.epoch import Epoch
from snapshots.store import Snapshot, SnapshotInfo

NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


class MemorySnapshots:
    def __init__(self) -> None:
        self._kept: dict[Epoch, tuple[Snapshot, str]] = {}

    async def save(self, snapshot: Snapshot, *, created_by: str) -> None:
        self._kept.setdefault(snapshot.epoch, (snapshot, created_by))

    async def listed(self, *, up_to: Epoch, limit: int) -> Sequence[SnapshotInfo]:
        epochs = sorted((epoch for epoch in self._kept if epoch <= up_to), reverse=True)
        return [self._info(epoch) for epoch in epochs[:limit]]

    async def load(self, epoch: Epoch) -> Snapshot | None:
        found = self._kept.get(epoch)
        return None if found is None else found[0]

    def _info(self, epoch: Epoch) -> SnapshotInfo:
        snapshot, created_by = self._kept[epoch]
        return SnapshotInfo(
            epoch=epoch,
            digest=snapshot.digest,
            hash=snapshot.hash,
            size_bytes=len(snapshot.image),
            created_at=NO_TIME,
            created_by=created_by,
        )
