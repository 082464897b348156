"""Auditing a history on Spark: its stretches are replayed at once, and found the same as by one.

Spark carries facts, not metadata: a row per entry with its id, rows of who did what, the first
findings of each rule, and one summary per stretch. Ids are compared and actors counted by Spark;
only findings, summaries and counts come to the program that asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from uuid import UUID

import msgspec
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from audit.entry_checks import ENTRY_ID, repeated_id
from audit.findings import FINDINGS_PER_RULE_MAX
from audit.history import History, check_epoch, metadata_at
from audit.parallel import (
    Facts,
    Found,
    Plan,
    Stretch,
    Summary,
    planned,
    rank_of,
    replayed_stretch,
)
from audit.parallel_merge import Repeats, assumed_wrongly, check_seams, merged
from audit.people import ACTORS_KEPT_MAX, OTHERS
from audit.replay import Report
from encoding.entries import EntryId
from metadata.epoch import EMPTY, Epoch

Opening = Callable[[], AbstractContextManager[History]]
"""How to open the history. Every task does, so it is sent to them, and must be importable there."""

_FACTS = (
    "stretch int, summary binary, entry_id binary, epoch long, actor string, kind string, "
    "entries long, rule string, at long, rank int, place long, finding binary"
)
_SCHEMA = pa.schema(
    [
        ("stretch", pa.int32()),
        ("summary", pa.binary()),
        ("entry_id", pa.binary()),
        ("epoch", pa.int64()),
        ("actor", pa.string()),
        ("kind", pa.string()),
        ("entries", pa.int64()),
        ("rule", pa.string()),
        ("at", pa.int64()),
        ("rank", pa.int32()),
        ("place", pa.int64()),
        ("finding", pa.binary()),
    ]
)


def audited_on_spark(
    spark: SparkSession,
    opening: Opening,
    *,
    name: str,
    after: Epoch = EMPTY,
    up_to: Epoch | None = None,
    thorough: bool = False,
) -> Report:
    """The report that `audited` gives, made by as many tasks as there are stretches."""
    with opening() as history:
        end = history.tip.epoch if up_to is None else up_to
        check_epoch(history, end)
        check_epoch(history, after)
        # Where the audit begins must be reachable; a task could not say so as well.
        metadata_at(history, after)
        plan = planned(history, after=after, end=end, thorough=thorough)
    facts = _facts(spark, opening, plan, plan.stretches).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return _report(spark, opening, plan, facts, name)
    finally:
        facts.unpersist()


def _report(
    spark: SparkSession, opening: Opening, plan: Plan, facts: DataFrame, name: str
) -> Report:
    summaries = _summaries(facts)
    check_seams(plan, list(summaries.values()), name)
    found = _found(facts, without=())
    wrong = assumed_wrongly(list(summaries.values()))
    if wrong:
        again = _facts(spark, opening, plan, plan.again(wrong)).persist()
        try:
            kept = {number: it for number, it in summaries.items() if number not in wrong}
            summaries = dict(sorted({**kept, **_summaries(again)}.items()))
            check_seams(plan, list(summaries.values()), name)
            found = [*_found(facts, without=tuple(wrong)), *_found(again, without=())]
        finally:
            again.unpersist()
    return merged(
        list(summaries.values()),
        found,
        _repeats(facts),
        _deeds(facts),
        end=plan.end,
    )


def _facts(
    spark: SparkSession, opening: Opening, plan: Plan, stretches: Sequence[Stretch]
) -> DataFrame:
    """One task to a stretch."""

    def replayed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in (place for batch in batches for place in batch.column(0).to_pylist()):
            stretch = stretches[place]
            with opening() as history:
                for facts in replayed_stretch(history, plan, stretch):
                    yield from _batches(stretch.number, facts)

    numbers = spark.range(0, len(stretches), 1, numPartitions=len(stretches))
    return numbers.mapInArrow(replayed, _FACTS)


def _batches(stretch: int, facts: Facts) -> Iterator[pa.RecordBatch]:
    if facts.ids:
        ids, epochs = zip(*facts.ids, strict=True)
        yield _batch(stretch, {"entry_id": ids, "epoch": epochs})
    if facts.deeds:
        yield _batch(
            stretch,
            {
                "actor": [deed.actor for deed in facts.deeds],
                "kind": [deed.kind for deed in facts.deeds],
                "entries": [deed.entries for deed in facts.deeds],
                "epoch": [deed.first for deed in facts.deeds],
            },
        )
    if facts.found:
        yield _batch(
            stretch,
            {
                "rule": [item.finding.rule for item in facts.found],
                "at": [item.at for item in facts.found],
                "rank": [item.rank for item in facts.found],
                "place": [item.place for item in facts.found],
                "finding": [msgspec.msgpack.encode(item) for item in facts.found],
            },
        )
    if facts.summary is not None:
        yield _batch(stretch, {"summary": [msgspec.msgpack.encode(facts.summary)]})


def _batch(stretch: int, columns: Mapping[str, Sequence[object]]) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(rows, field.type)
        for field in _SCHEMA
    ]
    arrays[0] = pa.array([stretch] * rows, pa.int32())
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _summaries(facts: DataFrame) -> dict[int, Summary]:
    """By number; a stretch whose snapshot cannot be used has none."""
    rows = facts.where(f.col("summary").isNotNull()).select("summary").collect()
    found = [msgspec.msgpack.decode(row.summary, type=Summary) for row in rows]
    return {summary.number: summary for summary in sorted(found, key=lambda item: item.number)}


def _found(facts: DataFrame, *, without: Iterable[int]) -> list[Found]:
    """The first of each rule, in all stretches but these."""
    order = Window.partitionBy("rule").orderBy("at", "rank", "place")
    rows = (
        facts.where(f.col("finding").isNotNull() & ~f.col("stretch").isin(list(without)))
        .withColumn("nth", f.row_number().over(order))
        .where(f.col("nth") <= FINDINGS_PER_RULE_MAX)
        .select("finding")
        .collect()
    )
    return [msgspec.msgpack.decode(row.finding, type=Found) for row in rows]


def _repeats(facts: DataFrame) -> Repeats:
    ids = facts.where(f.col("entry_id").isNotNull()).select("entry_id", "epoch")
    used = ids.groupBy("entry_id").agg(f.min("epoch").alias("first"), f.count("*").alias("times"))
    several = used.where(f.col("times") > 1)
    total = several.agg(f.coalesce(f.sum(f.col("times") - 1), f.lit(0)).alias("total")).first()
    assert total is not None
    if not total.total:
        return Repeats(0, ())
    rows = (
        ids.join(several, "entry_id")
        .where(f.col("epoch") > f.col("first"))
        .orderBy("epoch")
        .limit(FINDINGS_PER_RULE_MAX)
        .select("entry_id", "epoch")
        .collect()
    )
    first = [_repeat(bytes(row.entry_id), Epoch(row.epoch)) for row in rows]
    return Repeats(total.total, first)


def _repeat(entry_id: bytes, epoch: Epoch) -> Found:
    finding = repeated_id(epoch, EntryId(UUID(bytes=entry_id)))
    return Found(epoch, rank_of(ENTRY_ID), 0, finding)


def _deeds(facts: DataFrame) -> dict[str | None, Counter[str]]:
    """Entries by actor and kind; actors beyond the bound together, as `People` counts them."""
    deeds = facts.where(f.col("kind").isNotNull()).select("actor", "kind", "entries", "epoch")
    known = (
        deeds.groupBy(f.col("actor").alias("known"))
        .agg(f.min("epoch").alias("since"))
        .orderBy("since")
        .limit(ACTORS_KEPT_MAX)
    )
    is_same: Column = f.col("actor").eqNullSafe(f.col("known"))
    named = f.when(f.col("since").isNull(), f.lit(OTHERS)).otherwise(f.col("actor"))
    rows = (
        deeds.join(known, is_same, "left")
        .groupBy(named.alias("who"), "kind")
        .agg(f.sum("entries").alias("entries"))
        .collect()
    )
    found: dict[str | None, Counter[str]] = {}
    for row in rows:
        found.setdefault(row.who, Counter())[row.kind] += row.entries
    return found
