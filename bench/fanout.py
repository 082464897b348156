"""From commit to applied on a node, by each road, beside an etcd watch; and cold starts."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import structlog
from rich.console import Console

from bench.cold import bench_cold_start
from bench.core import printed
from bench.etcd import Etcd
from bench.etcd import running as running_etcd
from bench.processes import Service, serving
from bench.stages import ACKNOWLEDGED, SENT, STAGES, TOLD, Stamps, since_sent_s, stamped
from bench.watches import watched_etcd
from client.answers import Committed
from client.client import Client
from services.local import kafka
from services.local.ports import ADDRESS, HeldPorts
from services.node.running import Node, running
from services.settings import Listen, NodeSettings
from transformations.extensions import SetExtension

STATE = Path(__file__).parent.parent / ".state"
WARM_UP = 20
FSYNCS = 200
HOPS = 500
SETTLE_TIMEOUT_S = 30.0
COLD = 20_000
PEER = "etcd watch"
COLD_FULL = 1_000_000


class Options(msgspec.Struct, frozen=True):
    commits: int
    cold: int


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def by_road(service: Service, folder: Path, road: str, commits: int) -> Stamps:
    """Commit one after the other, each when a node has applied the one before."""
    settings = NodeSettings(
        name=f"node-{road}",
        state_dir=folder / f"node-{road}",
        seeds=(service.url,),
        listen=Listen(host=ADDRESS, port=0, is_shared=False),
        advertised=f"{road.replace(' ', '-')}.invalid:1",
        datacenter="dc1",
        rack="r1",
        kafka=service.kafka if road == "kafka" else None,
        dsn=service.dsn if road == "notify" else None,
    )
    with stamped() as stamps:
        async with running(settings) as node, Client(service.url) as client:
            await node.engine.following.in_touch.wait()
            for number in range(WARM_UP):
                await committed(node, client, number)
            for number in range(commits):
                epoch, start, stop = await committed(node, client, number)
                stamps[SENT][epoch], stamps[ACKNOWLEDGED][epoch] = start, stop
    return stamps


async def committed(node: Node, client: Client, number: int) -> tuple[int, float, float]:
    """One more, until the node has it; its epoch, and when it was sent and acknowledged."""
    start = time.perf_counter()
    outcome = await client.commit(SetExtension(name="bench", value=str(number)))
    stop = time.perf_counter()
    assert isinstance(outcome, Committed), outcome
    assert await node.engine.reached(outcome.epoch, SETTLE_TIMEOUT_S)
    return outcome.epoch, start, stop


def fsync_s(folder: Path) -> float:
    """The median time of a small append that is on disk."""
    spent = []
    with (folder / "fsync").open("ab", buffering=0) as file:
        for _ in range(FSYNCS):
            start = time.perf_counter()
            file.write(bytes(512))
            os.fsync(file.fileno())
            spent.append(time.perf_counter() - start)
    return quantile(spent, 0.5)


async def hop_s() -> float:
    """Half the median time there and back over the loopback."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(512):
            writer.write(data)
        writer.close()

    spent = []
    async with await asyncio.start_server(echo, ADDRESS, 0) as server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection(ADDRESS, port)
        for _ in range(HOPS):
            start = time.perf_counter()
            writer.write(bytes(512))
            await reader.readexactly(512)
            spent.append((time.perf_counter() - start) / 2)
        writer.close()
    return quantile(spent, 0.5)


def show(console: Console, found: dict[str, Stamps], limit_s: float) -> None:
    table = printed(
        f"commit to applied elsewhere, one at a time (limit: {limit_s * 1000:.2f} ms)",
        "road",
        "acknowledged p50",
        "applied p50",
        "applied p99",
        "p50 by limit",
        "p50 by etcd",
    )
    peer = quantile(since_sent_s(found[PEER], TOLD), 0.5)
    for road, stamps in found.items():
        applied_s = since_sent_s(stamps, TOLD)
        middle = quantile(applied_s, 0.5)
        table.add_row(
            road,
            f"{quantile(since_sent_s(stamps, ACKNOWLEDGED), 0.5) * 1000:.2f} ms",
            f"{middle * 1000:.2f} ms",
            f"{quantile(applied_s, 0.99) * 1000:.2f} ms",
            f"{middle / limit_s:.2f}×",
            f"{middle / peer:.2f}×",
        )
    console.print(table)


def show_stages(console: Console, found: dict[str, Stamps]) -> None:
    table = printed("milliseconds since it was sent, median", "road", *STAGES[1:])
    for road, stamps in found.items():
        spent = [since_sent_s(stamps, stage) for stage in STAGES[1:]]
        cells = [f"{quantile(each, 0.5) * 1000:.2f}" if each else "–" for each in spent]
        table.add_row(road, *cells)
    console.print(table)


@asynccontextmanager
async def surroundings(folder: Path) -> AsyncIterator[tuple[Service, Etcd]]:
    with HeldPorts() as ports:
        async with (
            kafka.running(folder / "kafka") as broker,
            serving(folder, ports, 2, environment={"RINGLOG_KAFKA": broker.bootstrap}) as service,
            running_etcd(STATE, folder / "etcd", ports) as etcd,
        ):
            yield msgspec.structs.replace(service, kafka=broker.bootstrap), etcd


async def run(options: Options) -> None:
    console = Console()
    STATE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ringlog-fanout-", dir=STATE) as name:
        folder = Path(name)
        async with surroundings(folder) as (service, etcd):
            limit_s = 2 * fsync_s(folder) + 2 * await hop_s()
            found = {
                road: await by_road(service, folder, road, options.commits)
                for road in ("kafka", "notify", "long poll")
            }
            found[PEER] = await watched_etcd(etcd.port, options.commits, warm_up=WARM_UP)
            show(console, found, limit_s)
            show_stages(console, found)
            await bench_cold_start(console, service, folder, options.cold)


def main() -> None:
    # A node of the bench lives in this process; a line on the screen costs more than what it tells.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--full", action="store_true", help=f"start cold over {COLD_FULL:,}")
    given = parser.parse_args()
    asyncio.run(run(Options(given.commits, COLD_FULL if given.full else COLD)))


if __name__ == "__main__":
    main()
