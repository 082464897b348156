"""Reading the log: pages, catching up, the metadata of past epochs."""

from __future__ import annotations

import random
from time import perf_counter

import aiohttp
import asyncpg
import msgspec
from rich.console import Console

from bench.core import printed
from bench.processes import Service
from client.containers import verified_container
from encoding.images import decode_image
from log.containers import MEDIA_TYPE as AVRO
from log.postgres import PostgresLog
from log.postgres_sessions import Sessions
from log.replay import Applied, replay
from metadata.epoch import Epoch
from services.http.bodies import SnapshotsAnswer
from services.http.snapshots import SINGLE_OBJECT
from snapshots.postgres import PostgresSnapshots
from snapshots.restore import newest_usable

PAGE_ENTRIES = 1_000
FETCHED_MAX = 50_000
VERSIONS = 40
SEED = 20
JSON = "application/json"

_ROWS = """
SELECT epoch, entry_id, kind, payload, previous_hash, hash
FROM log_entries WHERE epoch > $1 ORDER BY epoch LIMIT $2
"""


async def bench_reads(console: Console, service: Service, behind: tuple[int, ...]) -> None:
    async with aiohttp.ClientSession(service.own_urls[0]) as session:
        tip = await tip_of(session)
        await bench_fetch(console, session, service.dsn, tip)
        await bench_catch_up(console, session, service.dsn, tip, behind)
        await bench_versions(console, session, tip)


async def tip_of(session: aiohttp.ClientSession) -> Epoch:
    async with session.get("/v1/log", params={"after": 0, "limit": 1}) as response:
        response.raise_for_status()
        return Epoch((await response.json())["tip"])


async def bench_fetch(
    console: Console, session: aiohttp.ClientSession, dsn: str, tip: Epoch
) -> None:
    """JSON twice, because its text is made once and kept for a while."""
    size = min(tip, FETCHED_MAX)
    title = f"fetching {size:,} entries, {PAGE_ENTRIES:,} a page, one connection"
    table = printed(title, "form", "entries/s", "bytes each", "of plain SELECT")
    plain = size / await _selected_s(dsn, size)
    table.add_row("SELECT by asyncpg", f"{plain:,.0f}", "", "1.00")
    for name, accept in (("Avro", AVRO), ("JSON", JSON), ("JSON again", JSON)):
        elapsed_s, received = await _fetched(session, size, accept)
        speed = size / elapsed_s
        table.add_row(name, f"{speed:,.0f}", f"{received / size:,.0f}", f"{speed / plain:.2f}")
    console.print(table)


async def _selected_s(dsn: str, size: int) -> float:
    connection = await asyncpg.connect(dsn)
    try:
        started = perf_counter()
        for after in range(0, size, PAGE_ENTRIES):
            await connection.fetch(_ROWS, after, PAGE_ENTRIES)
        return perf_counter() - started
    finally:
        await connection.close()


async def _fetched(session: aiohttp.ClientSession, size: int, accept: str) -> tuple[float, int]:
    received = 0
    started = perf_counter()
    for after in range(0, size, PAGE_ENTRIES):
        received += len(await _page(session, after, accept))
    return perf_counter() - started, received


async def _page(session: aiohttp.ClientSession, after: int, accept: str, **more: str) -> bytes:
    query = {"after": str(after), "limit": str(PAGE_ENTRIES), **more}
    async with session.get(
        "/v1/log", params=query, headers={"Accept": accept, "Accept-Encoding": "identity"}
    ) as response:
        response.raise_for_status()
        return await response.read()


async def bench_catch_up(
    console: Console,
    session: aiohttp.ClientSession,
    dsn: str,
    tip: Epoch,
    behind: tuple[int, ...],
) -> None:
    """Until the client holds the metadata of the tip, every entry or image verified."""
    table = printed(f"catching up to epoch {tip:,}", "behind", "ms", "by snapshot", "entries read")
    for distance in behind:
        if distance >= tip:
            table.add_row(f"{distance:,}", "the log is shorter", "", "")
            continue
        start = await _applied_at(dsn, Epoch(tip - distance))
        started = perf_counter()
        reached, jumped, read = await _caught_up(session, start, tip)
        elapsed_ms = 1000 * (perf_counter() - started)
        assert reached.metadata.epoch == tip, reached.metadata.epoch
        row = (f"{distance:,}", f"{elapsed_ms:,.1f}", "yes" if jumped else "no", f"{read:,}")
        table.add_row(*row)
    console.print(table)


async def _applied_at(dsn: str, epoch: Epoch) -> Applied:
    sessions = Sessions(dsn)
    try:
        applied = await newest_usable(
            PostgresSnapshots(sessions), PostgresLog(sessions), up_to=epoch, report=_unusable
        )
        while (at := applied.metadata.epoch) < epoch:
            entries = await PostgresLog(sessions).read_after(
                at, entries_max=min(PAGE_ENTRIES, epoch - at), bytes_max=1 << 23
            )
            applied = replay(entries, applied)
    finally:
        await sessions.close()
    return applied


def _unusable(epoch: Epoch, fault: str) -> None:
    raise AssertionError(f"the snapshot at {epoch} is unusable: {fault}")


async def _caught_up(
    session: aiohttp.ClientSession, start: Applied, tip: Epoch
) -> tuple[Applied, bool, int]:
    """Where it leads, whether by a snapshot, and over how many entries."""
    body = await _page(session, start.metadata.epoch, AVRO, snapshot="true")
    jumped = b"ringlog.snapshot" in body[:PAGE_ENTRIES]
    applied = await _newest_snapshot(session) if jumped else start
    first = applied.metadata.epoch
    while True:
        at = applied.metadata.epoch
        applied = replay(verified_container(body, after=at, after_hash=applied.hash), applied)
        if applied.metadata.epoch == tip:
            return applied, jumped, tip - first
        body = await _page(session, applied.metadata.epoch, AVRO)


async def _newest_snapshot(session: aiohttp.ClientSession) -> Applied:
    async with session.get("/v1/snapshots") as response:
        listed = msgspec.json.decode(await response.read(), type=SnapshotsAnswer)
    newest = listed.snapshots[0]
    async with session.get(newest.url, headers={"Accept": SINGLE_OBJECT}) as response:
        metadata = decode_image(await response.read())
    assert metadata.digest.hex() == newest.digest
    return Applied(metadata, bytes.fromhex(newest.hash))


async def bench_versions(console: Console, session: aiohttp.ClientSession, tip: Epoch) -> None:
    """Epochs at random: replayed from a snapshot at first, remembered afterwards."""
    rng = random.Random(SEED)
    epochs = rng.sample(range(1, tip), min(VERSIONS, tip - 1))
    table = printed(f"metadata at {len(epochs)} past epochs, ms", "", "p50", "p99")
    for name in ("cold", "warm"):
        times = []
        for epoch in epochs:
            started = perf_counter()
            async with session.get("/v1/metadata", params={"at": epoch}) as response:
                response.raise_for_status()
                await response.read()
            times.append(1000 * (perf_counter() - started))
        times.sort()
        p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
        table.add_row(name, f"{p50:,.1f}", f"{p99:,.1f}")
    console.print(table)
