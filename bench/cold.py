"""A node that starts with nothing: by snapshot, and by replaying everything."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import aiohttp
from rich.console import Console

from bench.core import printed
from bench.load import Load, System, generated
from bench.processes import Service
from bench.reads import tip_of
from client.connection import Connection
from client.embedded import embedded
from client.pages import CmsLog, Page
from client.patience import Patience
from client.publication import NoJournal
from log.follower import Step
from log.listeners import Listener
from log.replay import NOTHING_APPLIED, Applied
from metadata.cluster import ClusterId, ClusterMetadata
from metadata.epoch import Epoch
from ringlog.following import following

FILL_BATCH = 1_000
FILL_CONNECTIONS = 4
FILL_SECONDS = 20.0
SETTLE_S = 1.0
SETTLE_TIMEOUT_S = 300.0
PATIENT = Patience(attempt_timeout_s=30.0, deadline_s=60.0)


class EntriesOnly:
    """The log as one sees it who takes no snapshot."""

    def __init__(self, log: CmsLog) -> None:
        self._log = log

    async def page(self, applied: Applied, *, wait_s: float, snapshot: bool) -> Page:
        del snapshot
        return await self._log.page(applied, wait_s=wait_s, snapshot=False)

    async def snapshot(self, epoch: Epoch) -> Step:
        return await self._log.snapshot(epoch)


async def bench_cold_start(console: Console, service: Service, folder: Path, entries: int) -> None:
    """Both end at the same digest."""
    async with aiohttp.ClientSession(service.url) as session:
        while await _settled(session) <= entries:
            await generated(
                Load(
                    system=System.RINGLOG,
                    port=service.port,
                    connections=FILL_CONNECTIONS,
                    batch=FILL_BATCH,
                    seconds=FILL_SECONDS,
                )
            )
        tip = await _settled(session)
    by_snapshot_s, first = await _by_snapshot(service, folder, tip)
    by_replay_s, second = await _by_replay(service, tip, first.cluster.id)
    assert first.digest == second.digest, "the two ways lead to different metadata"
    table = printed(f"cold start with {tip:,} entries", "way", "time", "ratio")
    table.add_row("snapshot, with its own copy on disk", f"{by_snapshot_s:.2f} s", "")
    table.add_row(
        "replay of everything", f"{by_replay_s:.2f} s", f"{by_replay_s / by_snapshot_s:.1f}×"
    )
    console.print(table)


async def _settled(session: aiohttp.ClientSession) -> int:
    """Where the log ends once what the load left behind is in it, and the CMS has caught up."""
    found = [-1]
    async with asyncio.timeout(SETTLE_TIMEOUT_S):
        while len(found) == 1 or found[-1] > found[-2]:
            await asyncio.sleep(SETTLE_S)
            with suppress(aiohttp.ClientResponseError):
                found.append(await tip_of(session))
    return found[-1]


async def _by_snapshot(service: Service, folder: Path, tip: int) -> tuple[float, ClusterMetadata]:
    start = time.perf_counter()
    async with following([service.url], None, folder / "cold", PATIENT) as follower:
        assert await follower.reached(tip, timeout_s=600.0)
        return time.perf_counter() - start, follower.metadata


async def _by_replay(
    service: Service, tip: int, cluster: ClusterId
) -> tuple[float, ClusterMetadata]:
    connection = Connection([service.url], token=None, cluster=None, patience=PATIENT)
    start = time.perf_counter()
    log = EntriesOnly(CmsLog(connection))
    follower = embedded(
        log,
        cluster=cluster,
        restored=NOTHING_APPLIED,
        journal=NoJournal(),
        report=_failed,
    )
    task = asyncio.create_task(follower.run())
    assert await follower.reached(tip, timeout_s=3600.0), follower.standing
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    found = time.perf_counter() - start, follower.metadata
    await connection.close()
    return found


def _failed(listener: Listener, error: Exception) -> None:
    raise AssertionError(listener) from error
