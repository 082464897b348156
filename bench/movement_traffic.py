"""Puts and gets at quorum on three nodes of a real cluster, alone and while a fourth joins."""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
from rich.console import Console

from bench.core import printed
from client.answers import Committed
from client.client import Client
from metadata.columns import ColumnType
from metadata.schema import Column, Simple
from transformations.schema import CreateKeyspace, CreateTable

COMMAND = (sys.executable, "-c", "from ringlog.main import main; main()")
FOLDER_MODE = 0o711
CONNECTIONS = 16
KEYS = 20_000
SECONDS = 10.0
OK, NOT_FOUND = 200, 404
COLUMNS = (Column("id", ColumnType.STRING), Column("note", ColumnType.STRING))


class Answered(msgspec.Struct, frozen=True):
    seconds: float
    latencies_s: list[float]
    failed: int

    @property
    def per_second(self) -> float:
        return len(self.latencies_s) / self.seconds

    def quantile_ms(self, share: float) -> float:
        ordered = sorted(self.latencies_s) or [float("inf")]
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Load(msgspec.Struct, frozen=True):
    """`puts` is the share of requests that write."""

    urls: list[str]
    consistency: str
    puts: float


class Process(msgspec.Struct, frozen=True):
    role: str
    url: str


@asynccontextmanager
async def _cluster(parent: Path) -> AsyncIterator[Path]:
    with tempfile.TemporaryDirectory(dir=parent, prefix="traffic-") as folder:
        # As root, Postgres runs under a user of its own, who has to pass through.
        Path(folder).chmod(FOLDER_MODE)  # noqa: ASYNC240 - nothing else runs yet
        state = Path(folder) / "state"
        try:
            await _run("up", "--nodes", "3", "--port", "0", "--detach", state=state)
            yield state
        finally:
            await _run("down", state=state)


async def _run(*words: str, state: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *words, "--state-dir", str(state), stdout=PIPE, stderr=PIPE
    )
    _, errors = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"ringlog {words[0]}: {errors.decode()}")


def _urls(state: Path, role: str) -> list[str]:
    listed = msgspec.json.decode((state / "processes.json").read_bytes(), type=list[Process])
    return [item.url for item in listed if item.role == role]


async def _founded(state: Path) -> None:
    async with Client(_urls(state, "cms")[0]) as client:
        for verb in (
            CreateKeyspace(name="bench", replication=Simple(3)),
            CreateTable(keyspace="bench", name="rows", columns=COLUMNS, partition_key=("id",)),
        ):
            outcome = await client.commit(verb)
            assert isinstance(outcome, Committed), outcome


async def _loaded(load: Load, is_over: Callable[[], bool]) -> Answered:
    """Each connection sends its next request when the last one is answered."""
    latencies: list[float] = []
    failed = 0

    async def client(number: int) -> None:
        nonlocal failed
        rng = random.Random(number)
        while not is_over():
            start = time.perf_counter()
            url = f"{rng.choice(load.urls)}/v1/tables/bench/rows/rows/key{rng.randrange(KEYS)}"
            try:
                status = await _asked(session, url, load, rng)
            except (aiohttp.ClientError, TimeoutError):
                status = 0
            latencies.append(time.perf_counter() - start)
            failed += status not in (OK, NOT_FOUND)

    started = time.perf_counter()
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as group:
        for number in range(CONNECTIONS):
            group.create_task(client(number))
    return Answered(time.perf_counter() - started, latencies, failed)


async def _asked(session: aiohttp.ClientSession, url: str, load: Load, rng: random.Random) -> int:
    query = {"consistency": load.consistency}
    if rng.random() < load.puts:
        body = {"columns": {"note": f"{rng.getrandbits(256):064x}"}}
        async with session.put(url, params=query, json=body) as response:
            await response.read()
            return response.status
    async with session.get(url, params=query) as response:
        await response.read()
        return response.status


async def _for(load: Load, seconds: float) -> Answered:
    deadline_s = time.perf_counter() + seconds
    return await _loaded(load, lambda: time.perf_counter() > deadline_s)


async def _while_joining(load: Load, state: Path) -> Answered:
    joining = asyncio.ensure_future(_run("scale", "--nodes", "4", state=state))
    try:
        return await _loaded(load, joining.done)
    finally:
        await joining


async def bench_traffic(console: Console, parent: Path, seconds: float = SECONDS) -> None:
    table = printed(
        f"rows on three nodes at RF 3, {CONNECTIONS} connections",
        *("load", "requests/s", "p50 ms", "p99 ms", "failed", "p99 by the same without"),
    )
    async with _cluster(parent) as state:
        await _founded(state)
        urls = _urls(state, "node")
        found: dict[str, Answered] = {}
        for name, load in (
            ("put, one", Load(urls, "one", 1.0)),
            ("put, quorum", Load(urls, "quorum", 1.0)),
            ("get, one", Load(urls, "one", 0.0)),
            ("get, quorum", Load(urls, "quorum", 0.0)),
            ("half and half, quorum", Load(urls, "quorum", 0.5)),
        ):
            found[name] = await _for(load, seconds)
        mixed = Load(urls, "quorum", 0.5)
        found["the same while a node joins"] = await _while_joining(mixed, state)
    before = found["half and half, quorum"].quantile_ms(0.99)
    for name, answered in found.items():
        joining = name == "the same while a node joins"
        table.add_row(
            name,
            f"{answered.per_second:,.0f}",
            f"{answered.quantile_ms(0.5):.1f}",
            f"{answered.quantile_ms(0.99):.1f}",
            str(answered.failed),
            f"{answered.quantile_ms(0.99) / before:.1f}×" if joining else "",
        )
    console.print(table)
