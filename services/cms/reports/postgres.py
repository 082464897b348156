"""Reports in Postgres, where every CMS process finds them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from log.chain import NO_ENTRIES, Tip
from log.postgres_sessions import Sessions
from metadata.directory import NodeId
from metadata.epoch import Epoch
from services.cms.progress.postgres import PostgresProgress
from services.cms.reports.lineage import Divergence, Fault, Lineage
from services.cms.reports.marks import MARK_BYTES, MARKS_KEPT_MAX, Mark, packed, unpacked
from services.cms.reports.store import (
    STRANGERS_MAX,
    Acknowledgement,
    Heard,
    Highest,
    Kept,
    Stores,
)

RELAYS_MAX = 64
MARKS_BYTES_MAX = MARKS_KEPT_MAX * MARK_BYTES

# In the order of nodes, because two processes that update the same rows in opposite orders would
# wait for each other. How far each node had been is read in the same statement, which sees the
# rows as they were; it is written only where it grows, because that has to reach the disk. A node
# at epoch 0 has only just started: what it said of its history in an earlier life stands.
_KEEP = """
WITH given AS (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::text[],
                         $6::bigint[], $7::text[], $8::bigint[], $9::bytea[], $10::bytea[],
                         $11::bigint[])
        AS item (node, epoch, hash, digest, version, tip, fault, drained, data, marks, writes)
),
kept AS (
    INSERT INTO reports (node, epoch, hash, digest, version, tip, fault, drained, data, marks)
    SELECT node, epoch, hash, digest, version, tip, fault, drained, data, marks
    FROM given ORDER BY node
    ON CONFLICT (node) DO UPDATE SET
        epoch = CASE excluded.epoch WHEN 0 THEN reports.epoch ELSE excluded.epoch END,
        hash = CASE excluded.epoch WHEN 0 THEN reports.hash ELSE excluded.hash END,
        digest = CASE excluded.epoch WHEN 0 THEN reports.digest ELSE excluded.digest END,
        tip = CASE excluded.epoch WHEN 0 THEN reports.tip ELSE excluded.tip END,
        fault = CASE excluded.epoch WHEN 0 THEN reports.fault ELSE excluded.fault END,
        version = excluded.version,
        drained = excluded.drained,
        data = excluded.data,
        marks = substring(
            reports.marks || excluded.marks
            FROM greatest(1, 1 + octet_length(reports.marks) + octet_length(excluded.marks)
                             - $12::int)
        ),
        received_at = clock_timestamp()
),
grown AS (
    INSERT INTO highest_reports (node, epoch, writes)
    SELECT node, given.epoch, given.writes
    FROM given LEFT JOIN highest_reports AS before USING (node)
    WHERE before.node IS NULL OR given.epoch > before.epoch
        OR given.writes > coalesce(before.writes, -1)
    ORDER BY node
    ON CONFLICT (node) DO UPDATE SET
        epoch = greatest(highest_reports.epoch, excluded.epoch),
        writes = greatest(highest_reports.writes, excluded.writes)
)
SELECT node, before.epoch, before.writes
FROM given LEFT JOIN highest_reports AS before USING (node)
"""
_HEARD = """
SELECT node, epoch, hash, digest, version, fault, drained, data, marks,
       greatest(0, extract(epoch FROM clock_timestamp() - received_at))::float8 AS age_s
FROM reports ORDER BY node
"""
_FORGET_OTHERS = """
WITH gone AS (DELETE FROM highest_reports WHERE node <> ALL($1::bigint[]))
DELETE FROM reports WHERE node <> ALL($1::bigint[]) AND node NOT IN (
    SELECT node FROM reports WHERE node <> ALL($1::bigint[]) AND fault IS NOT NULL
    ORDER BY received_at DESC LIMIT $2
)
"""
_DIVERGENCES = """
SELECT node, epoch, hash, tip, fault FROM reports
WHERE fault IS NOT NULL AND NOT EXISTS (
    SELECT FROM acknowledged_divergences AS known
    WHERE known.node = reports.node AND known.epoch = reports.epoch AND known.hash = reports.hash
)
ORDER BY node
"""
_ACKNOWLEDGE = """
WITH found AS (
    SELECT node, epoch, hash FROM reports
    WHERE node = $1 AND epoch = $2 AND hash = $3 AND fault IS NOT NULL
),
kept AS (
    INSERT INTO acknowledged_divergences (node, epoch, hash, reason)
    SELECT node, epoch, hash, $4 FROM found
    ON CONFLICT DO NOTHING
)
SELECT count(*) AS found FROM found
"""
# By the decisions, which know the hashes of trimmed entries, too.
# Each epoch is looked up by itself: the index serves it whatever the planner thinks of arrays.
_LINEAGE = """
WITH tip AS (SELECT epoch, hash FROM log_entries ORDER BY epoch DESC LIMIT 1)
SELECT epoch, hash FROM tip
UNION ALL
SELECT wanted, entry.hash FROM tip CROSS JOIN unnest($1::bigint[]) AS wanted
CROSS JOIN LATERAL (SELECT hash FROM decisions WHERE epoch = wanted LIMIT 1) AS entry
WHERE wanted <= tip.epoch
"""
_COMMITTED_AT = """
SELECT wanted AS epoch, (extract(epoch FROM entry.committed_at) * 1000000)::bigint AS at_us
FROM unnest($1::bigint[]) AS wanted
CROSS JOIN LATERAL (SELECT committed_at FROM log_entries WHERE epoch = wanted LIMIT 1) AS entry
"""
_PUBLISH = """
INSERT INTO published_marks (relay, marks) VALUES ($1, $2)
ON CONFLICT (relay) DO UPDATE SET
    marks = substring(
        published_marks.marks || excluded.marks
        FROM greatest(1, 1 + octet_length(published_marks.marks) + octet_length(excluded.marks)
                         - $3::int)
    ),
    received_at = clock_timestamp()
"""
_PUBLISHED = "SELECT marks FROM published_marks ORDER BY received_at DESC LIMIT $1"


class PostgresReports:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def keep(self, reports: Sequence[Kept]) -> Mapping[NodeId, Highest | None]:
        if not reports:
            return {}
        columns = zip(*map(_row, reports), strict=True)
        rows = await self._sessions.fetch(_KEEP, *map(list, columns), MARKS_BYTES_MAX)
        return {row["node"]: _highest(row["epoch"], row["writes"]) for row in rows}

    async def heard(self) -> Sequence[Heard]:
        rows = await self._sessions.fetch(_HEARD)
        return [Heard(**{**row, "fault": _fault(row["fault"])}) for row in map(dict, rows)]

    async def forget_others(self, known: Collection[NodeId]) -> None:
        await self._sessions.fetch(_FORGET_OTHERS, list(known), STRANGERS_MAX)

    async def divergences(self) -> Sequence[Divergence]:
        rows = await self._sessions.fetch(_DIVERGENCES)
        return [Divergence(**{**row, "fault": Fault(row["fault"])}) for row in map(dict, rows)]

    async def acknowledge(self, given: Acknowledgement) -> bool:
        rows = await self._sessions.fetch(
            _ACKNOWLEDGE, given.node, given.epoch, given.hash, given.reason
        )
        return bool(rows[0]["found"])


class PostgresTimeline:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def lineage(self, epochs: Collection[Epoch]) -> Lineage:
        rows = await self._sessions.fetch(_LINEAGE, sorted(set(epochs)))
        hashes = {row["epoch"]: row["hash"] for row in rows}
        tip = max(hashes, default=None)
        return Lineage(NO_ENTRIES if tip is None else Tip(tip, hashes[tip]), hashes)

    async def committed_at(self, epochs: Collection[Epoch]) -> Mapping[Epoch, int]:
        rows = await self._sessions.fetch(_COMMITTED_AT, sorted(set(epochs)))
        return {row["epoch"]: row["at_us"] for row in rows}

    async def publish(self, relay: str, marks: Sequence[Mark]) -> None:
        newest = packed(marks[-MARKS_KEPT_MAX:])
        await self._sessions.fetch(_PUBLISH, relay, newest, MARKS_BYTES_MAX)

    async def published(self) -> Sequence[Sequence[Mark]]:
        rows = await self._sessions.fetch(_PUBLISHED, RELAYS_MAX)
        return [unpacked(row["marks"]) for row in rows]


def postgres_stores(sessions: Sessions) -> Stores:
    return Stores(PostgresReports(sessions), PostgresTimeline(sessions), PostgresProgress(sessions))


def _row(report: Kept) -> tuple[object, ...]:
    return (
        report.node,
        report.epoch,
        report.hash,
        report.digest,
        report.version,
        report.tip,
        report.fault,
        report.drained,
        report.data,
        report.marks,
        report.writes,
    )


def _highest(epoch: Epoch | None, writes: int | None) -> Highest | None:
    return None if epoch is None else Highest(epoch, writes)


def _fault(text: str | None) -> Fault | None:
    return None if text is None else Fault(text)
