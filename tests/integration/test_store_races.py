"""Two things at once on one table: the later one to publish sees what the earlier one did."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

from metadata.sessions import SessionId
from metadata.tokens import FULL, MINIMUM, Range, Token
from store.failures import OverloadedError, StoreError
from store.reading import SegmentReader
from tests.store_model import TABLE, live, repaired, row, rows_at, scanned, staged, store_in

SESSION = SessionId(9)
LOW, HIGH = Range(MINIMUM, Token(50)), Range(Token(50), MINIMUM)


class Meanwhile:
    """Does something to the store when a point is reached for the first time."""

    def __init__(self, point, work):
        self.point, self.work = point, work
        self.store, self.result = None, None

    async def __call__(self, point):
        if point == self.point:
            self.point = None
            self.result = await self.work(self.store)


@asynccontextmanager
async def disturbed(folder, meanwhile):
    async with store_in(folder, reached=meanwhile) as store:
        meanwhile.store = store
        yield store


async def two_segments(store, *, timestamp=1):
    for token in (10, 90):
        await store.put(TABLE, rows_at(token, timestamp=timestamp))
        await store.flush(TABLE, [FULL])


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr("store.segments.GROUP_ROWS_MAX", 2)
    monkeypatch.setattr("store.flushing.FLUSHED_ROWS_MAX", 5)
    monkeypatch.setattr("store.flushing.PAGE_ROWS_MAX", 3)
    monkeypatch.setattr("store.flushing.FORGOTTEN_ROWS_MAX", 2)
    monkeypatch.setattr("store.compaction.WINDOW_ROWS_MAX", 3)
    monkeypatch.setattr("store.compaction.INPUTS_MIN", 2)
    monkeypatch.setattr("store.store.COUNTED_ROWS_MAX", 4)


async def test_a_cleanup_during_a_compaction_is_not_undone_by_it(tmp_path):
    meanwhile = Meanwhile("compaction-written", lambda store: store.cleanup(TABLE.id, [HIGH]))
    async with disturbed(tmp_path, meanwhile) as store:
        await two_segments(store)

        done = await store.compact_all(TABLE)

        assert done is None
        assert await scanned(store) == rows_at(10)
        assert len(list(tmp_path.rglob("*.parquet"))) == 2
        assert await store.sweep() == 1


async def test_a_segment_pinned_during_a_compaction_stays(tmp_path):
    meanwhile = Meanwhile("compaction-written", lambda store: store.pin(SESSION, TABLE.id, [FULL]))
    async with disturbed(tmp_path, meanwhile) as store:
        await two_segments(store)
        before = await store.segments(TABLE.id, [FULL])

        done = await store.compact_all(TABLE)

        assert done is None
        assert meanwhile.result == before == await store.segments(TABLE.id, [FULL])


async def test_what_a_dropped_tombstone_hides_may_be_flushed_meanwhile(tmp_path):
    """Then the compaction gives up, or an old value would come back."""
    late = Meanwhile("compaction-written", lambda store: store.flush(TABLE, [FULL]))
    async with disturbed(tmp_path, late) as store:
        await store.put(TABLE, rows_at(10, timestamp=2, amount=None))
        await store.flush(TABLE, [FULL])
        await repaired(store)
        await store.put(TABLE, rows_at(10, timestamp=1))

        done = await store.compact_all(TABLE)

        assert done is None
        assert await scanned(store) == rows_at(10, timestamp=2, amount=None)


async def test_what_a_dropped_tombstone_hides_may_be_on_its_way_to_a_segment(tmp_path):
    waiting = []

    async def start(store):
        waiting.append(asyncio.ensure_future(store.compact_all(TABLE)))
        # It cannot end while the flush holds the table; if it could, it would in this time.
        await asyncio.wait(waiting, timeout=0.3)

    meanwhile = Meanwhile("flush-written", start)
    async with disturbed(tmp_path, Meanwhile(None, start)) as store:
        await store.put(TABLE, rows_at(10, timestamp=2, amount=None))
        await store.flush(TABLE, [FULL])
        await repaired(store)
        await store.put(TABLE, rows_at(10, timestamp=1))
    async with disturbed(tmp_path, meanwhile) as store:
        await store.flush(TABLE, [FULL])

        assert await asyncio.gather(*waiting) == [None]
        assert await scanned(store) == rows_at(10, timestamp=2, amount=None)


@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.get(TABLE, Token(10), "key10"),
        lambda store: store.scan(TABLE, [FULL]),
        lambda store: store.count(TABLE, [FULL]),
        lambda store: store.estimate(TABLE, [FULL]),
        lambda store: store.compact_all(TABLE),
    ],
)
async def test_whoever_reads_files_is_known_to_the_sweep(tmp_path, monkeypatch, read):
    known = []
    footer = SegmentReader.footer

    def seen(self, table, segment):
        known.append(bool(store._means.readers._active))
        return footer(self, table, segment)

    async with store_in(tmp_path) as store:
        await two_segments(store)
        monkeypatch.setattr(SegmentReader, "footer", seen)

        await read(store)

        assert known
        assert all(known)


async def test_a_row_written_while_it_is_flushed_is_kept(tmp_path):
    """The flush forgets only the versions that it wrote."""
    meanwhile = Meanwhile("flush-written", lambda store: store.put(TABLE, rows_at(10, timestamp=2)))
    async with disturbed(tmp_path, meanwhile) as store:
        await store.put(TABLE, rows_at(10, 20))

        await store.flush(TABLE, [FULL])

        assert meanwhile.result == [None]
        assert await scanned(store) == [*rows_at(10, timestamp=2), *rows_at(20)]


async def test_a_cleanup_waits_for_a_flush_and_finds_all_of_it(tmp_path):
    waiting = []

    async def start(store):
        # The flush holds the table, so that nobody could wait here for the cleanup.
        waiting.append(asyncio.ensure_future(store.cleanup(TABLE.id, [FULL])))

    meanwhile = Meanwhile("flush-published", start)
    async with disturbed(tmp_path, meanwhile) as store:
        await store.put(TABLE, rows_at(*range(20)))

        await store.flush(TABLE, [FULL])
        await asyncio.gather(*waiting)

        assert len(waiting) == 1
        assert await scanned(store) == []


async def test_a_range_that_comes_back_during_a_flush_keeps_its_rows(tmp_path):
    """Cleaned and written again meanwhile: what the flush forgets must still be cold."""
    waiting = []

    async def clean_and_write_again(store):
        await store.cleanup(TABLE.id, [FULL])
        await store.put(TABLE, rows_at(10, 20))

    async def start(store):
        waiting.append(asyncio.ensure_future(clean_and_write_again(store)))
        # It cannot end while the flush holds the table; if it could, it would in this time.
        await asyncio.wait(waiting, timeout=0.3)

    async with disturbed(tmp_path, Meanwhile("flush-published", start)) as store:
        await store.put(TABLE, rows_at(10, 20))
        await store.flush(TABLE, [FULL])
        await asyncio.gather(*waiting)

        assert await scanned(store) == rows_at(10, 20)


async def test_no_file_goes_from_under_a_reader(tmp_path):
    async with store_in(tmp_path) as store:
        await two_segments(store)
        await store.compact_all(TABLE)
        with store._means.readers.entered():
            sweep = asyncio.ensure_future(store.sweep())
            await store.put(TABLE, rows_at(20))
            await store.get(TABLE, Token(20), "key20")
            assert len(list(tmp_path.rglob("*.parquet"))) == 3
        assert await sweep == 2
        assert len(list(tmp_path.rglob("*.parquet"))) == 1


async def test_one_import_sent_twice_at_once_is_taken_once(tmp_path):
    async with store_in(tmp_path) as store:
        entry = staged(tmp_path, rows_at(10))

        taken = await asyncio.gather(*(store.register(TABLE, "x", [entry]) for _ in range(3)))

        assert sorted(taken) == [False, False, True]
        assert await scanned(store) == rows_at(10)


@pytest.mark.parametrize("seed", range(20, 24))
async def test_a_store_agrees_with_a_dictionary(tmp_path, seed):
    await live(tmp_path, seed=seed, steps=120, reopen_each=30)


@pytest.mark.parametrize("seed", range(3))
async def test_writers_flushes_compactions_and_sweeps_at_once_lose_nothing(tmp_path, seed):
    print(f"seed {seed}")
    rng = random.Random(seed)
    written = {}

    async def write(store, key):
        for timestamp in range(1, 60):
            item = row(rng.randrange(-5, 5), key, timestamp, rng.choice([None, timestamp]))
            await store.put(TABLE, [item])
            written[item.token, item.key] = item
            found = await store.get(TABLE, item.token, item.key)
            assert found == item

    async def repeat(work):
        for _ in range(12):
            await work()

    async with store_in(tmp_path) as store, asyncio.TaskGroup() as group:
        for key in "abc":
            group.create_task(write(store, key))
        group.create_task(repeat(lambda: store.flush(TABLE, [FULL])))
        group.create_task(repeat(lambda: store.flush(TABLE, [LOW])))
        group.create_task(repeat(lambda: store.compact_all(TABLE)))
        group.create_task(repeat(store.sweep))
    async with store_in(tmp_path) as store:
        assert await scanned(store) == [written[place] for place in sorted(written)]


async def test_rows_that_are_written_are_never_said_not_to_be(tmp_path, monkeypatch):
    """Asking what beats them may fail as if nothing had been taken in."""
    async with disturbed(tmp_path, Meanwhile(None, None)) as store:
        await two_segments(store, timestamp=9)

        async def overloaded(*_given):
            raise OverloadedError("Too much waits.")

        with monkeypatch.context() as busy:
            busy.setattr(store, "get", overloaded)
            with pytest.raises(StoreError, match="The row is written") as caught:
                await store.put(TABLE, rows_at(50))

        assert not caught.value.retriable
        assert await store.get(TABLE, Token(50), "key50") is not None
