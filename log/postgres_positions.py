"""How far a topic has been published, kept beside the log."""

from __future__ import annotations

from log.postgres_sessions import Sessions
from metadata.epoch import EMPTY, Epoch

_READ = "SELECT epoch FROM fanout_positions WHERE topic = $1"

# Not worth a sync of the disk that appends wait for too: a position that a crash sets back costs
# duplicates. GREATEST, because a slower relay may come later with less.
_ADVANCE = """
WITH lazily AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
INSERT INTO fanout_positions (topic, epoch) SELECT $1, $2 FROM lazily
ON CONFLICT (topic) DO UPDATE SET
    epoch = GREATEST(fanout_positions.epoch, excluded.epoch),
    updated_at = clock_timestamp()
RETURNING epoch
"""


class PostgresPositions:
    """The position of one topic."""

    def __init__(self, sessions: Sessions, topic: str) -> None:
        self._sessions = sessions
        self._topic = topic

    async def read(self) -> Epoch:
        rows = await self._sessions.fetch(_READ, self._topic)
        return Epoch(rows[0]["epoch"]) if rows else EMPTY

    async def advance(self, epoch: Epoch) -> Epoch:
        rows = await self._sessions.fetch(_ADVANCE, self._topic, epoch)
        return Epoch(rows[0]["epoch"])
