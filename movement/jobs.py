"""The jobs of a movement: copy, checksums, figures. Each reads files, and decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents have it

from metadata.receipts import Figures
from metadata.schema import Column, Table
from metadata.tokens import Range
from movement.batches import Reading, expected, parted
from movement.expressions import (
    HASH,
    RANGE,
    SLICE,
    counted,
    in_spans,
    newest,
    newest_hashes,
    spark_schema,
    with_hash,
)
from movement.receipts import Slice, SliceFigures

PARTITION_BYTES = 32 * 1024 * 1024
PARTITIONS_MAX = 1024
FILE_ROWS_MAX = 2_000_000
GROUP_ROWS_MAX = 4096
GROUP_BYTES_MAX = 8 * 1024 * 1024

# As a node writes its own segments: what differs in every row is not looked up in a dictionary,
# and only tokens and timestamps are asked for their bounds. Everything is read again at once and
# rewritten by compactions, so that a quick compression is good enough.
_STATISTICS = "parquet.column.statistics.enabled"
_WRITING: dict[str, str | int] = {
    "parquet.block.size": GROUP_BYTES_MAX,
    "parquet.compression.codec.zstd.level": 1,
    _STATISTICS: "false",
    **{f"{_STATISTICS}#{name}": "true" for name in ("_token", "_timestamp")},
    **{
        f"parquet.enable.dictionary#{name}": "false"
        for name in ("_token", "_key", "_timestamp", "_digest")
    },
}

# A folder may have brackets or stars in its name, which are no patterns.
_READING = {"__globPaths__": "false"}


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one table: where they are read, and in which ranges they lie.

    `columns` are those of the table when the copy was made; both sides are counted by them.
    """

    table: Table
    columns: tuple[Column, ...]
    ranges: tuple[Range, ...]
    readings: tuple[Reading, ...]

    def of(self, readings: Sequence[Reading]) -> Wanted:
        """Only what is read there."""
        return msgspec.structs.replace(self, readings=tuple(readings))

    @property
    def partitions(self) -> int:
        _, size_bytes = expected(self.readings)
        return min(PARTITIONS_MAX, size_bytes // PARTITION_BYTES + 1)


class Written(msgspec.Struct, frozen=True):
    """A file as it lies there; `path` is absolute."""

    path: str
    size_bytes: int
    sha256: str


def copy(spark: SparkSession, wanted: Wanted, folder: str) -> None:
    """The newest version of each row into a new folder, sorted, in small row groups."""
    if not wanted.readings:
        return
    alone, merged = map(wanted.of, parted(wanted.readings))
    parts = []
    if alone.readings:
        # One task may have read several files, or parts of one in any order.
        parts.append(_read(spark, alone).sortWithinPartitions("_token", "_key"))
    if merged.readings:
        parts.append(newest(_read(spark, merged), merged.partitions, wanted.ranges))
    rows = reduce(DataFrame.unionAll, parts)
    rows.write.options(**_WRITING).option("parquet.block.row.count.limit", GROUP_ROWS_MAX).option(
        "maxRecordsPerFile", FILE_ROWS_MAX
    ).parquet(folder)


def written(spark: SparkSession, paths: Sequence[str]) -> list[Written]:
    """The files of folders, or single ones, with their hashes, which the tasks compute."""
    reader = spark.read.format("binaryFile").options(**_READING)
    files = reader.option("pathGlobFilter", "*.parquet").load(list(paths))
    found = files.select("path", "length", F.sha2("content", 256).alias("sha256")).collect()
    return sorted(
        (Written(_plain(row["path"]), row["length"], row["sha256"]) for row in found),
        key=lambda item: item.path,
    )


def merged_figures(spark: SparkSession, wanted: Wanted) -> list[SliceFigures]:
    """Of the newest versions of the rows, as the sources have them."""
    if not wanted.readings:
        return []
    alone, merged = map(wanted.of, parted(wanted.readings))
    parts = []
    if alone.readings:
        parts.append(with_hash(_read(spark, alone)).select("_token", HASH))
    if merged.readings:
        parts.append(newest_hashes(with_hash(_read(spark, merged)), merged.partitions))
    return _figures(wanted, reduce(DataFrame.unionAll, parts))


def stored_figures(spark: SparkSession, wanted: Wanted) -> list[SliceFigures]:
    """Of every row that is there: a target that holds a row twice is not the same."""
    if not wanted.readings:
        return []
    return _figures(wanted, with_hash(_read(spark, wanted)))


def _read(spark: SparkSession, wanted: Wanted) -> DataFrame:
    schema = spark_schema(wanted.columns)
    parts = [
        spark.read.schema(schema)
        .options(**_READING)
        .parquet(*(piece.path for piece in reading.pieces))
        .where(in_spans(reading.spans))
        for reading in wanted.readings
    ]
    return reduce(DataFrame.unionAll, parts)


def _figures(wanted: Wanted, rows: DataFrame) -> list[SliceFigures]:
    found = counted(rows.select("_token", HASH), wanted.ranges).collect()
    return sorted(
        (
            SliceFigures(
                Slice(wanted.table.id, wanted.ranges[row[RANGE]], row[SLICE]),
                Figures(
                    rows=row["rows"],
                    xor=str(row["xor"]),
                    sum=str((row["high"] << 32) + row["low"]),
                ),
            )
            for row in found
        ),
        key=lambda item: item.slice,
    )


def _plain(uri: str) -> str:
    """A local path instead of its address, in which nothing is escaped; others stay as they are."""
    return uri.removeprefix("file:") if uri.startswith("file:/") else uri
