"""Live traffic over the data plane, with a ledger of what each read was allowed to find."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import aiohttp
import msgspec

NOT_THERE = None
OPERATION_TIMEOUT_S = 15.0


class Violation(msgspec.Struct, frozen=True):
    """A read that found what it must not: `allowed` is every state that it might have seen."""

    key: str
    found: int | None
    allowed: tuple[int | None, ...]


class Ledger:
    """Per key, what was tried in order and how much of it was acknowledged.

    A key has one writer at a time. A read may find the state after any operation from the last
    one that was acknowledged before it began up to the last one that was tried before it ended:
    what got no answer may or may not have happened.
    """

    def __init__(self) -> None:
        self._tried: dict[str, list[int | None]] = {}
        self._acknowledged: dict[str, int] = {}

    def try_(self, key: str, state: int | None) -> int:
        """Note an operation before it is sent; its place in the order of the key."""
        self._tried.setdefault(key, [NOT_THERE]).append(state)
        return len(self._tried[key]) - 1

    def acknowledge(self, key: str, place: int) -> None:
        self._acknowledged[key] = max(place, self._acknowledged.get(key, 0))

    def begin_read(self, key: str) -> int:
        return self._acknowledged.get(key, 0)

    def end_read(self, key: str, since: int, found: int | None) -> Violation | None:
        allowed = tuple(self._tried.get(key, [NOT_THERE])[since:])
        return None if found in allowed else Violation(key, found, allowed)

    def keys(self) -> list[str]:
        return sorted(self._tried)


class Traffic:
    """Writers and readers at quorum, each request through any node that is up.

    The seed is part of the keys: nobody else writes them.
    """

    def __init__(
        self, urls: Callable[[], Sequence[str]], table: str, seed: int, *, keys: int = 400
    ) -> None:
        self.ledger = Ledger()
        self.violations: list[Violation] = []
        self.counts: Counter[str] = Counter()
        self.complaints: Counter[str] = Counter()
        self._urls = urls
        self._path = f"/v1/tables/{table.replace('.', '/')}/rows"
        self._keys = [f"key-{seed}-{place}" for place in range(keys)]
        self._random = random.Random(seed)
        self._stopping = asyncio.Event()
        self._version = 0

    async def run(self, *, writers: int = 3, readers: int = 3, pause_s: float = 0.0) -> None:
        """Until `stop`; each rests for a while after each request."""
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            for number in range(writers):
                mine = self._keys[number::writers]
                group.create_task(self._write(session, mine, pause_s))
            for _ in range(readers):
                group.create_task(self._read(session, pause_s))

    def stop(self) -> None:
        self._stopping.set()

    async def verify(self) -> int:
        """Read every key once more; how many there are."""
        keys = self.ledger.keys()
        async with aiohttp.ClientSession() as session:
            for start in range(0, len(keys), 32):
                part = keys[start : start + 32]
                await asyncio.gather(*(self._checked(session, key) for key in part))
        return len(keys)

    async def _checked(self, session: aiohttp.ClientSession, key: str) -> None:
        async with asyncio.timeout(60):
            while not await self._read_one(session, key):  # noqa: ASYNC110 another process
                await asyncio.sleep(0.2)

    async def _write(
        self, session: aiohttp.ClientSession, mine: Sequence[str], pause_s: float
    ) -> None:
        while not self._stopping.is_set():
            key = self._random.choice(mine)
            self._version += 1
            if self._random.random() < 0.1:
                await self._change(session, "DELETE", key, NOT_THERE, None)
            else:
                version = self._version
                body = {"columns": {"version": version, "text": f"{key} at {version}"}}
                await self._change(session, "PUT", key, version, body)
            await asyncio.sleep(pause_s)

    async def _change(
        self,
        session: aiohttp.ClientSession,
        method: str,
        key: str,
        state: int | None,
        body: object,
    ) -> None:
        place = self.ledger.try_(key, state)
        status, said = await self._ask(session, method, key, body)
        if status == 200:
            self.ledger.acknowledge(key, place)
            self.counts["written"] += 1
        else:
            self._complain(status, said)

    async def _read(self, session: aiohttp.ClientSession, pause_s: float) -> None:
        while not self._stopping.is_set():
            await self._read_one(session, self._random.choice(self._keys))
            await asyncio.sleep(pause_s)

    async def _read_one(self, session: aiohttp.ClientSession, key: str) -> bool:
        since = self.ledger.begin_read(key)
        status, said = await self._ask(session, "GET", key, None)
        if status not in (200, 404):
            self._complain(status, said)
            return False
        found = said["columns"]["version"] if status == 200 else NOT_THERE
        violation = self.ledger.end_read(key, since, found)
        if violation is not None:
            self.violations.append(violation)
        self.counts["read"] += 1
        return True

    async def _ask(
        self, session: aiohttp.ClientSession, method: str, key: str, body: object
    ) -> tuple[int, dict[str, Any]]:
        url = self._random.choice(list(self._urls()))
        timeout = aiohttp.ClientTimeout(total=OPERATION_TIMEOUT_S)
        try:
            async with session.request(
                method,
                f"{url}{self._path}/{key}",
                params={"consistency": "quorum"},
                json=body,
                timeout=timeout,
            ) as response:
                return response.status, await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return 0, {"code": type(error).__name__}

    def _complain(self, status: int, said: dict) -> None:
        self.counts["failed"] += 1
        self.complaints[f"{status} {said.get('code', '')}"] += 1
