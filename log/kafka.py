"""Publishing the log to Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from aiokafka import AIOKafkaProducer

from log.entry import SealedEntry
from log.fanout import PublisherAwayError
from log.kafka_access import OPEN, Access
from log.kafka_topic import (
    AWAY,
    REQUEST_TIMEOUT_S,
    closed,
    ensured,
    milliseconds,
    quieten,
)
from log.messages import MESSAGE_BYTES_MAX, PARTITION, TOPIC, Message, message_of
from metadata.epoch import Epoch

PUBLISH_TIMEOUT_S = 15.0
BATCH_BYTES_MAX = 256 * 1024

Skip = Callable[[Epoch, int], None]


def ignore_skipped(_epoch: Epoch, _size_bytes: int) -> None:
    """For those who need not know."""


class KafkaPublisher:
    """Publishes in order and keeps nothing back: a page is acknowledged whole or not at all.

    Whatever goes wrong, the producer is thrown away and the next page gets a new one. An entry
    that is larger than the topic takes is left out, and `on_skipped` is told its epoch and size:
    followers fetch it from the CMS.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        topic: str = TOPIC,
        on_skipped: Skip = ignore_skipped,
        access: Access = OPEN,
    ) -> None:
        self._bootstrap = bootstrap
        self._access = access
        self._topic = topic
        self._on_skipped = on_skipped
        self._producer: AIOKafkaProducer | None = None
        self._payload_bytes_max = 0

    async def publish(self, entries: Sequence[SealedEntry]) -> None:
        try:
            async with asyncio.timeout(PUBLISH_TIMEOUT_S):
                await self._send(await self._connected(), entries)
        except AWAY as error:
            await self.close()
            raise PublisherAwayError(repr(error)) from error
        except asyncio.CancelledError:
            # Half started, or with half a page on its way: nothing to go on with.
            await self.close()
            raise

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await _dropped(producer)

    async def _connected(self) -> AIOKafkaProducer:
        if self._producer is None:
            quieten()
            self._payload_bytes_max = await ensured(self._bootstrap, self._topic, self._access)
            self._producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                enable_idempotence=True,
                acks="all",
                max_batch_size=min(BATCH_BYTES_MAX, self._payload_bytes_max),
                max_request_size=MESSAGE_BYTES_MAX,
                request_timeout_ms=milliseconds(REQUEST_TIMEOUT_S),
                **self._access.options(),
            )
            await self._producer.start()
        return self._producer

    async def _send(self, producer: AIOKafkaProducer, entries: Sequence[SealedEntry]) -> None:
        sent: list[asyncio.Future[object]] = []
        try:
            for message in self._messages(entries):
                sent.append(  # noqa: PERF401 the futures are needed also when a send fails
                    await producer.send(
                        self._topic,
                        message.value,
                        message.key,
                        partition=PARTITION,
                        headers=list(message.headers),
                    )
                )
            for outcome in await asyncio.gather(*sent, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
        finally:
            for future in sent:
                future.cancel()

    def _messages(self, entries: Sequence[SealedEntry]) -> list[Message]:
        fitting = []
        for sealed in entries:
            if len(sealed.payload) > self._payload_bytes_max:
                self._on_skipped(sealed.epoch, len(sealed.payload))
            else:
                fitting.append(message_of(sealed))
        return fitting


async def _dropped(producer: AIOKafkaProducer) -> None:
    """Close it whatever it was doing.

    Its own `stop` first waits until all is sent, which without a broker is for ever; an idempotent
    producer never gives up.
    """
    try:
        await closed(producer._sender.close())  # noqa: SLF001 there is no public way
    finally:
        await closed(producer.client.close())
    producer._closed = True  # noqa: SLF001 it is; or it would warn that it is not
