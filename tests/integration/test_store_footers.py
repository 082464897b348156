"""The end of a segment, which says what lies where: no page's checksum covers it."""

from __future__ import annotations

import hashlib
import random
import sqlite3
from contextlib import closing

import pyarrow.parquet as pq
import pytest

from metadata.tokens import FULL, Token
from store.failures import SegmentChecksumError, SegmentUnreadableError
from store.imports import Staged
from tests.store_model import SESSION, TABLE, row, rows_at, scanned, staged, store_in

FLIPS = 200
TRAILER_BYTES = 8


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr("store.segments.GROUP_ROWS_MAX", 10)


async def flushed(folder):
    async with store_in(folder) as store:
        await store.put(TABLE, rows_at(*range(100)))
        (segment,) = await store.flush(TABLE, [FULL])
    return folder / "data" / segment.path


def flipped(data, rng):
    """With one bit of the footer changed."""
    length = int.from_bytes(data[-TRAILER_BYTES:-4], "little") + TRAILER_BYTES
    place = rng.randrange(len(data) - length, len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


@pytest.mark.parametrize("seed", [1])
async def test_a_changed_footer_hides_no_row_and_ends_no_process(tmp_path, seed):
    """It may name other tokens, and then rows are skipped, or be such that Arrow aborts."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    path = await flushed(tmp_path)
    data = path.read_bytes()
    for _ in range(FLIPS):
        path.write_bytes(flipped(data, rng))
        async with store_in(tmp_path) as store:
            with pytest.raises(SegmentChecksumError, match="another checksum"):
                await store.get(TABLE, Token(35), "key35")
            with pytest.raises(SegmentChecksumError, match="another checksum"):
                await scanned(store)

    path.write_bytes(data)
    async with store_in(tmp_path) as store:
        assert await scanned(store) == rows_at(*range(100))


async def test_the_footer_of_an_import_is_kept_in_mind(tmp_path):
    entry = staged(tmp_path, rows_at(*range(100)))
    path = tmp_path / "data" / entry.path
    data = path.read_bytes()
    rng = random.Random(1)
    async with store_in(tmp_path) as store:
        path.write_bytes(flipped(data, rng))
        with pytest.raises(SegmentChecksumError, match=entry.path):
            await store.register(TABLE, "x", [entry])
        path.write_bytes(data)
        assert await store.register(TABLE, "x", [entry]) is True
    path.write_bytes(flipped(data, rng))
    async with store_in(tmp_path) as store:
        with pytest.raises(SegmentChecksumError, match=entry.path):
            await scanned(store)


async def test_a_file_without_tokens_is_refused(tmp_path):
    path = tmp_path / "data" / "staged" / str(SESSION) / "bare.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pq.read_table(await flushed(tmp_path)).drop_columns(["_token"]), path)
    data = path.read_bytes()
    entry = Staged(
        path=f"staged/{SESSION}/bare.parquet",
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )
    async with store_in(tmp_path) as store:
        with pytest.raises(SegmentUnreadableError, match="_token"):
            await store.register(TABLE, "x", [entry])


async def test_a_segment_of_a_release_that_kept_no_footers_is_read(tmp_path):
    await flushed(tmp_path)
    with closing(sqlite3.connect(tmp_path / "node.sqlite")) as connection, connection:
        connection.execute("DROP TABLE store_footers")

    async with store_in(tmp_path) as store:
        assert await scanned(store) == rows_at(*range(100))
        await store.put(TABLE, [row(5, "key5", 2)])
        await store.flush(TABLE, [FULL])
        done = await store.compact_all(TABLE)
        assert done.output.footer is not None
        assert len(await scanned(store)) == 100


async def test_what_is_known_of_a_footer_goes_with_the_segment(tmp_path):
    await flushed(tmp_path)
    async with store_in(tmp_path) as store:
        await store.cleanup(TABLE.id, [FULL])
        await store.sweep()
    with closing(sqlite3.connect(tmp_path / "node.sqlite")) as connection:
        assert connection.execute("SELECT * FROM store_footers").fetchall() == []
