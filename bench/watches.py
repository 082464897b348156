"""An etcd watch over its HTTP gateway, as the peer of a node that follows."""

from __future__ import annotations

import asyncio
import base64
import time

import aiohttp
import msgspec

from bench.stages import ACKNOWLEDGED, SENT, STAGES, TOLD, Stamps
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

    def __init__(self) -> None:
        self.seen: dict[int, float] = {}
        self.ready = asyncio.Event()
        self._news = asyncio.Condition()

    async def run(self, session: aiohttp.ClientSession) -> None:
        body = {"create_request": {"key": KEY}}
        async with session.post("/v3/watch", json=body, timeout=None) as response:
            async for line in response.content:
                await self._note(line, time.perf_counter())

    async def saw(self, number: int) -> None:
        async with asyncio.timeout(READY_TIMEOUT_S), self._news:
            await self._news.wait_for(lambda: number in self.seen)

    async def _note(self, line: bytes, now: float) -> None:
        self.ready.set()
        for event in msgspec.json.decode(line, type=_Line).result.events:
            self.seen.setdefault(int(base64.b64decode(event.kv.value)), now)
        async with self._news:
            self._news.notify_all()


async def watched_etcd(port: int, puts: int, *, warm_up: int) -> Stamps:
    """Put one after the other, each when the watcher has seen the one before."""
    watcher = _Watcher()
    stamps: Stamps = {stage: {} for stage in STAGES}
    async with aiohttp.ClientSession(f"http://{ADDRESS}:{port}") as session:
        watching = asyncio.create_task(watcher.run(session))
        async with asyncio.timeout(READY_TIMEOUT_S):
            await watcher.ready.wait()
        for number in range(puts + warm_up):
            start = time.perf_counter()
            await _put(session, number)
            stop = time.perf_counter()
            await watcher.saw(number)
            if number >= warm_up:
                stamps[SENT][number], stamps[ACKNOWLEDGED][number] = start, stop
                stamps[TOLD][number] = watcher.seen[number]
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return stamps


async def _put(session: aiohttp.ClientSession, number: int) -> None:
    value = base64.b64encode(str(number).encode()).decode()
    async with session.post("/v3/kv/put", json={"key": KEY, "value": value}) as response:
        await response.read()
