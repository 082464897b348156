"""The port to whatever keeps snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from metadata.epoch import Epoch

SNAPSHOTS_PER_PAGE = 1_000
"""How many are told of at once; whoever gets as many asks for those before them."""


class SnapshotInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot without its image; `hash` is the chain's at that epoch."""

    epoch: Epoch
    digest: bytes
    hash: bytes
    size_bytes: int
    created_at: datetime
    created_by: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    epoch: Epoch
    digest: bytes
    hash: bytes
    image: bytes


class SnapshotStore(Protocol):
    async def save(self, snapshot: Snapshot, *, created_by: str) -> None:
        """Keep it; one that is there already for the epoch stays."""
        ...

    async def listed(self, *, up_to: Epoch, limit: int) -> Sequence[SnapshotInfo]:
        """Newest first, none beyond `up_to`."""
        ...

    async def load(self, epoch: Epoch) -> Snapshot | None: ...
