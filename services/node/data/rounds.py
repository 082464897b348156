"""One round of replica messages: sent to all at once, and answered by as many as are needed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from metadata.directory import NodeId
from services.http.data_messages import (
    ReadAnswer,
    ReplicaKey,
    ReplicaRead,
    ReplicaWrite,
    WriteAnswer,
)
from services.http.problems import ProblemError
from services.node.data.messaging import HARMLESS, MESSAGE_TIMEOUT_S, Messenger, SilentError
from services.node.data.outbox import (
    KEYS_MAX,
    MESSAGE_BYTES_MAX,
    Outbox,
    joined_reads,
    joined_writes,
    split_reads,
    split_writes,
)
from services.node.data.replica import Replica
from services.node.data.tables import View
from services.node.data.tallies import ReadTally, WriteTally
from services.node.engine import NodeEngine
from store.rows import Row

PATIENCE_S = 0.25
"""So long one reader is waited for before another is asked as well."""
STRAGGLERS_MAX = 1000
"""Messages that go on although nobody waits for them; each ends by its own timeout."""


class Rounds:
    """To this node's own replica directly, to the others over HTTP."""

    def __init__(self, engine: NodeEngine, replica: Replica, messenger: Messenger) -> None:
        self._engine = engine
        self._replica = replica
        self._messenger = messenger
        self._writes = Outbox(messenger.write, joined_writes, split_writes)
        self._reads = Outbox(messenger.read, joined_reads, split_reads, KEYS_MAX)
        self._stragglers: set[asyncio.Task[None]] = set()

    async def write(
        self,
        view: View,
        rows: Sequence[Row],
        tallies: Sequence[WriteTally],
        but: Collection[NodeId] = (),
    ) -> None:
        """Send each row to its writers, `but` those; return once enough of each have answered."""
        places: dict[NodeId, list[int]] = {}
        for place, tally in enumerate(tallies):
            for node in tally.replicas.writers:
                if node not in but:
                    places.setdefault(node, []).append(place)
        loop = asyncio.get_running_loop()
        tasks = {
            loop.create_task(self._write(node, view, rows, tallies, part))
            for node, found in places.items()
            for part in _parts(found, rows)
        }
        await self._until_met(tasks, tallies)

    async def read(self, view: View, key: ReplicaKey, tally: ReadTally) -> None:
        """Ask as few readers as are needed, and others for those who fail."""
        loop = asyncio.get_running_loop()
        waiting = self._ordered(tally.replicas.readers)
        running: dict[asyncio.Task[None], NodeId] = {}
        try:
            while not tally.is_met:
                while waiting and not tally.would_be_met(set(running.values())):
                    node = waiting.pop(0)
                    running[loop.create_task(self._read(node, view, key, tally))] = node
                if not running:
                    return
                done, _ = await asyncio.wait(
                    running,
                    timeout=PATIENCE_S if waiting else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in done:
                    del running[task]
                    task.result()
                if not done:
                    # Somebody is slow, or stuck; the next one may be quicker.
                    node = waiting.pop(0)
                    running[loop.create_task(self._read(node, view, key, tally))] = node
        finally:
            for task in running:
                task.cancel()

    def _ordered(self, readers: Iterable[NodeId]) -> list[NodeId]:
        own = self._engine.node
        return sorted(readers, key=lambda node: (node != own, self._messenger.is_suspect(node)))

    async def _until_met(
        self, tasks: set[asyncio.Task[None]], tallies: Sequence[WriteTally]
    ) -> None:
        waiting: set[asyncio.Task[None]] = set(tasks)
        try:
            while waiting and not all(tally.is_met for tally in tallies):
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in waiting:
                self._leave(task)

    def _leave(self, task: asyncio.Task[None]) -> None:
        """It goes on: the more replicas have a row, the better; but a node may be stuck."""
        if len(self._stragglers) >= STRAGGLERS_MAX:
            task.cancel()
        self._stragglers.add(task)
        task.add_done_callback(self._stragglers.discard)

    async def close(self) -> None:
        """Let nobody be written to any more."""
        left: set[asyncio.Task[Any]] = set(self._stragglers)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._writes.close()
        await self._reads.close()

    async def _write(
        self,
        node: NodeId,
        view: View,
        rows: Sequence[Row],
        tallies: Sequence[WriteTally],
        places: Sequence[int],
    ) -> None:
        message = ReplicaWrite(
            epoch=view.metadata.epoch,
            table=view.table.id,
            rows=tuple(rows[place] for place in places),
        )
        try:
            answer = await self._written(node, message)
        except SilentError as error:
            for place in places:
                tallies[place].lose(node, str(error), may_have_arrived=error.may_have_arrived)
        else:
            _count(node, answer, {at: tallies[place] for at, place in enumerate(places)})

    async def _written(self, node: NodeId, message: ReplicaWrite) -> WriteAnswer:
        if node != self._engine.node:
            return await self._writes.send(node, message)
        try:
            async with asyncio.timeout(MESSAGE_TIMEOUT_S):
                return await self._replica.write(message)
        except (ProblemError, TimeoutError) as error:
            raise _silent(error) from error

    async def _read(self, node: NodeId, view: View, key: ReplicaKey, tally: ReadTally) -> None:
        message = ReplicaRead(epoch=view.metadata.epoch, table=view.table.id, keys=(key,))
        try:
            answer = await self._asked(node, message)
        except SilentError as error:
            tally.shortage.reasons[node] = str(error)
            return
        if 0 in answer.refused:
            tally.shortage.refused(node, answer.refused[0], answer.epoch)
        else:
            tally.rows[node] = answer.rows[0]

    async def _asked(self, node: NodeId, message: ReplicaRead) -> ReadAnswer:
        if node != self._engine.node:
            return await self._reads.send(node, message)
        try:
            async with asyncio.timeout(MESSAGE_TIMEOUT_S):
                return await self._replica.read(message)
        except (ProblemError, TimeoutError) as error:
            raise _silent(error) from error


def _parts(places: Sequence[int], rows: Sequence[Row]) -> Iterator[list[int]]:
    """Messages of a size that nobody has to wait long for."""
    part: list[int] = []
    size_bytes = 0
    for place in places:
        row_bytes = len(rows[place].key) + len(rows[place].content or b"")
        if part and size_bytes + row_bytes > MESSAGE_BYTES_MAX:
            yield part
            part, size_bytes = [], 0
        part.append(place)
        size_bytes += row_bytes
    yield part


def _count(node: NodeId, answer: WriteAnswer, tallies: Mapping[int, WriteTally]) -> None:
    for place, tally in tallies.items():
        if place in answer.refused:
            tally.shortage.refused(node, answer.refused[place], answer.epoch)
        else:
            tally.acknowledge(node, answer.held.get(place))


def _silent(error: ProblemError | TimeoutError) -> SilentError:
    if isinstance(error, ProblemError):
        code = error.problem.code
        return SilentError(f"{code}: {error}", may_have_arrived=code not in HARMLESS)
    return SilentError("its own disk did not answer in time", may_have_arrived=True)
