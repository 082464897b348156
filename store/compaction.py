"""Several segments become one, of which every row is there once."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from metadata.schema import Table, TableId
from metadata.tokens import FULL, MAXIMUM, MINIMUM, Range, Token
from store import hot, manifest, segments
from store.failures import SegmentError
from store.hot import Version
from store.manifest import Segment
from store.means import Guard, Means, kept_if_published
from store.merging import inside, newest_of
from store.ranges import Span, overlap, spans_of
from store.reading import SegmentReader
from store.scanning import window_end

INPUTS_MIN = 4
INPUTS_MAX = 16
INPUT_ROWS_MAX = 8 * 1024 * 1024
WINDOW_ROWS_MAX = 128 * 1024
WINDOW_BYTES_MAX = 128 * 1024 * 1024
DROPPED_MAX = 64 * 1024
HIDDEN_SHARE_MIN = 0.1
"""Of a segment's rows: for less than this the rest is not written again."""
_TIER_FACTOR = 4


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """`output` is None if no row was left."""

    inputs: tuple[Segment, ...]
    output: Segment | None
    rows_before: int
    tombstones_dropped: int


def chosen(candidates: Sequence[Segment]) -> list[Segment]:
    """Segments of about the same size, smallest first: every row is rewritten a few times only."""
    tiers: dict[int, list[Segment]] = {}
    for segment in candidates:
        tiers.setdefault(_tier(segment.rows), []).append(segment)
    for _, members in sorted(tiers.items()):
        fitting = bounded(members)
        if len(fitting) >= INPUTS_MIN:
            return fitting
    return []


def bounded(candidates: Sequence[Segment]) -> list[Segment]:
    """The first of them, as many as one compaction takes."""
    taken: list[Segment] = []
    rows = 0
    for segment in candidates[:INPUTS_MAX]:
        rows += segment.rows
        if rows > INPUT_ROWS_MAX:
            break
        taken.append(segment)
    return taken


def thinned(candidates: Iterable[tuple[Segment, int]]) -> list[Segment]:
    """The one of which cleanup has hidden the largest share, to be written without that.

    Each comes with how many of its rows count. None if there is nothing worth it.
    """
    shares = [
        ((segment.rows - rows) / segment.rows, segment)
        for segment, rows in candidates
        if rows <= INPUT_ROWS_MAX
    ]
    share, found = max(shares, key=lambda item: item[0], default=(0.0, None))
    return [found] if found is not None and share >= HIDDEN_SHARE_MIN else []


async def weighed(
    means: Means, table: Table, candidates: Iterable[Segment]
) -> list[tuple[Segment, int]]:
    """Segments of which something may be hidden, and how many of their rows count.

    Each is counted once, and again when more of it was hidden.
    """
    partly = [item for item in candidates if item.spans != (Span(item.first, item.last),)]
    known, found = means.counted.get(table.id, {}), dict[Segment, int]()
    with means.readers.entered():
        for segment in partly:
            found[segment] = (
                known[segment] if segment in known else await _counted(means, table, segment)
            )
    means.counted[table.id] = found
    return list(found.items())


async def _counted(means: Means, table: Table, segment: Segment) -> int:
    with _noting_damage(means, table, segment):
        return await asyncio.to_thread(means.reader.count, table, segment)


def worthwhile(inputs: Sequence[Segment]) -> bool:
    """A single segment is rewritten only if something in it may go."""
    return len(inputs) > 1 or any(item.repaired or item.ranges != (FULL,) for item in inputs)


async def compact(
    means: Means, table: Table, inputs: Sequence[Segment], guard: Guard
) -> Compacted | None:
    """None if somebody changed the segments meanwhile; then nothing was done.

    A tombstone goes only where a repair has brought it to all owners, and only if nothing older
    that it hides is left on this node: neither in a segment that is not merged here nor hot.
    """
    with means.readers.entered():
        alive = await means.database.read(lambda c: manifest.live(c, table.id))
        if not {item.id for item in inputs} <= {item.id for item in alive}:
            return None
        others = [item for item in alive if item not in inputs]
        merge = Merge(means.reader, table, inputs, others)
        path = means.new_path(table.id)
        for segment in inputs:
            await _verified(means, table, segment)
        output = await asyncio.to_thread(segments.write, means.folder, path, table, merge.batches())
    await means.reached("compaction-written")
    if output is not None:
        output = msgspec.structs.replace(output, repaired=repaired_by_all(inputs))
    async with means.locks[table.id], kept_if_published(means, [path]):
        done = await _publish(means, merge, output, alive=alive, guard=guard)
    await means.reached("compaction-published")
    if done is None and output is not None:
        await asyncio.to_thread(means.folder.delete, path)
    return done


async def _verified(means: Means, table: Table, segment: Segment) -> None:
    with _noting_damage(means, table, segment):
        await asyncio.to_thread(means.reader.verify, table, segment)


@contextmanager
def _noting_damage(means: Means, table: Table, segment: Segment) -> Iterator[None]:
    try:
        yield
    except SegmentError:
        means.damaged[segment.path] = (table, segment)
        raise


async def recheck(means: Means) -> None:
    """Take back in what was damaged and is whole again, and forget what is gone."""
    for path, (table, segment) in list(means.damaged.items()):
        alive = await means.database.read(lambda c, id_=table.id: manifest.live(c, id_))  # type: ignore[misc] # bound now
        if path in {item.path for item in alive}:
            try:
                await asyncio.to_thread(means.reader.verify, table, segment)
            except SegmentError:
                continue
        del means.damaged[path]


class Merge:
    """The rows of the inputs, window by window; counts what it drops on the way."""

    def __init__(
        self,
        reader: SegmentReader,
        table: Table,
        inputs: Sequence[Segment],
        others: Sequence[Segment],
    ) -> None:
        self.table = table
        self.inputs = tuple(inputs)
        self.dropped: list[Version] = []
        self._reader = reader
        self._others = tuple(others)
        self._repaired = spans_of(repaired_by_all(inputs))

    def batches(self) -> Iterator[pa.Table]:
        first: int = MINIMUM
        rows_max = 1
        while first <= MAXIMUM:
            rest = (Span(Token(first), MAXIMUM),)
            groups = [
                group
                for item in self.inputs
                for group in self._reader.groups(self.table, item, rest)
            ]
            end = window_end(groups, rows_max, WINDOW_BYTES_MAX)
            last = MAXIMUM if end is None else end
            window = (Span(Token(first), last),)
            parts = [self._reader.rows(self.table, item, window) for item in self.inputs]
            versions = pa.concat_tables(parts)
            rows_max = _fitting(versions) or rows_max
            yield self._without_dropped(newest_of(versions))
            first = last + 1

    def _without_dropped(self, rows: pa.Table) -> pa.Table:
        is_gone = self._droppable(rows)
        gone = rows.filter(is_gone)
        if len(gone) == 0 or len(self.dropped) + len(gone) > DROPPED_MAX:
            return rows
        columns = [gone[name].to_pylist() for name in ("_token", "_key", "_timestamp", "_digest")]
        self.dropped += [
            Version(token, key, (timestamp, True, digest))
            for token, key, timestamp, digest in zip(*columns, strict=True)
        ]
        return rows.filter(pc.invert(is_gone))

    def _droppable(self, rows: pa.Table) -> pa.ChunkedArray:
        """Tombstones repaired in every input, where all else in other segments is newer."""
        tokens, timestamps = rows["_token"], rows["_timestamp"]
        found = pc.and_(rows["_deleted"], inside(tokens, self._repaired))
        for other in self._others:
            if not pc.any(found).as_py():
                break
            apart = pc.invert(inside(tokens, (Span(other.first, other.last),)))
            older = pc.less(timestamps, pa.scalar(other.oldest, pa.int64()))
            found = pc.and_(found, pc.or_(apart, older))
        return found


def _fitting(rows: pa.Table) -> int:
    """How many such rows fit into a window; 0 if that is not known.

    A file does not tell: equal values are in it once, and take their room when they are read.
    """
    if len(rows) == 0:
        return 0
    size_bytes: int = rows.nbytes
    return max(1, min(WINDOW_ROWS_MAX, WINDOW_BYTES_MAX * len(rows) // (size_bytes + 1)))


def repaired_by_all(inputs: Sequence[Segment]) -> tuple[Range, ...]:
    every: tuple[Range, ...] = (FULL,)
    return reduce(overlap, (item.repaired for item in inputs), every)


async def _publish(
    means: Means,
    merge: Merge,
    output: Segment | None,
    *,
    alive: Sequence[Segment],
    guard: Guard,
) -> Compacted | None:
    table: TableId = merge.table.id

    def work(connection: sqlite3.Connection) -> Compacted | None:
        guard(connection)
        if not _unchanged(connection, merge, alive):
            return None
        hot.forget_beaten(connection, table, merge.dropped)
        manifest.remove(connection, merge.inputs)
        return Compacted(
            inputs=merge.inputs,
            output=None if output is None else manifest.add(connection, output),
            rows_before=sum(item.rows for item in merge.inputs),
            tombstones_dropped=len(merge.dropped),
        )

    return await means.database.write(work)


def _unchanged(connection: sqlite3.Connection, merge: Merge, alive: Sequence[Segment]) -> bool:
    """A segment that came meanwhile may hold what a dropped tombstone hides."""
    if not manifest.same(connection, merge.inputs) or manifest.pinned(connection, merge.inputs):
        return False
    return not merge.dropped or manifest.live(connection, merge.table.id) == list(alive)


def _tier(rows: int) -> int:
    tier = 0
    while rows >= _TIER_FACTOR:
        rows //= _TIER_FACTOR
        tier += 1
    return tier
