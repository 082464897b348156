"""Segments: published whole or not at all, and every damage has a name."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from metadata.columns import ColumnType
from metadata.epoch import Epoch
from metadata.schema import Column
from metadata.sessions import SessionId
from metadata.tokens import FULL, MINIMUM, Range, Token
from store.failures import (
    DiskFailedError,
    DiskFullError,
    SegmentChecksumError,
    SegmentError,
    SegmentMissingError,
    SegmentSizeError,
    SegmentUnreadableError,
    StoreError,
)
from store.folder import Folder, Hashed, folder_at
from store.imports import ImportNameReusedError
from tests.store_model import TABLE, repaired, row, rows_at, scanned, staged, store_in

SESSION = SessionId(9)
LOW, HIGH = Range(MINIMUM, Token(50)), Range(Token(50), MINIMUM)


class RefusedError(Exception):
    pass


def refuse(_connection):
    raise RefusedError


@pytest.fixture
async def store(tmp_path):
    async with store_in(tmp_path) as found:
        yield found


@pytest.fixture
def files(tmp_path):
    return lambda: sorted(
        str(path.relative_to(tmp_path / "data")) for path in tmp_path.rglob("*.parquet")
    )


async def flushed(store, *tokens, **values):
    await store.put(TABLE, rows_at(*tokens, **values))
    (segment,) = await store.flush(TABLE, [FULL])
    return segment


async def test_a_segment_says_what_it_holds(store, tmp_path):
    segment = await flushed(store, 30, 10, 20)

    data = (tmp_path / "data" / segment.path).read_bytes()
    assert segment.sha256 == hashlib.sha256(data).hexdigest()
    assert (segment.size_bytes, segment.rows) == (len(data), 3)
    assert (segment.first, segment.last, segment.oldest, segment.newest) == (10, 30, 1, 1)
    found = pq.read_table(tmp_path / "data" / segment.path)
    assert found["_token"].to_pylist() == [10, 20, 30]
    assert found.schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert await store.segments(TABLE.id, [LOW]) == [segment]
    assert await store.segments(TABLE.id, [HIGH]) == []


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda path: path.unlink(), SegmentMissingError),
        (lambda path: path.write_bytes(path.read_bytes()[:-5]), SegmentSizeError),
        (lambda path: path.write_bytes(b"PAR1" + bytes(path.stat().st_size - 4)), SegmentError),
    ],
)
@pytest.mark.parametrize("action", ["get", "scan", "compact_all", "verify", "count"])
async def test_a_damaged_segment_is_named_with_its_table(store, tmp_path, damage, error, action):
    segment, other = await flushed(store, 10), await flushed(store, 20)
    damage(tmp_path / "data" / segment.path)
    actions = {
        "get": lambda: store.get(TABLE, Token(10), "key10"),
        "scan": lambda: store.scan(TABLE, [FULL]),
        "count": lambda: store.count(TABLE, [FULL]),
        "compact_all": lambda: store.compact_all(TABLE),
        "verify": lambda: store.verify(TABLE, [segment]),
    }

    with pytest.raises(error, match=rf"{segment.path} of table orders.*(repair|put)"):
        await actions[action]()
    assert await store.segments(TABLE.id, [FULL]) == [segment, other]


async def test_a_changed_byte_is_found_when_its_page_is_read(store, tmp_path):
    segment = await flushed(store, *range(1000))
    path = tmp_path / "data" / segment.path
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF
    path.write_bytes(data)

    with pytest.raises(SegmentChecksumError, match="another checksum"):
        await store.verify(TABLE, [segment])
    with pytest.raises(SegmentError, match="of table orders"):
        await store.get(TABLE, Token(10), "key10")


async def test_it_works_again_once_the_file_is_back(store, tmp_path):
    segment = await flushed(store, 10)
    path = tmp_path / "data" / segment.path
    path.rename(path.with_suffix(".away"))
    with pytest.raises(SegmentMissingError):
        await store.get(TABLE, Token(10), "key10")

    path.with_suffix(".away").rename(path)

    assert await store.get(TABLE, Token(10), "key10") == row(10, "key10", 1)


async def test_columns_may_come_and_go(store):
    await flushed(store, 10)
    changed = msgspec.structs.replace(
        TABLE,
        columns=(*TABLE.columns[:2], Column("note", ColumnType.STRING)),
        dropped=TABLE.columns[2:],
        epoch=Epoch(4),
    )

    found = await store.get(changed, Token(10), "key10")
    assert found.columns(changed) == {"id": "key10", "amount": 1}
    await store.put(TABLE, rows_at(20))
    await store.flush(changed, [FULL])
    await store.compact_all(changed)

    rows = await scanned(store, table=changed)
    assert [item.columns(changed) for item in rows] == [
        {"id": "key10", "amount": 1},
        {"id": "key20", "amount": 1},
    ]
    assert [item.digest for item in rows] == [item.digest for item in rows_at(10, 20)]


@pytest.mark.parametrize(
    "effect",
    [
        lambda store: store.put(TABLE, rows_at(99), refuse),
        lambda store: store.flush(TABLE, [FULL], refuse),
        lambda store: store.compact_all(TABLE, refuse),
        lambda store: store.cleanup(TABLE.id, [FULL], refuse),
        lambda store: store.drop(TABLE.id, refuse),
        lambda store: store.pin(SESSION, TABLE.id, [FULL], refuse),
        lambda store: store.unpin(SessionId(1), refuse),
        lambda store: store.cover(SessionId(1), [FULL], (), refuse),
    ],
)
async def test_a_guard_that_raises_leaves_everything_as_it_was(store, files, effect):
    await flushed(store, 10)
    (segment,) = await store.pin(SessionId(1), TABLE.id, [FULL])
    await flushed(store, 20)
    await flushed(store, 30)
    await store.put(TABLE, rows_at(40))
    before = files()

    with pytest.raises(RefusedError):
        await effect(store)

    assert await scanned(store) == rows_at(10, 20, 30, 40)
    assert files() == before
    assert await store.pinning() == [SessionId(1)]
    assert (await store.segments(TABLE.id, [LOW]))[0] == segment


async def test_a_row_that_is_beaten_says_by_which(store):
    await flushed(store, 10, timestamp=5)
    await store.put(TABLE, rows_at(20, timestamp=5))

    held = await store.put(TABLE, rows_at(10, 20, 30, timestamp=4))

    assert held == [*rows_at(10, 20, timestamp=5), None]
    assert await store.put(TABLE, rows_at(10, timestamp=6)) == [None]
    assert await store.put(TABLE, rows_at(10, timestamp=6)) == [None]
    assert await scanned(store) == [
        *rows_at(10, timestamp=6),
        *rows_at(20, timestamp=5),
        *rows_at(30, timestamp=4),
    ]


async def test_a_pinned_segment_stays_until_its_session_unpins_it(store, files):
    first = await flushed(store, 10)
    assert await store.pin(SESSION, TABLE.id, [LOW]) == [first]
    await store.cleanup(TABLE.id, [FULL])
    await store.sweep()
    assert files() == [first.path]
    assert await scanned(store) == []

    await store.unpin(SESSION)

    assert await store.sweep() == 1
    assert files() == []


async def test_a_single_segment_is_compacted_only_if_something_may_go(store, files):
    await flushed(store, 10, 90)
    assert await store.compact_all(TABLE) is None
    await store.cleanup(TABLE.id, [HIGH])

    done = await store.compact_all(TABLE)

    assert (done.output.rows, done.output.last) == (1, 10)
    assert await store.compact_all(TABLE) is None


async def test_small_segments_are_merged_before_large_ones(store):
    for start in range(4):
        await flushed(store, start)
    large = await flushed(store, *range(100, 200))

    done = await store.compact(TABLE)

    assert [item.rows for item in done.inputs] == [1, 1, 1, 1]
    assert await store.compact(TABLE) is None
    assert await store.segments(TABLE.id, [FULL]) == [large, done.output]


async def test_compaction_leaves_pinned_segments_alone(store):
    first = await flushed(store, 10)
    await store.pin(SESSION, TABLE.id, [FULL])
    second, third = await flushed(store, 20), await flushed(store, 30)

    done = await store.compact_all(TABLE)

    assert done.inputs == (second, third)
    assert [item.id for item in await store.segments(TABLE.id, [FULL])] == [
        first.id,
        done.output.id,
    ]


async def test_a_tombstone_goes_only_after_a_repair_and_only_if_it_hides_nothing(store):
    await flushed(store, 10, timestamp=1)
    await flushed(store, 10, timestamp=2, amount=None)
    assert (await store.compact_all(TABLE)).tombstones_dropped == 0
    await repaired(store, [HIGH])
    assert (await store.compact_all(TABLE)).tombstones_dropped == 0
    await repaired(store, [LOW])
    await store.put(TABLE, rows_at(10, timestamp=1))

    done = await store.compact_all(TABLE)

    assert (done.tombstones_dropped, done.output) == (1, None)
    assert await scanned(store) == []


async def test_cleanup_hides_and_what_comes_back_is_seen(store, files):
    await flushed(store, 10, 90)
    await store.cleanup(TABLE.id, [HIGH])
    assert await scanned(store) == rows_at(10)
    assert await store.get(TABLE, Token(90), "key90") is None

    await store.put(TABLE, rows_at(90))
    await store.flush(TABLE, [FULL])
    assert await scanned(store) == rows_at(10, 90)
    await store.compact_all(TABLE)
    await store.sweep()

    assert await scanned(store) == rows_at(10, 90)
    assert len(files()) == 1


async def test_a_dropped_table_is_gone_with_its_files(store, files):
    await flushed(store, 10)
    await store.put(TABLE, rows_at(20))

    await store.drop(TABLE.id)
    await store.sweep()

    assert await scanned(store) == []
    assert files() == []


async def test_registering_takes_files_as_they_are_and_once(store, tmp_path):
    entry = staged(tmp_path, rows_at(10, 90))
    cut = msgspec.structs.replace(entry, ranges=(LOW,))

    assert await store.register(TABLE, "join-7-mid", [cut]) is True
    assert await store.register(TABLE, "join-7-mid", [cut]) is False

    assert await scanned(store) == rows_at(10)
    (segment,) = await store.segments(TABLE.id, [FULL])
    assert (segment.path, segment.sha256, segment.rows) == (entry.path, entry.sha256, 2)
    with pytest.raises(ImportNameReusedError, match="take a new name"):
        await store.register(TABLE, "join-7-mid", [])
    with pytest.raises(SegmentError, match="registered before under another name"):
        await store.register(TABLE, "join-8-mid", [entry])


async def test_a_job_may_leave_the_hash_to_the_node(store, tmp_path):
    entry = staged(tmp_path, rows_at(10))

    await store.register(TABLE, "x", [msgspec.structs.replace(entry, sha256=None)])

    (segment,) = await store.segments(TABLE.id, [FULL])
    assert segment.sha256 == entry.sha256
    await store.verify(TABLE, [segment])


async def test_an_empty_file_registers_as_no_segment(store, tmp_path):
    assert await store.register(TABLE, "x", [staged(tmp_path, [])]) is True
    assert await store.segments(TABLE.id, [FULL]) == []


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"size_bytes": 1}, SegmentSizeError),
        ({"sha256": "0" * 64}, SegmentChecksumError),
        ({"path": "staged/9/none.parquet"}, SegmentMissingError),
        ({"path": "segments/7/x.parquet"}, SegmentError),
        ({"path": "staged/../../node.sqlite"}, SegmentError),
    ],
)
async def test_registering_a_wrong_file_takes_none(store, tmp_path, change, error):
    good, bad = staged(tmp_path, rows_at(10)), staged(tmp_path, rows_at(20), "two")
    wrong = msgspec.structs.replace(bad, **change)

    with pytest.raises(error):
        await store.register(TABLE, "x", [good, wrong])
    assert await scanned(store) == []

    assert await store.register(TABLE, "x", [good, bad]) is True
    assert await scanned(store) == rows_at(10, 20)


async def test_registering_needs_the_columns_of_the_table(store, tmp_path):
    other = msgspec.structs.replace(TABLE, columns=(Column("amount", ColumnType.STRING),))
    entry = staged(tmp_path, [row(1, "a", 1, None)], table=other)

    with pytest.raises(SegmentUnreadableError, match="amount is string"):
        await store.register(TABLE, "x", [entry])


async def test_what_was_staged_and_never_registered_is_swept(store, tmp_path, files):
    kept, lost = staged(tmp_path, rows_at(10)), staged(tmp_path, rows_at(20), "two")
    other = staged(tmp_path, rows_at(30), session=SessionId(10))
    await store.register(TABLE, "x", [kept])

    gone = await store.sweep_staged([SessionId(10)].__contains__)

    assert gone == [lost.path]
    assert files() == sorted([kept.path, other.path])


async def test_orphans_are_swept_at_start(store, tmp_path, files):
    segment = await flushed(store, 10)
    orphan = tmp_path / "data" / "segments" / "7" / "half.parquet"
    orphan.write_bytes(b"PAR1")

    assert await store.sweep_orphans() == ["segments/7/half.parquet"]
    assert files() == [segment.path]


@pytest.mark.parametrize(
    ("number", "error"), [(errno.ENOSPC, DiskFullError), (errno.EIO, DiskFailedError)]
)
async def test_a_disk_that_fails_while_flushing_loses_nothing(
    store, files, monkeypatch, number, error
):
    await store.put(TABLE, rows_at(10, 20))

    def fail(_self, _data):
        raise OSError(number, "no")

    with monkeypatch.context() as broken:
        broken.setattr(Hashed, "write", fail)
        with pytest.raises(error):
            await store.flush(TABLE, [FULL])
    assert files() == []
    assert await scanned(store) == rows_at(10, 20)

    await store.flush(TABLE, [FULL])
    assert await scanned(store) == rows_at(10, 20)
    assert len(files()) == 1


async def test_sizes_are_estimated_and_counted(store):
    await store.put(TABLE, rows_at(*range(1, 101)))
    await store.flush(TABLE, [FULL])
    await store.put(TABLE, rows_at(1, timestamp=2, amount=None))

    size = await store.estimate(TABLE, [LOW])
    count = await store.count(TABLE, [LOW])

    assert size.rows == 51
    assert size.size_bytes > 0
    assert (count.rows, count.tombstones) == (49, 1)


async def test_a_reader_never_sees_a_row_missing_twice_or_old(store):
    """While rows are flushed, compacted and their old files are swept."""
    tokens = range(40)
    await store.put(TABLE, rows_at(*tokens))
    stopped = asyncio.Event()
    newest = 1

    async def read():
        while not stopped.is_set():
            least = newest
            found = await store.scan(TABLE, [FULL])
            assert [item.token for item in found.rows] == list(tokens)
            assert min(item.timestamp for item in found.rows) >= least
            one = await store.get(TABLE, Token(7), "key7")
            assert one.timestamp >= least

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(read())
        for turn in range(2, 14):
            await store.put(TABLE, rows_at(*tokens, timestamp=turn))
            newest = turn
            await store.flush(TABLE, [FULL])
            if turn % 3 == 0:
                await store.compact_all(TABLE)
            await store.sweep()
        stopped.set()


def test_a_folder_is_named_by_path_or_uri(tmp_path):
    for name in (str(tmp_path), tmp_path.as_uri()):
        folder = folder_at(name)
        with folder.written("a") as sink:
            sink.write(pa.py_buffer(b"xyz"))
        assert (tmp_path / "a").read_bytes() == b"xyz"
        folder.delete("a")


def test_a_folder_lists_only_what_is_below(tmp_path):
    folder = Folder(fs.LocalFileSystem(), str(tmp_path))
    assert folder.files("nowhere") == []
    with folder.written("a/b/c") as sink:
        sink.write(pa.py_buffer(b"xyz"))
    assert folder.files("a") == ["a/b/c"]
    assert folder.size_bytes("a/b/c") == 3
    folder.delete("a/b/c")
    folder.delete("a/b/c")
    assert folder.size_bytes("a/b/c") is None
    with pytest.raises(StoreError), folder.written("a/x"):
        raise OSError(errno.ENOSPC, "full")
    assert folder.files("a") == []


def test_a_folder_that_cannot_be_listed_is_named(tmp_path):
    class Refusing:
        def get_file_info(self, _selector):
            raise OSError(errno.EIO, "a bad disk")

    with pytest.raises(DiskFailedError, match=f"{tmp_path}/staged cannot be read"):
        Folder(Refusing(), str(tmp_path)).files("staged")


def test_folders_may_come_and_go_while_they_are_listed(tmp_path):
    """A cancelled job removes what it staged, and its last tasks make it again."""
    over = threading.Event()

    def come_and_go():
        while not over.is_set():
            (tmp_path / "staged" / "9" / "part").mkdir(parents=True)
            shutil.rmtree(tmp_path / "staged")

    folder = folder_at(str(tmp_path))
    with ThreadPoolExecutor(1) as threads:
        job = threads.submit(come_and_go)
        try:
            for _ in range(3000):
                assert folder.files("staged") == []
                folder.folders("staged")
        finally:
            over.set()
        job.result()


def test_a_file_that_is_swept_before_it_is_on_disk_is_missing(tmp_path):
    with pytest.raises(SegmentMissingError, match=r"staged/7/a\.parquet was removed"):
        folder_at(str(tmp_path)).sync("staged/7/a.parquet")
