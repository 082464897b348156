"""Where a log came from that was imported: a record beside it, made before its first entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

import msgspec

from log.chain import Tip
from log.postgres_sessions import Sessions
from metadata.cluster import ClusterId
from metadata.epoch import Epoch

LINEAGES_MAX = 100

_RECORD = """
INSERT INTO lineage (id, cluster, epoch, hash, root, archive, anchored_by, recorded_by)
VALUES ($1, $2::text::uuid, $3, $4, $5, $6, $7, $8)
"""
_RECORDED = """
SELECT id, cluster::text, epoch, hash, root, archive, anchored_by, recorded_by
FROM lineage ORDER BY recorded_at DESC LIMIT $1
"""
_EXTEND = "SELECT extend_log($1)"


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """A new line of history: all of an archive up to `epoch`, and what is committed from there."""

    id: UUID
    cluster: ClusterId
    epoch: Epoch
    hash: bytes
    root: bytes
    archive: str
    anchored_by: tuple[str, ...]
    recorded_by: str

    @property
    def tip(self) -> Tip:
        return Tip(self.epoch, self.hash)


class Lineages(Protocol):
    async def record(self, lineage: Lineage) -> None: ...

    async def recorded(self) -> Sequence[Lineage]:
        """Newest first."""
        ...

    async def make_room(self, up_to: Epoch) -> None:
        """Let the log take entries up to this epoch."""
        ...


class PostgresLineages:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def record(self, lineage: Lineage) -> None:
        await self._sessions.fetch(
            _RECORD,
            lineage.id,
            lineage.cluster,
            lineage.epoch,
            lineage.hash,
            lineage.root,
            lineage.archive,
            list(lineage.anchored_by),
            lineage.recorded_by,
        )

    async def recorded(self) -> Sequence[Lineage]:
        rows = await self._sessions.fetch(_RECORDED, LINEAGES_MAX)
        return [Lineage(**{**dict(row), "anchored_by": tuple(row["anchored_by"])}) for row in rows]

    async def make_room(self, up_to: Epoch) -> None:
        await self._sessions.fetch(_EXTEND, up_to)
