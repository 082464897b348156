"""Moving an eighth of a table by the real path, beside a plain copy by Spark and beside `cp`."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import cast

import msgspec
from pyspark import SparkContext
from pyspark.sql import SparkSession
from rich.console import Console

from bench.core import printed
from bench.cpu import spent_s
from bench.movement_table import MOVED, TABLE, replica_in, table_in, tiers_in
from bench.movement_traffic import bench_traffic
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.plans import RangeChange
from metadata.schema import TableId
from metadata.sessions import SessionId
from metadata.tokens import FULL
from movement.batches import Batch, Piece, divided, read_from
from movement.checking import looked_at
from movement.expressions import in_spans
from movement.receipts import proofs
from movement.spark import Spark, SparkSettings
from movement.transfers import Gained, Transfer
from services.driver.copying import Copying, Place, Tools
from services.driver.data_nodes import DataNodes
from services.driver.flushing import Flushed
from services.driver.progress import Meter
from services.http.data_messages import Import, SegmentFile
from services.node.data.paths import DataPaths
from store.database import opened
from store.folder import folder_at
from store.imports import Staged
from store.ranges import spans_of
from store.store import SCHEMAS, Store

STATE = Path(__file__).parent.parent / ".state"
KEPT = STATE / "bench-movement"
ROWS = 5_000_000
ROWS_QUICK = 200_000
ROUNDS = 3
SOURCES = (2, 4, 8)
TARGET = NodeId(9)


class Options(msgspec.Struct, frozen=True):
    rows: int
    rounds: int
    with_traffic: bool


class Layout(msgspec.Struct, frozen=True):
    """How the rows lie that are moved, and at whom."""

    name: str
    pieces: tuple[Piece, ...]

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return tuple(sorted({piece.node for piece in self.pieces}))


class Spent(msgspec.Struct, frozen=True):
    wall_s: float
    cpu_s: float
    rows: int = 0


class Target:
    """A real store, asked without HTTP for what a movement asks of a target."""

    def __init__(self, store: Store, root: Path) -> None:
        self.root = root
        self._store = store
        self._paths = DataPaths(root)

    async def take_over(self, _node: NodeId, wanted: Import) -> None:
        files = [
            Staged(
                path=self._paths.staged(file.path, wanted.session),
                size_bytes=file.bytes,
                sha256=file.checksum,
                ranges=wanted.ranges,
            )
            for file in wanted.files
        ]
        await self._store.register(TABLE, wanted.name, files)

    async def imported(
        self, _node: NodeId, session: SessionId, _name: str
    ) -> tuple[SegmentFile, ...]:
        folder = f"{self._paths.staging(session).relative_to(self.root)}/"
        found = await self._store.segments(TableId(TABLE.id), (FULL,))
        return tuple(self._paths.described(item) for item in found if item.path.startswith(folder))


class Bench:
    def __init__(self, spark: Spark, target: Target, folder: Path) -> None:
        self._spark = spark
        self._target = target
        self._folder = folder
        self._sessions = 0

    async def timed(self, work: Callable[[], Awaitable[int]]) -> Spent:
        gateway = SparkContext._gateway  # noqa: SLF001 - the only way to the Java process
        assert gateway is not None
        java = [gateway.proc.pid]
        wall_s, cpu_s = time.perf_counter(), spent_s(java) + time.process_time()
        rows = await work()
        now_s = spent_s(java) + time.process_time()
        return Spent(time.perf_counter() - wall_s, now_s - cpu_s, rows)

    async def plain(self, layout: Layout) -> int:
        """Read, filter, write, and nothing is known of what was written."""
        folder = self._folder / "plain"
        shutil.rmtree(folder, ignore_errors=True)

        def copy(spark: SparkSession) -> int:
            rows = spark.read.parquet(*(piece.path for piece in layout.pieces))
            rows.where(in_spans(spans_of((MOVED,)))).write.parquet(str(folder))
            return 0

        return await self._spark.run("plain", copy)

    def cp(self) -> Spent:
        """Of what the plain copy has written, onto the disk."""
        start = time.perf_counter()
        again = self._folder / "again"
        shutil.rmtree(again, ignore_errors=True)
        for words in (("cp", "-r", str(self._folder / "plain"), str(again)), ("sync", str(again))):
            subprocess.run(words, check=True)
        return Spent(time.perf_counter() - start, 0.0)

    async def moved(self, layout: Layout) -> int:
        """By the job, staging, manifest, import, and receipts of source and target."""
        self._sessions += 1
        session = SessionId(self._sessions)
        staging = self._target.root / "staged" / str(session)
        staging.mkdir(parents=True)
        change = RangeChange(range=MOVED, before=layout.nodes, after=(TARGET,))
        batch = Batch(TABLE, TARGET, (MOVED,))
        flushed = Flushed(
            transfers=(Transfer(Gained(TABLE, change, TARGET), layout.nodes),),
            epochs=dict.fromkeys(layout.nodes, Epoch(1)),
            pieces={TABLE.id: layout.pieces},
        )
        place = Place(
            name=batch.name_in(session, "mid"),
            session=session,
            staging=str(staging),
            folder=f"{staging}/once",
            unique="once",
            tag="moved",
        )
        tools = Tools(self._spark, cast("DataNodes", self._target), _is_open)
        copying = Copying(tools, batch, place, Meter(time.monotonic))
        await copying.expect(flushed)
        (proof,) = proofs([await copying.landed(await copying.published(flushed))])
        shutil.rmtree(staging)
        return proof.receipt.target_rows.rows


async def _is_open(_session: SessionId) -> bool:
    return True


class Looked(msgspec.Struct, frozen=True):
    """Of the files that overlap the range: how many, how many are taken as they are, and how
    many rows are in the row groups that overlap it. Others are not looked at.
    """

    files: int
    whole: int
    rows: int


def looked(layout: Layout) -> Looked:
    (wanted,) = spans_of((MOVED,))
    found = [
        piece
        for piece in (looked_at(piece, TABLE) for piece in layout.pieces)
        if isinstance(piece, Piece) and piece.reach.intersects(wanted)
    ]
    whole, _ = divided(read_from({MOVED: layout.nodes}, found))
    groups = (group for piece in found for group in piece.groups)
    rows = sum(group.rows for group in groups if group.span.intersects(wanted))
    return Looked(len(found), len(whole), rows)


async def bench_layouts(
    console: Console, bench: Bench, layouts: list[Layout], rounds: int, title: str
) -> None:
    table = printed(
        title,
        *("rows lie in", "files read", "as they are", "rows read", "rows moved"),
        *("plain s", "moved s", "ratio", "CPU ratio", "by cp"),
    )
    for layout in layouts:
        plain, moved, copied = [], [], []
        # What runs first in a new application pays for all.
        for _ in range(rounds + 1):
            plain.append(await bench.timed(lambda one=layout: bench.plain(one)))  # type: ignore[misc] # bound now
            copied.append(bench.cp())
            moved.append(await bench.timed(lambda one=layout: bench.moved(one)))  # type: ignore[misc] # as above
        ours, theirs = _middle(moved[1:]), _middle(plain[1:])
        seen = looked(layout)
        table.add_row(
            layout.name,
            f"{seen.files} of {len(layout.pieces)}",
            str(seen.whole),
            f"{seen.rows:,}",
            f"{ours.rows:,}",
            f"{theirs.wall_s:.2f}",
            f"{ours.wall_s:.2f}",
            f"{ours.wall_s / theirs.wall_s:.2f}×",
            f"{ours.cpu_s / theirs.cpu_s:.2f}×",
            f"{ours.wall_s / _middle(copied[1:]).wall_s:.0f}×",
        )
    console.print(table)


def _middle(found: list[Spent]) -> Spent:
    return Spent(
        median(item.wall_s for item in found), median(item.cpu_s for item in found), found[-1].rows
    )


@asynccontextmanager
async def prepared(folder: Path) -> AsyncIterator[tuple[Spark, Bench]]:
    spark = Spark(SparkSettings())
    try:
        async with opened(folder / "node.sqlite", SCHEMAS) as database:
            root = folder / "data"
            store = Store(database, folder_at(str(root)))
            yield spark, Bench(spark, Target(store, root), folder)
    finally:
        await spark.close()


def _replica(kept: Path, rows: int, node: NodeId, spark: SparkSession) -> tuple[Piece, ...]:
    return replica_in(spark, kept, rows, node)


async def measure(console: Console, options: Options) -> None:
    kept = KEPT / str(options.rows)
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=STATE, prefix="moved-") as folder:
        async with prepared(Path(folder)) as (spark, bench):
            whole = await spark.run("made", lambda one: table_in(one, kept, options.rows))
            tiers = await spark.run("made", lambda one: tiers_in(one, kept, options.rows))
            one = [Layout("disjoint segments", whole), Layout("overlapping segments", tiers)]
            title = f"an eighth of {options.rows:,} rows from one source"
            await bench_layouts(console, bench, one, options.rounds, title)
            replicas = [
                await spark.run("made", partial(_replica, kept, options.rows, NodeId(node)))
                for node in range(1, max(SOURCES) + 1)
            ]
            many = [
                Layout(f"{number} owners", tuple(p for found in replicas[:number] for p in found))
                for number in SOURCES
            ]
            title = "the same from several owners, merged; the plain copy is of all that they have"
            await bench_layouts(console, bench, many, options.rounds, title)
    if options.with_traffic:
        await bench_traffic(console, STATE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="of the table")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of which the median counts")
    parser.add_argument("--quick", action="store_true", help=f"one round over {ROWS_QUICK:,} rows")
    parser.add_argument("--no-traffic", action="store_true", help="only the movements")
    given = parser.parse_args()
    rows, rounds = (ROWS_QUICK, 1) if given.quick else (given.rows, given.rounds)
    asyncio.run(measure(Console(), Options(rows, rounds, not given.no_traffic)))


if __name__ == "__main__":
    main()
