"""Messages on their way to other nodes: what waits for the same one goes together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from metadata.directory import NodeId
from services.http.data_messages import (
    ROWS_MAX,
    ReadAnswer,
    ReplicaRead,
    ReplicaWrite,
    WriteAnswer,
)
from services.http.problems import Code
from services.node.data.messaging import SilentError

RUNNING_MAX = 2
"""Messages under way to one node; the more wait meanwhile, the more the next one carries."""
WAITING_MAX = 4096
MESSAGE_BYTES_MAX = 512 * 1024
WAITING_S_MAX = 1.0
"""Behind messages that fail; a node that does its work is waited for."""
KEYS_MAX = 64
"""In one read: a replica has all of their rows in memory at once."""

M = TypeVar("M", ReplicaWrite, ReplicaRead)
A = TypeVar("A", WriteAnswer, ReadAnswer)
_Lane = tuple[NodeId, int, int]
"""Node, table and epoch: only what has these in common can be one message."""


class _Waiting(msgspec.Struct, Generic[M], frozen=True, eq=False):
    message: M
    answer: asyncio.Future[Any]
    since_s: float


class Outbox(Generic[M, A]):
    """Asking a node costs far more than one row more in the question.

    Whoever finds nothing under way is sent at once. A message goes on if its sender is cancelled,
    since others may be in it; it ends by its own timeout. What was left out of an answer, for
    which `split` gives None, is asked for again before all else, and fewer at a time for a while.
    """

    def __init__(
        self,
        send: Callable[[NodeId, M], Awaitable[A]],
        joined: Callable[[Sequence[M]], M],
        split: Callable[[A, Sequence[M]], Sequence[A | None]],
        rows_max: int = ROWS_MAX,
    ) -> None:
        self._send: Callable[[NodeId, M], Awaitable[A]] = send
        self._joined: Callable[[Sequence[M]], M] = joined
        self._split: Callable[[A, Sequence[M]], Sequence[A | None]] = split
        self._rows_max = rows_max
        self._fitting: dict[_Lane, int] = {}
        self._running: dict[_Lane, int] = {}
        self._waiting: dict[_Lane, deque[_Waiting[M]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(self, node: NodeId, message: M) -> A:
        lane = (node, message.table, message.epoch)
        waiting = self._waiting.setdefault(lane, deque())
        if len(waiting) >= WAITING_MAX:
            raise SilentError("too many messages wait for it", may_have_arrived=False)
        loop = asyncio.get_running_loop()
        entry = _Waiting(message, loop.create_future(), loop.time())
        waiting.append(entry)
        self._go_on(lane)
        answer: A = await entry.answer
        return answer

    async def close(self) -> None:
        """Nothing is sent any more; nobody waits by now."""
        for waiting in self._waiting.values():
            waiting.clear()
        left = set(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _go_on(self, lane: _Lane) -> None:
        while self._running.get(lane, 0) < RUNNING_MAX:
            batch = _taken(self._waiting[lane], self._fitting.get(lane, self._rows_max))
            if not batch:
                return
            self._running[lane] = self._running.get(lane, 0) + 1
            task = asyncio.get_running_loop().create_task(self._run(lane, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, lane: _Lane, batch: Sequence[_Waiting[M]]) -> None:
        messages = [item.message for item in batch]
        try:
            answer = await self._send(lane[0], self._joined(messages))
            parts = self._split(answer, messages)
        except SilentError as error:
            for item in batch:
                if not item.answer.done():
                    item.answer.set_exception(error)
            self._give_up(lane, error)
        else:
            for item, part in zip(batch, parts, strict=True):
                if not item.answer.done() and part is not None:
                    item.answer.set_result(part)
            again = [item for item, part in zip(batch, parts, strict=True) if part is None]
            self._ask_again(lane, again, answered=len(batch) - len(again))
            batch = ()
        finally:
            for item in batch:
                # Whoever waits for what was broken off must not wait for ever.
                if not item.answer.done():
                    broken = SilentError("it was broken off", may_have_arrived=True)
                    item.answer.set_exception(broken)
            self._ended(lane)

    def _give_up(self, lane: _Lane, error: SilentError) -> None:
        """A stuck node must not hold up one after the other, each for a timeout of its own."""
        long_ago_s = asyncio.get_running_loop().time() - WAITING_S_MAX
        for item in self._waiting[lane]:
            if item.since_s <= long_ago_s and not item.answer.done():
                unsent = SilentError(f"others before it failed: {error}", may_have_arrived=False)
                item.answer.set_exception(unsent)

    def _ask_again(self, lane: _Lane, left_out: Sequence[_Waiting[M]], *, answered: int) -> None:
        before = self._fitting.get(lane, self._rows_max)
        self._fitting[lane] = answered if left_out else min(2 * before, self._rows_max)
        self._waiting[lane].extendleft(reversed(left_out))

    def _ended(self, lane: _Lane) -> None:
        self._running[lane] -= 1
        self._go_on(lane)
        if not self._running[lane]:
            del self._running[lane], self._waiting[lane]
            self._fitting.pop(lane, None)


def _taken(waiting: deque[_Waiting[M]], rows_max: int) -> list[_Waiting[M]]:
    """The first ones that somebody still waits for, as many as one message carries."""
    taken: list[_Waiting[M]] = []
    rows = size_bytes = 0
    while waiting:
        if waiting[0].answer.done():
            waiting.popleft()
            continue
        found, found_bytes = size_of(waiting[0].message)
        if taken and (rows + found > rows_max or size_bytes + found_bytes > MESSAGE_BYTES_MAX):
            break
        taken.append(waiting.popleft())
        rows, size_bytes = rows + found, size_bytes + found_bytes
    return taken


def size_of(message: ReplicaWrite | ReplicaRead) -> tuple[int, int]:
    """Rows and bytes, about."""
    if isinstance(message, ReplicaRead):
        return len(message.keys), sum(len(key.key) for key in message.keys)
    sizes = (len(row.key) + len(row.content or b"") for row in message.rows)
    return len(message.rows), sum(sizes)


def joined_writes(messages: Sequence[ReplicaWrite]) -> ReplicaWrite:
    first = messages[0]
    rows = tuple(row for message in messages for row in message.rows)
    return ReplicaWrite(epoch=first.epoch, table=first.table, rows=rows)


def joined_reads(messages: Sequence[ReplicaRead]) -> ReplicaRead:
    first = messages[0]
    keys = tuple(key for message in messages for key in message.keys)
    return ReplicaRead(epoch=first.epoch, table=first.table, keys=keys)


def split_writes(answer: WriteAnswer, messages: Sequence[ReplicaWrite]) -> list[WriteAnswer]:
    """The part of each message, with places counted from its own first row."""
    parts = []
    start = 0
    for message in messages:
        held = _within(answer.held, start, len(message.rows))
        refused = _within(answer.refused, start, len(message.rows))
        parts.append(WriteAnswer(epoch=answer.epoch, held=held, refused=refused))
        start += len(message.rows)
    return parts


def split_reads(answer: ReadAnswer, messages: Sequence[ReplicaRead]) -> list[ReadAnswer | None]:
    """The part of each message; None where some of it did not fit into the answer."""
    if len(answer.rows) != sum(len(message.keys) for message in messages):
        raise SilentError("its answer makes no sense", may_have_arrived=True)
    parts: list[ReadAnswer | None] = []
    start = 0
    for message in messages:
        rows = answer.rows[start : start + len(message.keys)]
        refused = _within(answer.refused, start, len(message.keys))
        is_whole = Code.TOO_LARGE not in refused.values()
        part = ReadAnswer(epoch=answer.epoch, rows=rows, refused=refused)
        parts.append(part if is_whole else None)
        start += len(message.keys)
    if all(part is None for part in parts):
        # Otherwise it would be asked for ever.
        raise SilentError("its answer holds nothing", may_have_arrived=True)
    return parts


V = TypeVar("V")


def _within(found: dict[int, V], start: int, count: int) -> dict[int, V]:
    if not found:
        return {}
    return {place - start: found[place] for place in range(start, start + count) if place in found}
