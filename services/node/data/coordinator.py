"""Writes and reads of rows on behalf of clients, at the consistency they ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from metadata.cluster import ClusterMetadata
from metadata.epoch import EMPTY, Epoch
from metadata.limits import ID_MAX
from metadata.replicas import Consistency
from metadata.schema import Table
from services.http.data_messages import ReplicaKey
from services.http.problems import Code, Problem, ProblemError, problem
from services.node.data.failures import as_problem
from services.node.data.fitness import Fitness, check_member
from services.node.data.rounds import Rounds
from services.node.data.tables import TableName, View, viewed
from services.node.data.tallies import ReadTally, WriteTally
from services.node.data.timestamps import Timestamps
from services.node.engine import NodeEngine
from store.failures import InvalidRowError
from store.keys import key_of
from store.rows import Row, row_of, tombstone_of

ATTEMPTS_MAX = 6
DEADLINE_S = 10.0
"""No attempt is begun after it but a last one."""
CATCH_UP_TIMEOUT_S = 2.0
NEWS_TIMEOUT_S = 0.5
REPAIR_TIMEOUT_S = 1.0


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """What a client wants of one row: these columns, or None to delete it."""

    key: str
    columns: Mapping[str, Any] | None
    timestamp: int | None = None


class Written(msgspec.Struct, frozen=True):
    """`epoch` is that of the metadata by which the acknowledgements were enough."""

    row: Row
    table: Table
    epoch: Epoch


class Found(msgspec.Struct, frozen=True):
    row: Row | None
    table: Table
    epoch: Epoch


class _Write(msgspec.Struct):
    """One row on its way. Its timestamp is given once, on arrival, not per attempt.

    `may_be_written` is of all attempts: what one of them has left at a replica stays there.
    """

    place: int
    put: Put
    timestamp: int
    may_be_written: bool = False

    def row(self, view: View) -> Row:
        partitioner = view.metadata.cluster.partitioner
        if self.put.columns is None:
            return tombstone_of(view.table, partitioner, self.put.key, timestamp=self.timestamp)
        return row_of(
            view.table,
            partitioner,
            self.put.key,
            columns=self.put.columns,
            timestamp=self.timestamp,
        )


class Coordinator:
    """Decides by its own metadata: taken once per attempt, and looked at again at the end."""

    def __init__(
        self, engine: NodeEngine, rounds: Rounds, fitness: Fitness, timestamps: Timestamps
    ) -> None:
        self._engine = engine
        self._rounds = rounds
        self._fitness = fitness
        self._timestamps = timestamps
        self._clock = engine.following.clock

    async def write(
        self, name: TableName, puts: Sequence[Put], consistency: Consistency
    ) -> list[Written | Problem]:
        """One outcome per row, in order."""
        outcomes: dict[int, Written | Problem] = {}
        left = [
            _Write(
                place, put, self._timestamps.following() if put.timestamp is None else put.timestamp
            )
            for place, put in enumerate(puts)
        ]
        deadline_s = self._clock() + DEADLINE_S
        await self._heard_of(name)
        for attempt in range(ATTEMPTS_MAX):
            is_last = attempt == ATTEMPTS_MAX - 1 or self._clock() > deadline_s
            behind = EMPTY
            try:
                behind = await self._attempt(name, left, outcomes, consistency, is_last=is_last)
            except ProblemError as error:
                if attempt == 0:
                    raise
                # Some rows may be acknowledged by now: each has an outcome of its own.
                for write in left:
                    outcomes.setdefault(write.place, _unfinished(write, error.problem))
            left = [write for write in left if write.place not in outcomes]
            if not left:
                break
            await self._catch_up(behind)
        return [outcomes[place] for place in range(len(puts))]

    async def read(self, name: TableName, raw_key: str, consistency: Consistency) -> Found:
        deadline_s = self._clock() + DEADLINE_S
        await self._heard_of(name)
        for attempt in range(ATTEMPTS_MAX):
            is_last = attempt == ATTEMPTS_MAX - 1 or self._clock() > deadline_s
            view = self._view(name)
            try:
                key = key_of(view.table, view.metadata.cluster.partitioner, raw_key)
            except InvalidRowError as error:
                raise as_problem(error) from error
            tally = ReadTally(view.replicas(key.token), consistency)
            await self._rounds.read(view, ReplicaKey(token=key.token, key=key.text), tally)
            now = self._engine.applied.metadata
            if tally.is_met and tally.is_met_by(view.replicas_in(now, key.token)):
                is_settled = consistency is Consistency.ONE or await self._repair(view, tally)
                if is_settled or is_last:
                    return Found(tally.newest, view.table, now.epoch)
                continue
            is_same = view.replicas_in(now, key.token) == tally.replicas
            if (is_same and not tally.shortage.behind) or is_last:
                break
            await self._catch_up(tally.shortage.behind)
        raise ProblemError(
            Code.UNAVAILABLE_REPLICAS,
            f"Not enough replicas answered for {consistency}. {tally.shortage.told()}",
            epoch=view.metadata.epoch,
        )

    async def _attempt(
        self,
        name: TableName,
        writes: Sequence[_Write],
        outcomes: dict[int, Written | Problem],
        consistency: Consistency,
        *,
        is_last: bool,
    ) -> Epoch:
        """Send the rows once; those that are to be sent again have no outcome.

        The answer is the epoch of whoever knows of newer owners. Nothing is sent if this raises.
        """
        view = self._view(name)
        rows = _made(view, writes, outcomes)
        left = [write for write in writes if write.place not in outcomes]
        tallies = [WriteTally(view.replicas(row.token), consistency) for row in rows]
        await self._rounds.write(view, rows, tallies)
        behind = EMPTY
        for write, row, tally in zip(left, rows, tallies, strict=True):
            write.may_be_written |= tally.may_be_written
            found = self._outcome(view, write, row, tally)
            if found is not None:
                outcomes[write.place] = found
            elif is_last:
                outcomes[write.place] = _short(write, tally, view.metadata.epoch)
            behind = max(behind, tally.shortage.behind)
        return behind

    async def _heard_of(self, name: TableName) -> None:
        """A table that was made a moment ago may be with the next entries: a short wait for it.

        Nobody is asked, so that names that do not exist cost the log nothing.
        """
        clock, applied = self._clock, self._engine.applied
        deadline_s = clock() + NEWS_TIMEOUT_S
        while applied.metadata.schema.table(name.keyspace, name.table) is None:
            news = Epoch(applied.metadata.epoch + 1)
            if not await self._engine.reached(news, max(deadline_s - clock(), 0)):
                return
            applied = self._engine.applied

    def _view(self, name: TableName) -> View:
        self._fitness.check()
        metadata = self._engine.applied.metadata
        assert self._engine.node is not None
        check_member(metadata, self._engine.node)
        return viewed(metadata, name)

    def _outcome(
        self, view: View, write: _Write, row: Row, tally: WriteTally
    ) -> Written | Problem | None:
        """None to try again."""
        now = self._engine.applied.metadata
        if tally.held_us is not None and write.put.timestamp is None:
            # Somebody else's clock is ahead. A write that would stay hidden was not made.
            write.timestamp = self._timestamps.beating(tally.held_us)
            return None if write.timestamp <= ID_MAX else _unbeatable(now)
        if tally.is_met and tally.is_met_by(view.replicas_in(now, row.token)):
            return Written(row, view.table, now.epoch)
        if tally.shortage.behind or view.replicas_in(now, row.token) != tally.replicas:
            return None
        return _short(write, tally, now.epoch)

    async def _catch_up(self, epoch: Epoch) -> bool:
        """Up to whoever said that this node is behind; not reaching it costs an attempt."""
        return await self._engine.catch_up(epoch, CATCH_UP_TIMEOUT_S)

    async def _repair(self, view: View, tally: ReadTally) -> bool:
        """Let a quorum of the owners of now have what is about to be answered.

        Otherwise a row that only some have could be seen by this read and not by the next one.
        It keeps its timestamp. What cannot be repaired in time stays as it was: nothing that was
        acknowledged depends on it. False if others knew of newer owners, and now this node does.
        """
        row, holders = tally.newest, tally.holders
        if row is None or len(holders) == len(tally.rows):
            return True
        now = self._engine.applied.metadata
        replicas = view.replicas_in(now, row.token)
        if replicas is None:
            return True
        wanted = WriteTally(replicas, Consistency.QUORUM)
        for node in holders:
            wanted.acknowledge(node)
        try:
            async with asyncio.timeout(REPAIR_TIMEOUT_S):
                await self._rounds.write(View(now, view.table), [row], [wanted], but=holders)
        except TimeoutError:
            return True
        behind = wanted.shortage.behind
        return wanted.is_met or not behind or not await self._catch_up(behind)


def _made(
    view: View, writes: Sequence[_Write], outcomes: dict[int, Written | Problem]
) -> list[Row]:
    """The rows; one that does not fit the table has its outcome."""
    rows: dict[str, Row] = {}
    for write in writes:
        try:
            row = write.row(view)
        except (InvalidRowError, RecursionError) as error:
            found = as_problem(error).problem
            found = msgspec.structs.replace(found, epoch=view.metadata.epoch)
            outcomes[write.place] = _unfinished(write, found)
            continue
        if row.key in rows:
            outcomes[write.place] = problem(
                Code.MALFORMED,
                "The key is that of another row before it.",
                field="key",
                epoch=view.metadata.epoch,
            )
        else:
            rows[row.key] = row
    return list(rows.values())


def _short(write: _Write, tally: WriteTally, epoch: Epoch) -> Problem:
    told = tally.shortage.told()
    if write.may_be_written:
        return problem(
            Code.WRITE_UNKNOWN,
            f"Too few replicas acknowledged the write, and some may have it. {told}",
            remedy="send it again; with the same timestamp it stays the same write",
            epoch=epoch,
        )
    return problem(
        Code.UNAVAILABLE_REPLICAS,
        f"Too few replicas can be reached, and none has the write. {told}",
        epoch=epoch,
    )


def _unfinished(write: _Write, found: Problem) -> Problem:
    """Of a row that cannot be sent again: why, unless somebody may have it already."""
    if not write.may_be_written:
        return found
    return problem(
        Code.WRITE_UNKNOWN,
        f"Some replicas may have the write, which could not be sent again: {found.detail}",
        epoch=found.epoch,
    )


def _unbeatable(metadata: ClusterMetadata) -> Problem:
    return problem(
        Code.NEWER_HELD,
        f"The row has the timestamp {ID_MAX}, which no later write can have.",
        field="timestamp",
        epoch=metadata.epoch,
    )
