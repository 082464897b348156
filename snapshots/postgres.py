"""Snapshots in Postgres, beside the log."""

from __future__ import annotations

from collections.abc import Sequence

from log.postgres_sessions import Sessions
from metadata.epoch import Epoch
from snapshots.store import Snapshot, SnapshotInfo

_SAVE = """
INSERT INTO snapshots (epoch, digest, hash, image, created_by) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (epoch) DO NOTHING
"""
_LISTED = """
SELECT epoch, digest, hash, octet_length(image) AS size_bytes, created_at, created_by
FROM snapshots WHERE epoch <= $1 ORDER BY epoch DESC LIMIT $2
"""
_LOAD = "SELECT epoch, digest, hash, image FROM snapshots WHERE epoch = $1"


class PostgresSnapshots:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def save(self, snapshot: Snapshot, *, created_by: str) -> None:
        await self._sessions.fetch(
            _SAVE, snapshot.epoch, snapshot.digest, snapshot.hash, snapshot.image, created_by
        )

    async def listed(self, *, up_to: Epoch, limit: int) -> Sequence[SnapshotInfo]:
        rows = await self._sessions.fetch(_LISTED, up_to, limit)
        return [SnapshotInfo(**dict(row)) for row in rows]

    async def load(self, epoch: Epoch) -> Snapshot | None:
        rows = await self._sessions.fetch(_LOAD, epoch)
        return Snapshot(**dict(rows[0])) if rows else None
