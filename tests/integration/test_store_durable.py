"""What the manifest names is on disk by then, and what is acknowledged is too."""

from __future__ import annotations

from pathlib import Path

import pytest

from metadata.tokens import FULL
from store import folder
from tests.store_model import SESSION, TABLE, rows_at, scanned, staged, store_in

FULLY_SYNCED = 2


@pytest.fixture
def synced(monkeypatch):
    """What was brought to disk, by when it last was, and how large it was then."""
    places: dict[Path, int] = {}

    def noting(place):
        bring(place)
        places.pop(Path(place), None)
        places[Path(place)] = Path(place).stat().st_size

    bring = folder._fsync
    monkeypatch.setattr(folder, "_fsync", noting)
    return places


async def flush(store, _tmp_path, guard):
    (made,) = await store.flush(TABLE, [FULL], guard)
    return made


async def compact(store, _tmp_path, guard):
    for timestamp in (1, 2):
        await store.put(TABLE, rows_at(10, timestamp=timestamp))
        await store.flush(TABLE, [FULL])
    return (await store.compact_all(TABLE, guard)).output


async def take_over(store, tmp_path, guard):
    entry = staged(tmp_path, rows_at(20))
    await store.register(TABLE, "x", [entry], guard)
    (made,) = await store.segments(TABLE.id, [FULL])
    return made


@pytest.mark.parametrize("publish", [flush, compact, take_over])
async def test_a_file_and_the_way_to_it_are_on_disk_before_it_is_published(
    tmp_path, synced, publish
):
    """The guard runs in the transaction that publishes it."""
    before = {}
    async with store_in(tmp_path) as store:
        await store.put(TABLE, rows_at(10))
        made = await publish(store, tmp_path, lambda _connection: before.update(synced))

    path = tmp_path / "data" / made.path
    assert before[path] == made.size_bytes == path.stat().st_size
    way = [item for item in path.parents if item.is_relative_to(tmp_path)]
    assert len(way) == 4
    assert set(way) <= before.keys()
    assert list(before).index(path) < list(before).index(path.parent)


async def test_a_write_waits_for_the_disk(tmp_path):
    def asked(connection):
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
        assert (synchronous, journal) == (FULLY_SYNCED, "wal")

    async with store_in(tmp_path) as store:
        await store.put(TABLE, rows_at(10), asked)


async def test_an_import_that_is_cut_off_is_taken_whole_the_next_time(tmp_path):
    """After the files were looked at and before they are published."""

    class CutOffError(Exception):
        pass

    async def cut(point):
        if point == "import-checked":
            raise CutOffError

    files = [staged(tmp_path, rows_at(token), f"part{token}") for token in (10, 20)]
    async with store_in(tmp_path, reached=cut) as store:
        with pytest.raises(CutOffError):
            await store.register(TABLE, "x", files)
        assert await scanned(store) == []
    async with store_in(tmp_path) as store:
        assert await store.sweep_staged([SESSION].__contains__) == []
        assert await store.register(TABLE, "x", files) is True
        assert await scanned(store) == rows_at(10, 20)
