"""The log service: commits over HTTP beside etcd's puts, with pgbench as the limit; then reads."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import aiohttp
import asyncpg
import msgspec
from rich.console import Console

from bench.core import printed
from bench.cpu import spent_s, spent_with_children_s
from bench.etcd import Etcd
from bench.etcd import running as running_etcd
from bench.inserts import inserts_per_second
from bench.load import Load, Measured, System, generated
from bench.processes import Service, roles, serving
from bench.profiling import bench_profile
from bench.reads import bench_reads, tip_of
from services.local.ports import HeldPorts

STATE = Path(__file__).parent.parent / ".state"
CONNECTIONS = (1, 16, 64, 256)
BATCH_CONNECTIONS = (1, 16, 64)
BATCH = 100
FILL_BATCH = 1_000
FILL_CONNECTIONS = 4
FILL_SECONDS = 20.0
BEHIND = (10, 10_000)
BEHIND_FULL = 1_000_000
DURABLE = ("fsync", "synchronous_commit", "full_page_writes")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float
    rounds: int
    cms: int
    full: bool
    profile: bool


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One number of connections: every round of each system, and the limit."""

    connections: int
    ours: Sequence[Measured]
    theirs: Sequence[Measured]
    limit: float | None
    cost: Cost


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """CPU seconds by process, and the commits that they paid for."""

    sequencing_s: float
    forwarding_s: float
    postgres_s: float
    ours: int
    etcd_s: float
    theirs: int


class NotDurableError(Exception):
    """Postgres would be measured without what makes it slow."""


class Bench:
    """One run: both systems stand on the same disk and take turns."""

    def __init__(self, folder: Path, service: Service, etcd: Etcd, options: Options) -> None:
        self._folder = folder
        self._service = service
        self._etcd = etcd
        self._options = options
        self.acknowledged = 0

    async def point(self, connections: int, batch: int) -> Point:
        ours, theirs = [], []
        before = await self._spent()
        for _ in range(self._options.rounds):
            ours.append(await self._loaded(System.RINGLOG, self._service.port, connections, batch))
            theirs.append(await self._loaded(System.ETCD, self._etcd.port, connections, batch))
        total = sum(measured.total for measured in ours)
        self.acknowledged += total
        spent = [late - early for early, late in zip(before, await self._spent(), strict=True)]
        cost = Cost(
            sequencing_s=spent[0],
            forwarding_s=spent[1],
            postgres_s=spent[2],
            ours=total,
            etcd_s=spent[3],
            theirs=sum(measured.total for measured in theirs),
        )
        limit = await inserts_per_second(
            self._service.dsn,
            self._folder,
            connections=connections,
            batch=batch,
            seconds=self._options.seconds,
        )
        return Point(connections=connections, ours=ours, theirs=theirs, limit=limit, cost=cost)

    async def fill(self, entries: int) -> None:
        async with aiohttp.ClientSession(self._service.url) as session:
            while await tip_of(session) <= entries:
                load = Load(
                    system=System.RINGLOG,
                    port=self._service.port,
                    connections=FILL_CONNECTIONS,
                    batch=FILL_BATCH,
                    seconds=FILL_SECONDS,
                )
                self.acknowledged += (await generated(load)).total

    async def check_kept(self) -> None:
        """What was acknowledged is in the log."""
        async with aiohttp.ClientSession(self._service.url) as session:
            tip = await tip_of(session)
        assert tip > self.acknowledged, f"{self.acknowledged} acknowledged, the tip is {tip}"

    async def _spent(self) -> tuple[float, float, float, float]:
        service = self._service
        by_role = list(zip(service.pids, await roles(service), strict=True))
        return (
            spent_s(pid for pid, is_sequencing in by_role if is_sequencing),
            spent_s(pid for pid, is_sequencing in by_role if not is_sequencing),
            spent_with_children_s(service.postgres_pid),
            spent_s([self._etcd.pid]),
        )

    async def _loaded(self, system: System, port: int, connections: int, batch: int) -> Measured:
        seconds = self._options.seconds
        load = Load(system=system, port=port, connections=connections, batch=batch, seconds=seconds)
        return await generated(load)


async def durability(dsn: str) -> Mapping[str, str]:
    """As the server says, not as we configured it."""
    connection = await asyncpg.connect(dsn)
    try:
        found: dict[str, str] = {
            name: await connection.fetchval("SELECT current_setting($1)", name) for name in DURABLE
        }
        kinds = await connection.fetch(
            "SELECT DISTINCT relpersistence::text AS kind FROM pg_class "
            "WHERE relname ~ '^(log_entries(_[0-9]+)?|decisions)$' AND relkind IN ('r', 'p')"
        )
        found["persistence"] = ", ".join(sorted(row["kind"] for row in kinds))
    finally:
        await connection.close()
    return found


def check_durable(found: Mapping[str, str]) -> None:
    wanted = {**dict.fromkeys(DURABLE, "on"), "persistence": "p"}
    wrong = {name: value for name, value in found.items() if value != wanted[name]}
    if wrong:
        raise NotDurableError(f"not durable: {wrong}")


def show(console: Console, title: str, points: Sequence[Point]) -> None:
    table = printed(
        title,
        *("connections", "ringlog/s", "p50 ms", "p99 ms", "etcd/s", "p50 ms", "p99 ms"),
        *("ratio", "p99 ratio", "pgbench/s", "of it", "failed"),
    )
    for point in points:
        ours, theirs = middle(point.ours), middle(point.theirs)
        limit = point.limit
        table.add_row(
            str(point.connections),
            *(f"{ours.per_second:,.0f}", f"{ours.p50_ms:.1f}", f"{ours.p99_ms:.1f}"),
            *(f"{theirs.per_second:,.0f}", f"{theirs.p50_ms:.1f}", f"{theirs.p99_ms:.1f}"),
            f"{ours.per_second / max(theirs.per_second, 1):.2f}",
            f"{ours.p99_ms / theirs.p99_ms:.2f}",
            "–" if limit is None else f"{limit:,.0f}",
            "–" if limit is None else f"{ours.per_second / limit:.2f}",
            f"{ours.failed} / {theirs.failed}",
        )
    console.print(table)


def show_cost(console: Console, title: str, points: Sequence[Point]) -> None:
    """Comparable even where others use the machine at the same time."""
    table = printed(
        title,
        *("connections", "sequencing CMS", "forwarding CMS", "Postgres", "ringlog", "etcd"),
        "ratio",
    )
    for point in points:
        cost = point.cost
        parts = (cost.sequencing_s, cost.forwarding_s, cost.postgres_s)
        ours = [1e6 * part / max(cost.ours, 1) for part in (*parts, sum(parts))]
        theirs = 1e6 * cost.etcd_s / max(cost.theirs, 1)
        cells = [f"{value:,.0f}" for value in (*ours, theirs)]
        table.add_row(str(point.connections), *cells, f"{ours[-1] / theirs:.2f}")
    console.print(table)


def middle(rounds: Sequence[Measured]) -> Measured:
    """The median of each figure; failures add up."""
    return Measured(
        total=sum(one.total for one in rounds),
        commits=sum(one.commits for one in rounds),
        failed=sum(one.failed for one in rounds),
        per_second=median(one.per_second for one in rounds),
        p50_ms=median(one.p50_ms for one in rounds),
        p99_ms=median(one.p99_ms for one in rounds),
    )


async def run(options: Options) -> None:
    console = Console(width=None if sys.stdout.isatty() else 140)
    STATE.mkdir(exist_ok=True)
    if options.profile:
        await bench_profile(console, STATE, options.cms, options.seconds)
        return
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir=STATE) as scratch,
        HeldPorts() as ports,
    ):
        folder = Path(scratch)
        async with (
            serving(folder, ports, options.cms) as service,
            running_etcd(STATE, folder / "etcd", ports) as etcd,
        ):
            found = await durability(service.dsn)
            console.print(", ".join(f"{name} = {value}" for name, value in found.items()))
            check_durable(found)
            console.print(f"{options.cms} CMS processes on one port, etcd {etcd.version}")
            await measure(console, Bench(folder, service, etcd, options), service, options)


async def measure(console: Console, bench: Bench, service: Service, options: Options) -> None:
    points = [await bench.point(connections, 1) for connections in CONNECTIONS]
    show(console, "commits, one a request", points)
    show_cost(console, "CPU, microseconds a commit, one a request", points)
    points = [await bench.point(connections, BATCH) for connections in BATCH_CONNECTIONS]
    show(console, f"commits, {BATCH} a request", points)
    show_cost(console, f"CPU, microseconds a commit, {BATCH} a request", points)
    behind = (*BEHIND, BEHIND_FULL) if options.full else BEHIND
    await bench.fill(max(behind))
    await bench.check_kept()
    await bench_reads(console, service, behind)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="per system, point and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cms", type=int, default=3, help="processes that share the port")
    parser.add_argument("--quick", action="store_true", help="one round of a second")
    parser.add_argument("--full", action="store_true", help="catch up over a million entries, too")
    parser.add_argument("--profile", action="store_true", help="show where a CMS spends its time")
    given = parser.parse_args()
    options = Options(
        seconds=1.0 if given.quick else given.seconds,
        rounds=1 if given.quick else given.rounds,
        cms=given.cms,
        full=given.full,
        profile=given.profile,
    )
    try:
        asyncio.run(run(options))
    except NotDurableError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
