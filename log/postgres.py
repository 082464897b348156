"""The log in Postgres: one guarded statement per batch, and the primary key as arbiter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import asyncpg
import msgspec

from encoding.entries import EntryId
from log.chain import NO_ENTRIES, Tip
from log.entry import SealedEntry
from log.postgres_sessions import Sessions
from log.store import (
    AlreadyDecided,
    Appended,
    AppendResult,
    Committed,
    Decision,
    Refusal,
    StoreUnavailableError,
    TipMoved,
    TrimmedError,
    committed,
)
from metadata.epoch import Epoch
from transformations.outcome import Rejected, Result

CHANNEL = "ringlog_log"
"""Woken once per batch, with the new tip; a wake-up and never the truth."""

DEADLINE_S = 30.0
"""How long after it was sent an append may still take effect, by the database's clock."""

# The guard is what makes a batch safe. It yields a row only if the log ends where the batch was
# decided: the row of that epoch has the hash, and none follows it. Both inserts hang on it, so
# they happen together or not at all; a rival that appended first makes the guard fail, or, if
# its transaction is still open, makes the primary key refuse. A plain INSERT: a conflict must
# fail the whole batch, because a batch of which some rows are skipped forks the chain.
_GUARD_TIP = """
    SELECT FROM log_entries AS tip
    WHERE tip.epoch = $1 AND tip.hash = $2 AND clock_timestamp() < $3
      AND NOT EXISTS (SELECT FROM log_entries AS next WHERE next.epoch = $1 + 1)
"""
# Nothing precedes the first entry; it claims the origin, which is never given back.
_GUARD_ORIGIN = """
    SELECT WHERE $1::bigint = 0 AND $2::bytea IS NOT NULL AND clock_timestamp() < $3
      AND NOT EXISTS (SELECT FROM log_origin)
"""
_STATEMENT = """
WITH guard AS MATERIALIZED ({guard}),
claimed AS (
    INSERT INTO decisions (entry_id, request, epoch, hash, result, refusal, refused_at)
    SELECT * FROM unnest($4::uuid[], $5::bytea[], $6::bigint[], $7::bytea[], $8::bytea[],
                         $9::bytea[], $10::bigint[])
    WHERE EXISTS (SELECT FROM guard)
),
{origin}
appended AS (
    INSERT INTO log_entries (epoch, entry_id, kind, payload, digest, previous_hash, hash,
                             committed_at, committed_by, actor, reason)
    SELECT item.epoch, item.entry_id, item.kind, item.payload, item.digest, item.previous_hash,
           item.hash, to_timestamp(item.committed_at / 1e6), item.committed_by, item.actor,
           item.reason
    FROM unnest($11::bigint[], $12::uuid[], $13::text[], $14::bytea[], $15::bytea[], $16::bytea[],
                $17::bytea[], $18::bigint[], $19::text[], $20::text[], $21::text[])
         AS item (epoch, entry_id, kind, payload, digest, previous_hash, hash, committed_at,
                  committed_by, actor, reason)
    WHERE EXISTS (SELECT FROM guard)
)
SELECT count(*) AS held, pg_notify('{channel}', $22) FROM guard
"""
_APPEND = _STATEMENT.format(guard=_GUARD_TIP, origin="", channel=CHANNEL)
_FOUND = _STATEMENT.format(
    guard=_GUARD_ORIGIN,
    origin="""claimed_origin AS (
    INSERT INTO log_origin SELECT true FROM guard WHERE cardinality($11::bigint[]) > 0
),""",
    channel=CHANNEL,
)

_TIP = "SELECT epoch, hash FROM log_entries ORDER BY epoch DESC LIMIT 1"

# The window counts bytes, so that the server and not the client stops at the limit.
_READ_AFTER = """
SELECT epoch, entry_id, kind, payload, previous_hash, hash FROM (
    SELECT *, sum(octet_length(payload)) OVER (ORDER BY epoch) AS size
    FROM (SELECT epoch, entry_id, kind, payload, previous_hash, hash FROM log_entries
          WHERE epoch > $1 ORDER BY epoch LIMIT $2) AS page
) AS counted
WHERE size <= $3 OR size = octet_length(payload) ORDER BY epoch
"""
# The row where the log begins stays whole, though its partition went.
_SEAM = """
SELECT epoch, entry_id, kind, payload, previous_hash, hash, archive
FROM log_seams ORDER BY epoch DESC LIMIT 1
"""
_HASH_AT = "SELECT hash FROM decisions WHERE epoch = $1"
_HASHES_AFTER = "SELECT hash FROM decisions WHERE epoch > $1 AND epoch <= $2 ORDER BY epoch"
_DECISIONS = """
SELECT entry_id, request, epoch, hash, result, refusal, refused_at
FROM decisions WHERE entry_id = ANY($1)
"""

_encode = msgspec.msgpack.Encoder().encode
_decode_result = msgspec.msgpack.Decoder(Result).decode
_decode_refusal = msgspec.msgpack.Decoder(Rejected).decode


class PostgresLog:
    """Any number of processes may append at once; none is special for safety."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def append(
        self,
        entries: Sequence[SealedEntry],
        *,
        onto: Tip,
        refusals: Sequence[Refusal] = (),
    ) -> AppendResult:
        tip = entries[-1].epoch if entries else onto.epoch
        arguments = (*_claims(entries, refusals), *_rows(entries), str(tip))
        statement = _FOUND if onto == NO_ENTRIES else _APPEND
        try:
            held = await self._sessions.append(
                statement, (onto.epoch, onto.hash), arguments, valid_for_s=DEADLINE_S
            )
        except asyncpg.UniqueViolationError:
            return await self._lost([*entries, *refusals], onto)
        if not held:
            return await self._lost([*entries, *refusals], onto)
        return Appended(Tip(tip, entries[-1].hash) if entries else onto)

    async def decisions(self, entry_ids: Sequence[EntryId]) -> Mapping[EntryId, Decision]:
        rows = await self._sessions.fetch(_DECISIONS, list(entry_ids))
        return {decision.entry_id: decision for decision in map(_decision, rows)}

    async def read_after(
        self, epoch: Epoch, *, entries_max: int, bytes_max: int
    ) -> Sequence[SealedEntry]:
        rows = await self._sessions.fetch(_READ_AFTER, epoch, entries_max, bytes_max)
        found = [SealedEntry(**dict(row)) for row in rows]
        if found and found[0].epoch != epoch + 1:
            return await self._across_the_seam(epoch, found, entries_max)
        return found

    async def hash_at(self, epoch: Epoch) -> bytes | None:
        rows = await self._sessions.fetch(_HASH_AT, epoch)
        return rows[0]["hash"] if rows else None

    async def tip(self) -> Tip:
        rows = await self._sessions.fetch(_TIP)
        return Tip(rows[0]["epoch"], rows[0]["hash"]) if rows else NO_ENTRIES

    async def hashes_after(self, epoch: Epoch, *, entries_max: int) -> Sequence[bytes]:
        rows = await self._sessions.fetch(_HASHES_AFTER, epoch, epoch + entries_max)
        return [row["hash"] for row in rows]

    async def _across_the_seam(
        self, epoch: Epoch, kept: Sequence[SealedEntry], entries_max: int
    ) -> Sequence[SealedEntry]:
        """What is kept, with the entry of the seam before it where that is what is due."""
        rows = await self._sessions.fetch(_SEAM)
        if not rows or rows[0]["epoch"] <= epoch:
            # Nothing was trimmed there, so an entry is missing; whoever applies them will see.
            return kept
        seam = dict(rows[0])
        archive = seam.pop("archive")
        entry = SealedEntry(**seam)
        if entry.epoch != epoch + 1:
            raise TrimmedError(entry.epoch, archive)
        # A trim may have come between the two reads.
        follows = kept[0].epoch == entry.epoch + 1
        return [entry, *(kept[: entries_max - 1] if follows else ())]

    async def _lost(self, claims: Sequence[SealedEntry | Refusal], onto: Tip) -> AppendResult:
        """Nothing was done: because ids are decided, or because the log has moved on."""
        decided = await self.decisions([claim.entry_id for claim in claims])
        if decided:
            return AlreadyDecided(decided)
        tip = await self.tip()
        if tip == onto:
            # Neither: the statement came too late by the database's clock.
            raise StoreUnavailableError("an append missed its deadline")
        return TipMoved(tip)


def _claims(
    entries: Sequence[SealedEntry], refusals: Sequence[Refusal]
) -> tuple[list[object], ...]:
    """The columns of `decisions`, appended and refused ones alike.

    In one order for everybody: two processes that claim the same ids in opposite orders would
    wait for each other.
    """
    rows: list[tuple[object, ...]] = [
        (item.entry_id, item.proposal, item.epoch, item.hash, _encode(item.result), None, None)
        for item in map(committed, entries)
    ]
    rows += [
        (item.entry_id, item.proposal, None, None, None, _encode(item.rejected), item.epoch)
        for item in refusals
    ]
    rows.sort(key=_entry_id)
    return tuple(map(list, zip(*rows, strict=True)))


def _entry_id(row: tuple[object, ...]) -> int:
    entry_id = row[0]
    assert isinstance(entry_id, UUID)
    return entry_id.int


def _rows(entries: Sequence[SealedEntry]) -> tuple[list[object], ...]:
    """The columns of `log_entries`."""
    rows = [
        (
            item.epoch,
            item.entry_id,
            item.kind,
            item.payload,
            item.entry.digest,
            item.previous_hash,
            item.hash,
            item.entry.committed_at,
            item.entry.committed_by,
            item.entry.actor,
            item.entry.reason,
        )
        for item in entries
    ]
    columns = list(map(list, zip(*rows, strict=True)))
    return tuple(columns or [[] for _ in range(11)])


def _decision(row: asyncpg.Record) -> Decision:
    entry_id = EntryId(row["entry_id"])
    if row["epoch"] is None:
        return Refusal(
            entry_id=entry_id,
            epoch=Epoch(row["refused_at"]),
            proposal=row["request"],
            rejected=_decode_refusal(row["refusal"]),
        )
    return Committed(
        entry_id=entry_id,
        epoch=Epoch(row["epoch"]),
        hash=row["hash"],
        result=_decode_result(row["result"]),
        proposal=row["request"],
    )
