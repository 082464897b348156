"""A cheap load generator: the same raw protocol and loop for whatever speaks HTTP.

Run as a process of its own, so that it shares no interpreter with what it measures: a `Load` as
JSON on standard input, a `Measured` on standard output. Each connection sends its next request
as soon as the answer to the last one is whole.
"""

from __future__ import annotations

import asyncio
import random
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import count
from time import perf_counter
from typing import cast

import msgspec
import uvloop

ADDRESS = "127.0.0.1"
KEYS = 1_000
WARM_UP_S = 0.5
CONNECT_TIMEOUT_S = 30.0

Build = Callable[[int], bytes]
"""The body of a request, from the number of its first commit."""
Count = Callable[[bytes], int]
"""How many commits an answer acknowledges."""


class System(StrEnum):
    RINGLOG = "ringlog"
    ETCD = "etcd"


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """`batch` commits go into each request; one means the plain request for one."""

    system: System
    port: int
    connections: int
    batch: int = 1
    seconds: float = 3.0


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """`total` counts what was acknowledged while warming up, too."""

    total: int
    commits: int
    failed: int
    per_second: float
    p50_ms: float
    p99_ms: float


class Dialect(msgspec.Struct, frozen=True):
    path: str
    build: Build
    acknowledged: Count


def dialect(load: Load) -> Dialect:
    return _of_ringlog(load.batch) if load.system is System.RINGLOG else _of_etcd(load.batch)


def _of_ringlog(batch: int) -> Dialect:
    run = random.getrandbits(32)
    if batch == 1:
        return Dialect("/v1/commit", lambda number: _commit(run, number), _hashes)

    def commits(first: int) -> bytes:
        items = b",".join([_commit(run, first + index) for index in range(batch)])
        return b'{"commits":[%s]}' % items

    return Dialect("/v1/commit/batch", commits, _hashes)


def _of_etcd(batch: int) -> Dialect:
    if batch == 1:
        return Dialect("/v3/kv/put", _put, lambda answer: answer.count(b'"revision"'))

    def transaction(first: int) -> bytes:
        items = b",".join([b'{"requestPut":%s}' % _put(first + index) for index in range(batch)])
        return b'{"success":[%s]}' % items

    return Dialect(
        "/v3/kv/txn", transaction, lambda answer: batch * answer.count(b'"succeeded":true')
    )


def _commit(run: int, number: int) -> bytes:
    return (
        b'{"entry_id":"%08x-0000-4000-8000-%012x","transformation":'
        b'{"kind":"SetExtension","name":"key%d","value":"value %d"}}'
        % (run, number, number % KEYS, number)
    )


def _put(number: int) -> bytes:
    key, value = b"key%d" % (number % KEYS), b"value %d" % number
    return b'{"key":"%s","value":"%s"}' % (b64encode(key), b64encode(value))


def _hashes(answer: bytes) -> int:
    return answer.count(b'"hash":"')


class Tally:
    """What all connections of a run saw between the end of warming up and the deadline."""

    def __init__(self, load: Load) -> None:
        self.batch = load.batch
        self.dialect = dialect(load)
        self.numbers: Iterator[int] = count(0, load.batch)
        self.latencies_s: list[float] = []
        self.total = 0
        self.commits = 0
        self.failed = 0
        self.is_counting = False
        self.is_over = False

    def request(self) -> bytes:
        body = self.dialect.build(next(self.numbers))
        return (
            b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (self.dialect.path.encode(), len(body), body)
        )

    def answered(self, answer: bytes, latency_s: float) -> None:
        found = self.dialect.acknowledged(answer) if answer.startswith(b"HTTP/1.1 200") else 0
        self.total += found
        if not self.is_counting:
            return
        self.commits += found
        self.failed += self.batch - found
        self.latencies_s.append(latency_s)

    def lost(self) -> None:
        if not self.is_over:
            self.failed += self.batch


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._received = b""
        self._sent_at = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._tally.lost()

    def send(self) -> None:
        assert self._transport is not None
        request = self._tally.request()
        self._sent_at = perf_counter()
        self._transport.write(request)

    def close(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._received = self._received + data if self._received else data
        if not is_whole(self._received):
            return
        answer, self._received = self._received, b""
        self._tally.answered(answer, perf_counter() - self._sent_at)
        if not self._tally.is_over:
            self.send()


def is_whole(answer: bytes) -> bool:
    """Whether the answer has ended, by its length or by its last chunk."""
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    _, found, rest = head.partition(b"Content-Length: ")
    if found:
        return len(body) >= int(rest.partition(b"\r\n")[0])
    return body.endswith(b"0\r\n\r\n")


async def generated(load: Load) -> Measured:
    """By a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.load"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate(msgspec.json.encode(load))
    return msgspec.json.decode(output, type=Measured)


async def measured(load: Load) -> Measured:
    tally = Tally(load)
    loop = asyncio.get_running_loop()
    connections: list[Connection] = []
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        for _ in range(load.connections):
            _, made = await loop.create_connection(lambda: Connection(tally), ADDRESS, load.port)
            connections.append(made)
    for connection in connections:
        connection.send()
    await asyncio.sleep(WARM_UP_S)
    tally.is_counting = True
    started = perf_counter()
    await asyncio.sleep(load.seconds)
    tally.is_over = True
    tally.is_counting = False
    elapsed_s = perf_counter() - started
    for connection in connections:
        connection.close()
    ranked = sorted(tally.latencies_s) or [float("inf")]
    return Measured(
        total=tally.total,
        commits=tally.commits,
        failed=tally.failed,
        per_second=tally.commits / elapsed_s,
        p50_ms=1000 * ranked[len(ranked) // 2],
        p99_ms=1000 * ranked[len(ranked) * 99 // 100],
    )


def main() -> None:
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=Load)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(measured(load))))


if __name__ == "__main__":
    main()
