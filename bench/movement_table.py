"""The table of which `bench.movement` moves a part: segments made by Spark, and kept."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents have it

from metadata.columns import ColumnType
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.schema import Column, Table, TableId
from metadata.tokens import FULL, Range, Token
from movement.batches import Piece
from movement.expressions import in_spans
from movement.jobs import GROUP_BYTES_MAX, GROUP_ROWS_MAX
from store.ranges import spans_of
from store.segments import footer_of

MADE = "made.json"
FORM = 2
"""To be raised when what is made changes."""
SEGMENTS = 40
TIERS = 4
"""Segments over all tokens, as flushes and compactions leave them."""
REPLICA_SEGMENTS = 8
MISSED_PERCENT = 2
OLDER_PERCENT = 2

TABLE = Table(
    id=TableId(1),
    keyspace="shop",
    name="orders",
    columns=(
        Column("id", ColumnType.STRING),
        Column("customer", ColumnType.BIGINT),
        Column("amount", ColumnType.DOUBLE),
        Column("note", ColumnType.STRING),
        Column("at", ColumnType.TIMESTAMP),
    ),
    partition_key=("id",),
    created=Epoch(1),
    epoch=Epoch(1),
)
MOVED = Range(Token(3 * 2**58), Token(3 * 2**58 + 2**61))
"""An eighth of the ring, which begins and ends somewhere in the middle of segments."""


class Made(msgspec.Struct, frozen=True):
    form: int
    rows: int
    pieces: tuple[Piece, ...]


def table_in(spark: SparkSession, folder: Path, rows: int) -> tuple[Piece, ...]:
    """The whole table at one node, in segments that share no token."""

    def made() -> DataFrame:
        return _rows(spark, rows, FULL).repartitionByRange(SEGMENTS, "_token")

    return _kept(folder / "whole", rows, made)


def tiers_in(spark: SparkSession, folder: Path, rows: int) -> tuple[Piece, ...]:
    """The same rows in a few segments of which each is spread over the ring."""

    def made() -> DataFrame:
        return _rows(spark, rows, FULL).repartition(TIERS, F.col("id"))

    return _kept(folder / "tiers", rows, made)


def replica_in(spark: SparkSession, folder: Path, rows: int, node: NodeId) -> tuple[Piece, ...]:
    """What one of many owners has around the range: not all of it, and some of it is older."""
    around = Range(Token(MOVED.left - 2**57), Token(MOVED.right + 2**57))
    chance = F.pmod(F.xxhash64("_key", F.lit(int(node))), F.lit(100))
    is_older = chance < MISSED_PERCENT + OLDER_PERCENT

    def made() -> DataFrame:
        found = _rows(spark, rows, around).where(chance >= MISSED_PERCENT)
        stamp = F.col("_timestamp") - is_older.cast("bigint")
        return found.withColumn("_timestamp", stamp).repartitionByRange(REPLICA_SEGMENTS, "_token")

    found = _kept(folder / f"replica-{node}", rows, made)
    return tuple(msgspec.structs.replace(piece, node=node) for piece in found)


def _rows(spark: SparkSession, rows: int, part: Range) -> DataFrame:
    """About a hundred bytes each, of which half cannot be compressed; some are tombstones."""
    number, key = F.col("n"), F.col("_key")
    deleted = F.pmod(F.xxhash64("_key"), F.lit(50)) == 0
    made = (
        spark.range(rows)
        .select(F.col("id").alias("n"), F.format_string("order-%09d", F.col("id")).alias("_key"))
        .select(
            F.xxhash64("_key").alias("_token"),
            key,
            (F.lit(1_700_000_000_000_000) + number).alias("_timestamp"),
            deleted.alias("_deleted"),
            F.when(deleted, F.lit(0)).otherwise(F.xxhash64("_key", "n")).alias("_digest"),
            _unless(deleted, key).alias("id"),
            _unless(deleted, F.pmod(F.xxhash64("n"), F.lit(100_000))).alias("customer"),
            _unless(deleted, F.pmod(F.xxhash64("n"), F.lit(10**6)) / 100).alias("amount"),
            _unless(deleted, F.concat(F.md5("_key"), F.lit(" as agreed by phone"))).alias("note"),
            _unless(deleted, F.timestamp_seconds(F.lit(1_700_000_000) + number)).alias("at"),
        )
    )
    return made.where(in_spans(spans_of((part,))))


def _unless(deleted: SparkColumn, value: SparkColumn) -> SparkColumn:
    return F.when(~deleted, value)


def _kept(folder: Path, rows: int, make: Callable[[], DataFrame]) -> tuple[Piece, ...]:
    """What an earlier run has made, or made now."""
    note = folder / MADE
    if note.exists():
        found = msgspec.json.decode(note.read_bytes(), type=Made)
        if (found.form, found.rows) == (FORM, rows):
            return found.pieces
    shutil.rmtree(folder, ignore_errors=True)
    (
        make()
        .sortWithinPartitions("_token", "_key")
        .write.option("parquet.block.size", GROUP_BYTES_MAX)
        .option("parquet.block.row.count.limit", GROUP_ROWS_MAX)
        .parquet(str(folder))
    )
    pieces = tuple(_piece(path) for path in sorted(folder.glob("*.parquet")))
    note.write_bytes(msgspec.json.encode(Made(FORM, rows, pieces)))
    return pieces


def _piece(path: Path) -> Piece:
    parquet = pq.read_metadata(path)
    spans = [group.span for group in footer_of(parquet).groups]
    return Piece(
        node=NodeId(1),
        path=str(path),
        rows=parquet.num_rows,
        size_bytes=path.stat().st_size,
        first=min(span.first for span in spans),
        last=max(span.last for span in spans),
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )
