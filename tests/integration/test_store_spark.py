"""Spark reads segments natively, and a node takes over what Spark writes."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents have it

from metadata.columns import ColumnType
from metadata.epoch import Epoch
from metadata.partitioners import Partitioner
from metadata.schema import Column, Table, TableId
from metadata.tokens import FULL
from store.imports import Staged
from store.rows import row_of, tombstone_of
from tests.store_model import scanned, store_in

TABLE = Table(
    id=TableId(7),
    keyspace="shop",
    name="orders",
    columns=(
        Column("id", ColumnType.STRING),
        *(Column(f"c_{kind}", kind) for kind in ColumnType),
    ),
    partition_key=("id",),
    created=Epoch(3),
    epoch=Epoch(3),
)


@pytest.fixture(scope="module")
def spark():
    builder = SparkSession.builder.master("local[1]").appName("segments")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.caseSensitive": "true",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def made(number, timestamp):
    if (number + timestamp) % 7 == 0:
        return tombstone_of(TABLE, Partitioner.XXHASH64, f"key{number}", timestamp=timestamp)
    columns = {
        "c_string": f"ü{number}" if number % 2 else None,
        "c_bigint": number * 2**40,
        "c_int": -number,
        "c_double": number / 3,
        "c_boolean": number % 3 == 0,
        "c_binary": bytes([number % 256]),
        "c_timestamp": number * 1_000_001,
    }
    return row_of(TABLE, Partitioner.XXHASH64, f"key{number}", columns=columns, timestamp=timestamp)


def merged(spark, folder, segments):
    """Last write wins, in Spark's own expressions."""
    rows = spark.read.parquet(*[str(folder / "data" / item.path) for item in segments])
    ranked = rows.groupBy("_token", "_key").agg(
        F.max_by(F.struct(*rows.columns), F.struct("_timestamp", "_deleted", "_digest")).alias(
            "newest"
        )
    )
    return ranked.select("newest.*")


async def test_segments_go_through_spark_and_back(tmp_path, spark):
    there, here = tmp_path / "source", tmp_path / "target"
    async with store_in(there) as source, store_in(here) as target:
        for timestamp in (1, 2):
            rows = [made(number, timestamp) for number in range(timestamp * 100, 600)]
            await source.put(TABLE, rows)
            await source.flush(TABLE, [FULL])
        expected = await scanned(source, table=TABLE)

        found = merged(spark, there, await source.segments(TABLE.id, [FULL]))
        (here / "data").mkdir(parents=True)
        found.repartitionByRange(2, "_token").sortWithinPartitions("_token", "_key").write.option(
            "parquet.block.size", 64 * 1024
        ).parquet(str(here / "data" / "staged" / "5" / "attempt"))
        files = [
            Staged(path=str(path.relative_to(here / "data")), size_bytes=path.stat().st_size)
            for path in sorted((here / "data").rglob("*.parquet"))
        ]
        assert await target.register(TABLE, "join-5", files) is True

        assert await scanned(target, table=TABLE) == expected
        for row in expected[::50]:
            assert await target.get(TABLE, row.token, row.key) == row
        await target.compact_all(TABLE)
        assert await scanned(target, table=TABLE) == expected


async def test_spark_computes_the_same_tokens(tmp_path, spark):
    async with store_in(tmp_path) as store:
        await store.put(TABLE, [made(number, 1) for number in range(20)])
        segments = await store.flush(TABLE, [FULL])
        rows = spark.read.parquet(*[str(tmp_path / "data" / item.path) for item in segments])

    wrong = rows.filter("NOT _deleted").filter(F.xxhash64("id") != F.col("_token"))

    assert wrong.count() == 0
    assert dict(rows.dtypes) == {
        "_token": "bigint",
        "_key": "string",
        "_timestamp": "bigint",
        "_deleted": "boolean",
        "_digest": "bigint",
        "id": "string",
        **{f"c_{kind}": str(kind) for kind in ColumnType},
    }


async def test_spark_reads_only_row_groups_that_overlap(tmp_path, spark, monkeypatch):
    """The token predicate reaches the Parquet reader: of ten groups it reads two or three."""
    monkeypatch.setattr("store.segments.GROUP_ROWS_MAX", 100)
    async with store_in(tmp_path) as store:
        rows = [made(number, 1) for number in range(1000)]
        await store.put(TABLE, rows)
        (segment,) = await store.flush(TABLE, [FULL])
    wanted = sorted(row.token for row in rows)[150:250]
    read = spark.read.parquet(str(tmp_path / "data" / segment.path))

    part = read.filter(F.col("_token").between(wanted[0], wanted[-1])).select("_token", "_key")
    assert len(part.collect()) == len(wanted)

    leaf = part._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
    assert leaf.metrics().apply("numOutputRows").value() < 400
