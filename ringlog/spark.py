"""The Spark data source `ringlog`: a history as tables, in batches and as a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from audit.tables import SCHEMAS, Batch, Part, Table, batches, parts
from metadata.epoch import Epoch
from ringlog.spark_source import (
    Asked,
    SourceError,
    asked_for,
    asked_for_stream,
    first_epoch,
    opened,
    whole_part,
)

Session: TypeAlias = SparkSession
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: Session) -> None:
    spark.dataSource.register(RinglogSource)
    # Off by default, and without it a question about one epoch reads all of them.
    spark.conf.set(PUSH_DOWN, "true")


class RinglogSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ringlog"

    def schema(self) -> StructType:
        return from_arrow_schema(SCHEMAS[asked_for(self.options).table])

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 the API's
        return _Reader(asked_for(self.options))

    def streamReader(  # noqa: N802 the API's
        self,
        schema: StructType,  # noqa: ARG002 the API's
    ) -> DataSourceStreamReader:
        return _StreamReader(asked_for_stream(self.options))


class _Partition(InputPartition):
    def __init__(self, part: Part) -> None:
        super().__init__(msgspec.msgpack.encode(part))

    @property
    def part(self) -> Part:
        return msgspec.msgpack.decode(self.value, type=Part)


class _Reader(DataSourceReader):
    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 the API's
        """All go back to Spark as well: what is read is only narrowed down."""
        for each in filters:
            self._narrowing = narrowed(self._narrowing, each)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        with opened(self._asked) as history:
            whole = self._narrowing.of(whole_part(history, self._asked))
            return [_Partition(part) for part in parts(history, whole)]

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        assert isinstance(partition, _Partition)
        return _read(self._asked, partition.part)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are epochs: `{"epoch": 7}` stands behind the entry of epoch 7."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._last: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 the API's
        if self._asked.first is not None:
            return {"epoch": self._asked.first - 1}
        with opened(self._asked) as history:
            return {"epoch": first_epoch(history)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 the API's
        self._last = self._tip()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 the API's
        return ReadMaxRows(self._asked.entries_per_trigger)

    def latestOffset(  # noqa: N802 the API's
        self, start: dict[str, int], limit: ReadLimit
    ) -> dict[str, int]:
        tip = self._tip() if self._last is None else self._last
        begin = start["epoch"]
        if tip < begin:
            raise SourceError(
                f"{self._asked.place} ends at epoch {tip} and this stream has read up to {begin}: "
                "it is not the history that the checkpoint is of."
            )
        if isinstance(limit, ReadMaxRows):
            return {"epoch": min(tip, begin + limit.max_rows)}
        return {"epoch": tip}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        whole = Part(
            table=self._asked.table, after=Epoch(start["epoch"]), up_to=Epoch(end["epoch"])
        )
        with opened(self._asked) as history:
            return [_Partition(part) for part in parts(history, whole)]

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        assert isinstance(partition, _Partition)
        return _read(self._asked, partition.part)

    def _tip(self) -> Epoch:
        with opened(self._asked) as history:
            return history.tip.epoch


def _read(asked: Asked, part: Part) -> Iterator[Batch]:
    with opened(asked) as history:
        yield from batches(history, part)


class Narrowing(msgspec.Struct, frozen=True):
    """What filters leave to be read."""

    after: int = 0
    up_to: int = 2**63 - 1
    kinds: frozenset[str] | None = None

    def of(self, part: Part) -> Part:
        if part.after is None:
            return part
        kinds = self.kinds if part.table is Table.ENTRIES else None
        after, up_to = max(part.after, self.after), min(part.up_to, self.up_to)
        return Part(table=part.table, after=Epoch(after), up_to=Epoch(up_to), kinds=kinds)

    def within(self, *, first: int = 1, last: int = 2**63 - 1) -> Narrowing:
        after, up_to = max(self.after, first - 1), min(self.up_to, last)
        return msgspec.structs.replace(self, after=after, up_to=up_to)

    def among(self, kinds: Iterable[Any]) -> Narrowing:
        wanted = frozenset(kind for kind in kinds if isinstance(kind, str))
        known = wanted if self.kinds is None else self.kinds & wanted
        return msgspec.structs.replace(self, kinds=known)


def narrowed(known: Narrowing, by: Filter) -> Narrowing:
    """With one more filter; one that tells nothing of epochs or kinds changes nothing."""
    match by:
        case EqualTo(("epoch",), int(value)):
            return known.within(first=value, last=value)
        case In(("epoch",), values) if epochs := [value for value in values if value is not None]:
            # A row is in a list by equality, and nothing equals NULL.
            return known.within(first=min(epochs), last=max(epochs))
        case GreaterThan(("epoch",), int(value)):
            return known.within(first=value + 1)
        case GreaterThanOrEqual(("epoch",), int(value)):
            return known.within(first=value)
        case LessThan(("epoch",), int(value)):
            return known.within(last=value - 1)
        case LessThanOrEqual(("epoch",), int(value)):
            return known.within(last=value)
        case EqualTo(("kind",), str(value)):
            return known.among([value])
        case In(("kind",), values):
            return known.among(values)
        case _:
            return known
