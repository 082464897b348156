"""What was signed last: the port to whatever remembers it, with both of its adapters.

A log must not sign what does not extend all that it signed before (c2sp.org/tlog-checkpoint). So
whoever is about to sign moves the memory on first, from what it has seen there, and signs only if
nobody else was quicker.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from audit.checkpoints import Checkpoint
from log.postgres_sessions import Sessions

_LINEAGE = "SELECT id FROM lineage ORDER BY recorded_at DESC LIMIT 1"
_LAST = "SELECT origin, size, root FROM signed_checkpoints WHERE origin = $1"
# Without a last one the comparison is with nulls, which nothing is equal to.
_ADVANCE = """
INSERT INTO signed_checkpoints AS known (origin, size, root, signed_by) VALUES ($1, $2, $3, $4)
ON CONFLICT (origin) DO UPDATE SET
    size = excluded.size, root = excluded.root,
    signed_at = clock_timestamp(), signed_by = excluded.signed_by
WHERE known.size = $5 AND known.root = $6
RETURNING size
"""


class SignedStore(Protocol):
    async def lineage(self) -> UUID | None:
        """The line of history that this log goes on, if it was imported."""
        ...

    async def last(self, origin: str) -> Checkpoint | None: ...

    async def advance(self, to: Checkpoint, last: Checkpoint | None, *, by: str) -> bool:
        """Whether `last` was still the last one, and so `to`, which is larger, is it now."""
        ...


class MemorySigned:
    def __init__(self) -> None:
        self._last: dict[str, Checkpoint] = {}

    async def lineage(self) -> UUID | None:
        return None

    async def last(self, origin: str) -> Checkpoint | None:
        return self._last.get(origin)

    async def advance(self, to: Checkpoint, last: Checkpoint | None, *, by: str) -> bool:  # noqa: ARG002 nobody asks this one
        if self._last.get(to.origin) != last:
            return False
        self._last[to.origin] = to
        return True


class PostgresSigned:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def lineage(self) -> UUID | None:
        rows = await self._sessions.fetch(_LINEAGE)
        return rows[0]["id"] if rows else None

    async def last(self, origin: str) -> Checkpoint | None:
        rows = await self._sessions.fetch(_LAST, origin)
        return Checkpoint(**rows[0]) if rows else None

    async def advance(self, to: Checkpoint, last: Checkpoint | None, *, by: str) -> bool:
        before = (None, None) if last is None else (last.size, last.root)
        rows = await self._sessions.fetch(_ADVANCE, to.origin, to.size, to.root, by, *before)
        return bool(rows)
