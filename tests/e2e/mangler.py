"""Between two topics: what comes out is lost, doubled, late, shuffled, or never was."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import Counter

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from encoding.entries import decode_entry, encode_entry
from log.kafka_consumer import consume
from log.kafka_topic import ensured
from log.messages import Message
from metadata.cluster import ClusterId
from metadata.epoch import Epoch

WAITING_MAX = 20_000
LATE_S_MAX = 1.5
AWAY_PAUSE_S = 0.3
SEND_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 2.0
HEAP_MAX = 20
KINDS = ("not_avro", "unknown_schema", "stranger", "bad_hash", "future", "null")


class Mangler:
    """Drops a sixth of what passes, and adds nonsense of every kind that it knows.

    While `only` names a kind, everything comes as that and nothing as it was.
    """

    def __init__(self, bootstrap, random_, *, source, target):
        self.counts: Counter[str] = Counter()
        self.only: str | None = None
        self._bootstrap = bootstrap
        self._random = random_
        self._source = source
        self._target = target
        self._waiting: asyncio.Queue[Message] = asyncio.Queue(WAITING_MAX)

    async def run(self):
        async with asyncio.TaskGroup() as group:
            group.create_task(consume(self._bootstrap, self._take, topic=self._source))
            group.create_task(self._send_all())

    def _take(self, message):
        if self.only is not None:
            self._put(self._forged(message, self.only))
            return
        kinds = ("pass", "drop", "repeat", "delay", "forge")
        (kind,) = self._random.choices(kinds, weights=(55, 15, 10, 10, 10))
        self.counts[kind] += 1
        match kind:
            case "pass":
                self._put(message)
            case "repeat":
                for _ in range(self._random.randrange(2, 5)):
                    self._put(message)
            case "delay":
                loop = asyncio.get_running_loop()
                loop.call_later(self._random.uniform(0, LATE_S_MAX), self._put, message)
            case "forge":
                self._put(self._forged(message, self._random.choice(KINDS)))
                if self._random.random() < 0.5:
                    self._put(message)

    def _put(self, message):
        if self._waiting.full():
            self.counts["drop"] += 1
        else:
            self._waiting.put_nowait(message)

    def _forged(self, message, name):
        self.counts[name] += 1
        pick = self._random
        headers = dict(message.headers)
        value = message.value
        match name:
            case "not_avro":
                value = pick.randbytes(pick.randrange(60))
            case "unknown_schema":
                value = value[:2] + pick.randbytes(8) + value[10:]
            case "stranger":
                other = ClusterId(str(uuid.UUID(int=pick.getrandbits(128))))
                entry = msgspec.structs.replace(decode_entry(value), cluster=other)
                value = encode_entry(entry)
            case "bad_hash":
                headers["hash"] = pick.randbytes(32).hex().encode()
            case "future":
                ahead = Epoch(int(headers["epoch"]) + pick.randrange(1, 10**6))
                entry = msgspec.structs.replace(decode_entry(value), epoch=ahead)
                value, headers["epoch"] = encode_entry(entry), str(ahead).encode()
            case "null":
                value = None
        return Message(message.key, value, tuple(headers.items()))

    async def _send_all(self):
        """In small heaps, each shuffled; what a broker that is away does not take is lost."""
        while True:
            try:
                # The broker may be killed also while the topic is made.
                await ensured(self._bootstrap, self._target)
                await self._send_some()
            except (KafkaError, OSError, TimeoutError):
                self.counts["broker_away"] += 1
                await asyncio.sleep(AWAY_PAUSE_S)

    async def _send_some(self):
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap, request_timeout_ms=2000, max_request_size=4 << 20
        )
        try:
            await producer.start()
            while True:
                heap = [await self._waiting.get()]
                while not self._waiting.empty() and len(heap) < HEAP_MAX:
                    heap.append(self._waiting.get_nowait())
                arrived = [*heap]
                self._random.shuffle(heap)
                self.counts["shuffle"] += heap != arrived
                await self._send(producer, heap)
                self.counts["sent"] += len(heap)
        finally:
            with contextlib.suppress(TimeoutError, KafkaError, OSError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await producer.stop()
            # A broker that is away keeps it from closing; it would complain of that for ever.
            producer._closed = True

    async def _send(self, producer, heap):
        sent = []
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                for message in heap:
                    headers = list(message.headers)
                    future = await producer.send(
                        self._target, message.value, message.key, partition=0, headers=headers
                    )
                    sent.append(future)
                await asyncio.gather(*sent)
        finally:
            for future in sent:
                future.cancel()
            await asyncio.gather(*sent, return_exceptions=True)
