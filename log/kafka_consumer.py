"""Listening to the topic in Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import random
import zlib
from collections.abc import AsyncIterator, Callable
from gzip import BadGzipFile
from typing import NoReturn

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import (
    CorruptRecordException,
    UnknownTopicOrPartitionError,
    UnsupportedCodecError,
)

from log.backoff import Backoff, Delay, ignore_delay
from log.kafka_access import OPEN, Access, Brokers
from log.kafka_topic import AWAY, REQUEST_TIMEOUT_S, closed, milliseconds, quieten
from log.messages import PARTITION, TOPIC, Message, Receive

FETCH_MESSAGES_MAX = 500
FETCH_BYTES_MAX = 4 * 1024 * 1024
FETCH_WAIT_S = 0.5
PROBE_AFTER_S = 5.0
"""After so much silence a consumer asks whether the broker still serves the topic."""

PATIENT = Backoff(last_s=2.0)

# What cannot even be cut into messages, or not with the libraries at hand. Whoever wrote it was not
# us, and the log has what is skipped with it. Where it was, it stays: to read on there is in vain.
_UNREADABLE = (
    CorruptRecordException,
    UnicodeDecodeError,
    UnsupportedCodecError,
    BadGzipFile,
    EOFError,
    zlib.error,
)


def ignore_unreadable(_error: Exception) -> None:
    """For those who need not know."""


def ignore_return() -> None:
    """For those who need not know."""


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told what.

    `on_delayed`: the broker or the topic is away. `on_back`: it answers again.
    `on_unreadable`: something in the topic cannot be read here and is left behind.
    """

    on_delayed: Callable[[Delay], None] = ignore_delay
    on_back: Callable[[], None] = ignore_return
    on_unreadable: Callable[[Exception], None] = ignore_unreadable


NO_HOOKS = Hooks()


async def consume(
    bootstrap: str,
    receive: Receive,
    *,
    topic: str = TOPIC,
    hooks: Hooks = NO_HOOKS,
    backoff: Backoff = PATIENT,
    access: Access = OPEN,
) -> NoReturn:
    """Call `receive` with each message, from the end of the topic on, until cancelled.

    A topic that does not exist yet is taken from its beginning. The broker may go and come back:
    reading goes on where it was. Behind what cannot be read it goes on at the end of the topic.
    """
    quieten()
    listening = _Listening(Brokers(bootstrap, access), topic, receive, hooks.on_back)
    while True:
        try:
            await listening.listen()
        except _UNREADABLE as error:
            pause_s = _pause_s(backoff, listening.skipped())
            hooks.on_unreadable(error)
        except AWAY as error:
            failures = listening.failed(error)
            pause_s = _pause_s(backoff, failures)
            hooks.on_delayed(Delay(error=error, failures=failures, pause_s=pause_s))
        await asyncio.sleep(pause_s)


def _pause_s(backoff: Backoff, failures: int) -> float:
    chance = random.random()  # noqa: S311 spreads consumers, guards nothing
    return backoff.pause_s(failures, chance=chance)


class _Listening:
    """Where a consumer is, over all its connections."""

    def __init__(
        self, brokers: Brokers, topic: str, receive: Receive, on_back: Callable[[], None]
    ) -> None:
        self._brokers = brokers
        self._place = TopicPartition(topic, PARTITION)
        self._receive = receive
        self._on_back = on_back
        # Within the topic; None stands for its end.
        self._next: int | None = None
        self._failures = 0
        self._skips = 0

    async def listen(self) -> NoReturn:
        async with _consumer(self._brokers) as consumer:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await self._begin(consumer)
            loop = asyncio.get_running_loop()
            heard_s = loop.time()
            while True:
                if await self._received(consumer):
                    heard_s = loop.time()
                elif loop.time() - heard_s > PROBE_AFTER_S:
                    await self._probe(consumer)
                    heard_s = loop.time()

    def failed(self, error: Exception) -> int:
        """How often in a row by now."""
        if isinstance(error, UnknownTopicOrPartitionError) and self._next is None:
            self._next = 0
        self._failures += 1
        return self._failures

    def skipped(self) -> int:
        """The same for what cannot be read, which is left behind."""
        self._next = None
        self._skips += 1
        return self._skips

    def _goes_well(self) -> None:
        if self._failures:
            self._on_back()
        self._failures = self._skips = 0

    async def _begin(self, consumer: AIOKafkaConsumer) -> None:
        if self._place.topic not in await consumer.topics():
            raise UnknownTopicOrPartitionError(self._place.topic)
        consumer.assign([self._place])
        if self._next is None:
            await consumer.seek_to_end(self._place)
            self._next = await consumer.position(self._place)
        else:
            consumer.seek(self._place, self._next)

    async def _received(self, consumer: AIOKafkaConsumer) -> int:
        found = await consumer.getmany(
            self._place, timeout_ms=milliseconds(FETCH_WAIT_S), max_records=FETCH_MESSAGES_MAX
        )
        messages = found.get(self._place, [])
        for each in messages:
            self._next = each.offset + 1
            self._goes_well()
            self._receive(Message(each.key, each.value, tuple(each.headers)))
        return len(messages)

    async def _probe(self, consumer: AIOKafkaConsumer) -> None:
        # The library itself would look for ever for brokers where they once were.
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            await consumer.end_offsets([self._place])
        self._goes_well()


@contextlib.asynccontextmanager
async def _consumer(brokers: Brokers) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=brokers.bootstrap,
        group_id=None,
        enable_auto_commit=False,
        # Where the topic was made anew, or has forgotten where we were.
        auto_offset_reset="earliest",
        fetch_max_wait_ms=milliseconds(FETCH_WAIT_S),
        fetch_max_bytes=FETCH_BYTES_MAX,
        max_partition_fetch_bytes=FETCH_BYTES_MAX,
        request_timeout_ms=milliseconds(REQUEST_TIMEOUT_S),
        **brokers.access.options(),
    )
    try:
        await consumer.start()
        yield consumer
    finally:
        try:
            await closed(consumer.stop())
        finally:
            # Which it leaves out if it fails before.
            await closed(consumer._client.close())  # noqa: SLF001 there is no public way
