"""One replica: applies reads and writes of others to the node's own store, if it may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.replicas import Replicas, replicas_of
from metadata.schema import Table
from metadata.tokens import Token
from services.http.data_messages import (
    ReadAnswer,
    ReplicaKey,
    ReplicaRead,
    ReplicaWrite,
    WriteAnswer,
)
from services.http.problems import Code, ProblemError
from services.node.data.failures import told
from services.node.data.fitness import Fitness
from services.node.engine import NodeEngine
from store.failures import SegmentError
from store.rows import Row, check
from store.store import Store

CATCH_UP_TIMEOUT_S = 1.0
ANSWER_BYTES_MAX = 4 * 1024 * 1024
"""Of rows in one answer, unless there is but one: it has to arrive in time."""

T = TypeVar("T")
Refusals = dict[int, str]


class Admitted(msgspec.Struct, frozen=True):
    """What of a message may be done, by the metadata of now; the rest is refused, by place."""

    metadata: ClusterMetadata
    table: Table | None
    places: tuple[int, ...]
    refused: Refusals


class Replica:
    """`count_written` hears of rows that were put, so that they can be flushed in time."""

    def __init__(
        self,
        engine: NodeEngine,
        store: Store,
        fitness: Fitness,
        count_written: Callable[[Table, Sequence[Row]], None],
    ) -> None:
        self._engine = engine
        self._store = store
        self._fitness = fitness
        self._count_written = count_written
        self._running: set[asyncio.Task[Any]] = set()

    async def write(self, message: ReplicaWrite) -> WriteAnswer:
        """What is not refused is durable when this returns."""
        await self._catch_up(message.epoch)
        found = self._judged(message, [row.token for row in message.rows], is_write=True)
        epoch = found.metadata.epoch
        rows = [message.rows[place] for place in found.places]
        held = await self._finished(epoch, self._put(found, rows)) if rows else []
        return WriteAnswer(
            epoch=epoch,
            held={
                place: row.timestamp
                for place, row in zip(found.places, held, strict=True)
                if row is not None
            },
            refused=found.refused,
        )

    async def read(self, message: ReplicaRead) -> ReadAnswer:
        await self._catch_up(message.epoch)
        found = self._judged(message, [key.token for key in message.keys], is_write=False)
        epoch = found.metadata.epoch
        keys = [message.keys[place] for place in found.places]
        got = await self._finished(epoch, self._get(found, keys)) if keys else []
        rows, damaged = _sorted_out(found.places, got)
        left_out = list(rows)[fitting(list(rows.values())) :]
        return ReadAnswer(
            epoch=epoch,
            rows=tuple(
                None if place in left_out else rows.get(place) for place in range(len(message.keys))
            ),
            refused={**found.refused, **damaged, **dict.fromkeys(left_out, Code.TOO_LARGE.value)},
        )

    async def close(self) -> None:
        """Until what was handed to the store has ended."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _catch_up(self, epoch: Epoch) -> None:
        """Whoever asks by newer metadata may know of owners that this node does not know yet."""
        self._fitness.check()
        if epoch <= self._engine.applied.metadata.epoch:
            return
        if not await self._engine.catch_up(epoch, CATCH_UP_TIMEOUT_S):
            own = self._engine.applied.metadata.epoch
            raise ProblemError(
                Code.REPLICA_BEHIND,
                f"This node is at epoch {own} and could not reach epoch {epoch} in time.",
                epoch=own,
            )
        self._fitness.check()

    def _judged(
        self, message: ReplicaWrite | ReplicaRead, tokens: Sequence[Token], *, is_write: bool
    ) -> Admitted:
        metadata, node = self._engine.applied.metadata, self._engine.node
        assert node is not None
        table = metadata.schema.tables.get(message.table)
        if table is None or table.epoch > message.epoch:
            behind = dict.fromkeys(range(len(tokens)), Code.COORDINATOR_BEHIND.value)
            return Admitted(metadata, None, (), behind)
        refused: Refusals = {}
        for place, token in enumerate(tokens):
            replicas = replicas_of(metadata, table.keyspace, token)
            code = refusal(replicas, node, message.epoch, is_write=is_write)
            if code is not None:
                refused[place] = code.value
        places = tuple(place for place in range(len(tokens)) if place not in refused)
        return Admitted(metadata, table, places, refused)

    async def _put(self, found: Admitted, rows: Sequence[Row]) -> list[Row | None]:
        assert found.table is not None
        with told():
            # A row that could not be written to a segment would be in the way of all others.
            for row in rows:
                check(found.table, row)
            held = await self._store.put(found.table, rows)
        self._count_written(found.table, rows)
        return held

    async def _get(
        self, found: Admitted, keys: Sequence[ReplicaKey]
    ) -> list[Row | SegmentError | None]:
        """Keys that others ask for are not to fail by a segment that is none of theirs."""
        assert found.table is not None
        table = found.table

        async def get(key: ReplicaKey) -> Row | SegmentError | None:
            try:
                return await self._store.get(table, key.token, key.key)
            except SegmentError as error:
                if len(keys) == 1:
                    raise
                return error

        with told():
            return await asyncio.gather(*map(get, keys))

    async def _finished(self, epoch: Epoch, work: Coroutine[Any, Any, T]) -> T:
        """Run what the metadata at `epoch` has let in to its end, even if nobody waits any more.

        What was handed to the store happens in any case; as long as it may, the gate must know.
        """
        gate = self._engine.gate
        gate.admit(epoch)
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)

        def release(ended: asyncio.Task[T]) -> None:
            self._running.discard(ended)
            gate.release(epoch)

        task.add_done_callback(release)
        return await asyncio.shield(task)


def _sorted_out(
    places: Sequence[int], got: Sequence[Row | SegmentError | None]
) -> tuple[dict[int, Row | None], Refusals]:
    """What was found, by place, and what cannot be told."""
    rows: dict[int, Row | None] = {}
    damaged: Refusals = {}
    for place, item in zip(places, got, strict=True):
        if isinstance(item, SegmentError):
            damaged[place] = Code.UNUSABLE_SEGMENT.value
        else:
            rows[place] = item
    return rows, damaged


def fitting(rows: Sequence[Row | None]) -> int:
    """How many of the first ones go into one answer."""
    size_bytes = 0
    for place, row in enumerate(rows):
        size_bytes += 0 if row is None else len(row.key) + len(row.content or b"")
        if place and size_bytes > ANSWER_BYTES_MAX:
            return place
    return len(rows)


def refusal(
    replicas: Replicas | None, node: NodeId, epoch: Epoch, *, is_write: bool
) -> Code | None:
    """Why a replica does not do what a coordinator asks by its metadata at `epoch`, if so."""
    if replicas is None:
        return Code.COORDINATOR_BEHIND
    changed = replicas.write_epoch if is_write else replicas.read_epoch
    if changed > epoch:
        return Code.COORDINATOR_BEHIND
    if node not in (replicas.writers if is_write else replicas.readers):
        return Code.NOT_OWNER
    return None
