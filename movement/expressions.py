"""Rows of segments in Spark's own expressions; nothing here runs Python for a row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents have it
from pyspark.sql import types as T  # noqa: N812 - as above

from metadata.columns import ColumnType
from metadata.schema import Column as TableColumn
from metadata.tokens import MINIMUM, Range, position
from movement.batches import Spans
from movement.receipts import slice_shift
from store.merging import stored_name

NULLS_PER_NUMBER = 62
"""So many columns fit into one bitmap, its sign left alone."""

# No column of a table may have a dollar sign in its name.
BUCKET = "$bucket"
RANGE = "$range"
SLICE = "$slice"
RANK = "$rank"
HASH = "$hash"

_SYSTEM = (
    T.StructField("_token", T.LongType()),
    T.StructField("_key", T.StringType()),
    T.StructField("_timestamp", T.LongType()),
    T.StructField("_deleted", T.BooleanType()),
    T.StructField("_digest", T.LongType()),
)
_TYPES: dict[ColumnType, T.DataType] = {
    ColumnType.STRING: T.StringType(),
    ColumnType.BIGINT: T.LongType(),
    ColumnType.INT: T.IntegerType(),
    ColumnType.DOUBLE: T.DoubleType(),
    ColumnType.BOOLEAN: T.BooleanType(),
    ColumnType.BINARY: T.BinaryType(),
    ColumnType.TIMESTAMP: T.TimestampType(),
}
# One version may have lost a column, which was dropped and came back, in one of two files: then
# the hash decides, for all who ask.
_ORDER = ("_timestamp", "_deleted", "_digest", HASH)


def spark_schema(columns: Sequence[TableColumn]) -> T.StructType:
    """What a file lacks is null, and what it has beyond this is not read."""
    fields = (T.StructField(stored_name(item.name), _TYPES[item.type]) for item in columns)
    return T.StructType([*_SYSTEM, *fields])


def in_spans(spans: Spans) -> Column:
    """Plain comparisons, which reach the Parquet reader: it skips row groups by them."""
    token = F.col("_token")
    return reduce(or_, (token.between(_bigint(span.first), _bigint(span.last)) for span in spans))


def newest(rows: DataFrame, partitions: int, ranges: Sequence[Range]) -> DataFrame:
    """Last write wins, in one shuffle and one sort; what comes out is sorted by token and key.

    Rows are dealt out by parts of the token range, so that files hold neighbours.
    """
    hashed = with_hash(rows).withColumn(BUCKET, _bucket(partitions, ranges))
    # The token first: rows are then told apart by one number while they are sorted.
    versions = Window.partitionBy("_token", BUCKET, "_key").orderBy(
        *(F.col(name).desc() for name in _ORDER)
    )
    dealt = hashed.repartition(partitions, BUCKET)
    ranked = dealt.withColumn(RANK, F.row_number().over(versions))
    return ranked.where(F.col(RANK) == 1).select(*rows.columns)


def newest_hashes(rows: DataFrame, partitions: int) -> DataFrame:
    """Of each row the token and the hash of its newest version, by another way than `newest`."""
    dealt = rows.repartition(partitions, "_token")
    best = F.max_by(HASH, F.struct(*_ORDER)).alias(HASH)
    return dealt.groupBy("_token", "_key").agg(best).drop("_key")


def with_hash(rows: DataFrame) -> DataFrame:
    """A hash of everything in a row. The hash function skips nulls: a bitmap tells where."""
    names = rows.columns
    places = range(0, len(names), NULLS_PER_NUMBER)
    nulls = (_bitmap(names[place : place + NULLS_PER_NUMBER]) for place in places)
    return rows.withColumn(HASH, F.xxhash64(*nulls, *names))


def counted(hashes: DataFrame, ranges: Sequence[Range]) -> DataFrame:
    """Figures by place of the range and number of the slice.

    The sum is kept in two halves: of whole numbers a sum might overflow, and decimals are slow.
    """
    shifts = F.array(*(F.lit(slice_shift(item)) for item in ranges))
    placed = hashes.withColumn(RANGE, _range_index(ranges))
    shift = F.element_at(shifts, F.col(RANGE) + 1)
    sliced = placed.withColumn(SLICE, F.call_function("shiftright", F.col("_token"), shift))
    low = F.col(HASH).bitwiseAND(_bigint(2**32 - 1))
    return sliced.groupBy(RANGE, SLICE).agg(
        F.count("*").alias("rows"),
        F.bit_xor(HASH).alias("xor"),
        F.sum(F.shiftright(HASH, 32)).alias("high"),
        F.sum(low).alias("low"),
    )


def _range_index(ranges: Sequence[Range]) -> Column:
    """Which of the ordered ranges has the token; rows between them were not read."""
    index = _descend([position(item.right) for item in ranges], 0)
    if ranges[-1].right != MINIMUM:
        return index
    last = F.lit(len(ranges) - 1)
    return F.when(F.col("_token") == _bigint(MINIMUM), last).otherwise(index)


def _bucket(partitions: int, ranges: Sequence[Range]) -> Column:
    """About four parts per task, by width: tokens are hashes and hence spread evenly."""
    if partitions == 1:
        return F.lit(0)
    total = sum(item.width for item in ranges)
    step = total // (4 * partitions) + 1
    edges: list[int] = []
    for item in ranges:
        parts = -(-item.width // step)
        edges += [item.left + item.width * part // parts for part in range(1, parts + 1)]
    return _descend(edges, 0)


def _descend(edges: Sequence[int], first: int) -> Column:
    """The place of the first edge that the token does not exceed, by halving."""
    if len(edges) == 1:
        return F.lit(first)
    middle = len(edges) // 2
    below = F.col("_token") <= _bigint(edges[middle - 1])
    left, right = _descend(edges[:middle], first), _descend(edges[middle:], first + middle)
    return F.when(below, left).otherwise(right)


def _bitmap(names: Sequence[str]) -> Column:
    bits = (F.shiftleft(F.isnull(name).cast("bigint"), place) for place, name in enumerate(names))
    return reduce(lambda one, other: one.bitwiseOR(other), bits)


def _bigint(number: int) -> Column:
    return F.lit(number).cast("bigint")
