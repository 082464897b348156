"""Progress in Postgres, where every CMS process finds it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from log.postgres_sessions import Sessions
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from services.cms.progress.store import RATES_MAX, SILENT_AFTER_S, Kept, Known

# In the order of sequences, because two processes that update the same rows in opposite orders
# would wait for each other.
_KEEP = """
WITH given AS (
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::float8[])
        AS item (sequence, driver, driven, rows_per_s)
),
kept AS (
    INSERT INTO progress (sequence, driver, driven)
    SELECT sequence, driver, driven FROM given ORDER BY sequence
    ON CONFLICT (sequence) DO UPDATE SET
        driver = excluded.driver,
        driven = excluded.driven,
        received_at = clock_timestamp()
    WHERE progress.driver = excluded.driver
        OR progress.received_at <= clock_timestamp() - make_interval(secs => $5)
    RETURNING sequence
)
INSERT INTO movement_rates (sequence, rows_per_s)
SELECT sequence, rows_per_s FROM given JOIN kept USING (sequence)
WHERE rows_per_s IS NOT NULL ORDER BY sequence
ON CONFLICT (sequence) DO UPDATE SET rows_per_s = excluded.rows_per_s
"""
_KNOWN = """
SELECT sequence, driver, driven,
       greatest(0, extract(epoch FROM clock_timestamp() - received_at))::float8 AS age_s
FROM progress ORDER BY sequence
"""
_RATES = "SELECT rows_per_s FROM movement_rates ORDER BY sequence DESC LIMIT $1"
_FORGET_OTHERS = """
WITH slow AS (
    DELETE FROM movement_rates WHERE sequence < (
        SELECT min(sequence) FROM (
            SELECT sequence FROM movement_rates ORDER BY sequence DESC LIMIT $3
        ) AS newest
    )
)
DELETE FROM progress WHERE sequence <= $2 AND sequence <> ALL($1::bigint[])
"""


class PostgresProgress:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def keep(self, told: Sequence[Kept]) -> None:
        if not told:
            return
        rows = ((item.sequence, item.driver, item.driven, item.rows_per_s) for item in told)
        columns = map(list, zip(*rows, strict=True))
        await self._sessions.fetch(_KEEP, *columns, SILENT_AFTER_S)

    async def known(self) -> Sequence[Known]:
        rows = await self._sessions.fetch(_KNOWN)
        return [Known(**row) for row in map(dict, rows)]

    async def rates(self) -> Sequence[float]:
        return [row["rows_per_s"] for row in await self._sessions.fetch(_RATES, RATES_MAX)]

    async def forget_others(self, in_progress: Collection[SequenceId], *, up_to: Epoch) -> None:
        await self._sessions.fetch(_FORGET_OTHERS, list(in_progress), up_to, RATES_MAX)
