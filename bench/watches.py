"""An etcd watch over its HTTP gateway, as the peer of a node that follows."""

from __future__ import annotations

import asyncio
import base64
import time

import aiohttp
import msgspec

from services.local.ports import ADDRESS

KEY = base64.b64encode(b"bench").decode()
READY_TIMEOUT_S = 30.0


class _Kv(msgspec.Struct, frozen=True):
    value: str = ""


class _Event(msgspec.Struct, frozen=True):
    kv: _Kv


class _Result(msgspec.Struct, frozen=True):
    events: tuple[_Event, ...] = ()


class _Line(msgspec.Struct, frozen=True):
    result: _Result


class _Watcher:
    """Notes when each value was first seen."""

    def __init__(self, total: int) -> None:
        self.seen: dict[str, float] = {}
        self.ready = asyncio.Event()
        self.saw_all = asyncio.Event()
        self._total = total

    async def run(self, session: aiohttp.ClientSession) -> None:
        body = {"create_request": {"key": KEY}}
        async with session.post("/v3/watch", json=body, timeout=None) as response:
            async for line in response.content:
                self._note(line, time.perf_counter())

    def _note(self, line: bytes, now: float) -> None:
        self.ready.set()
        for event in msgspec.json.decode(line, type=_Line).result.events:
            self.seen.setdefault(event.kv.value, now)
        if len(self.seen) == self._total:
            self.saw_all.set()


async def watched_etcd(port: int, puts: int, *, warm_up: int) -> tuple[list[float], list[float]]:
    """Seconds until each put was acknowledged, and until the watcher saw it."""
    watcher = _Watcher(puts + warm_up)
    async with aiohttp.ClientSession(f"http://{ADDRESS}:{port}") as session:
        watching = asyncio.create_task(watcher.run(session))
        async with asyncio.timeout(READY_TIMEOUT_S):
            await watcher.ready.wait()
        sent, acknowledged = await _put(session, puts + warm_up)
        async with asyncio.timeout(READY_TIMEOUT_S):
            await watcher.saw_all.wait()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    values = list(sent)[warm_up:]
    return (
        [acknowledged[value] - sent[value] for value in values],
        [watcher.seen[value] - sent[value] for value in values],
    )


async def _put(
    session: aiohttp.ClientSession, total: int
) -> tuple[dict[str, float], dict[str, float]]:
    sent: dict[str, float] = {}
    acknowledged: dict[str, float] = {}
    for number in range(total):
        value = base64.b64encode(str(number).encode()).decode()
        sent[value] = time.perf_counter()
        async with session.post("/v3/kv/put", json={"key": KEY, "value": value}) as response:
            await response.read()
        acknowledged[value] = time.perf_counter()
    return sent, acknowledged
