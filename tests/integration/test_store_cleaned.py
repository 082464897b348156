"""What was cleaned away is not kept on disk for ever."""

from __future__ import annotations

import msgspec
import pytest

from metadata.tokens import FULL, MINIMUM, Range, Token
from store.compaction import INPUT_ROWS_MAX, thinned
from store.failures import SegmentError
from store.manifest import Segment
from tests.store_model import SESSION, TABLE, rows_at, scanned, staged, store_in

HIGH = Range(Token(50), MINIMUM)


@pytest.fixture
async def store(tmp_path):
    async with store_in(tmp_path) as found:
        yield found


async def flushed(store, *tokens, **values):
    await store.put(TABLE, rows_at(*tokens, **values))
    (segment,) = await store.flush(TABLE, [FULL])
    return segment


def size_of(tmp_path):
    return sum(path.stat().st_size for path in (tmp_path / "data").rglob("*.parquet"))


async def test_the_disk_is_free_again_after_a_cleanup(store, tmp_path):
    """Although there are too few segments to merge; what is hardly touched is left alone."""
    large = await flushed(store, *range(1000))
    small = await flushed(store, *range(100, 120), timestamp=2)
    before = size_of(tmp_path)
    assert await store.compact(TABLE) is None
    await store.cleanup(TABLE.id, [Range(Token(949), Token(999))])
    assert await store.compact(TABLE) is None
    await store.cleanup(TABLE.id, [Range(Token(109), MINIMUM)])
    wanted = await scanned(store)

    first, second = await store.compact(TABLE), await store.compact(TABLE)

    assert [done.inputs[0].id for done in (first, second)] == [large.id, small.id]
    assert (first.rows_before, first.output.rows) == (1000, 110)
    assert (second.rows_before, second.output.rows) == (20, 10)
    assert await store.compact(TABLE) is None
    await store.sweep()
    assert size_of(tmp_path) < before / 2
    assert await scanned(store) == wanted
    assert len(wanted) == 110


async def test_a_pinned_segment_is_written_again_when_nobody_has_it(store):
    await flushed(store, *range(100))
    await store.pin(SESSION, TABLE.id, [FULL])
    await store.cleanup(TABLE.id, [HIGH])
    assert await store.compact(TABLE) is None
    await store.unpin(SESSION)

    done = await store.compact(TABLE)

    assert (done.rows_before, done.output.rows) == (100, 51)


async def test_an_import_of_many_ranges_hides_nothing(store, tmp_path):
    """Although its tokens lie far apart and it counts only for the ranges between."""
    entry = staged(tmp_path, rows_at(*range(10), *range(10**18, 10**18 + 10)))
    ranges = (Range(Token(-1), Token(9)), Range(Token(10**18 - 1), Token(10**18 + 9)))
    await store.register(TABLE, "join-7-mid", [msgspec.structs.replace(entry, ranges=ranges)])

    assert await store.compact(TABLE) is None


async def test_a_damaged_segment_is_told_of_once(store, tmp_path):
    damaged = await flushed(store, *range(100))
    await store.cleanup(TABLE.id, [HIGH])
    (tmp_path / "data" / damaged.path).write_bytes(b"")

    with pytest.raises(SegmentError, match=damaged.path):
        await store.compact(TABLE)

    assert await store.compact(TABLE) is None
    assert store.damaged == 1


@pytest.mark.parametrize(
    ("counted", "number"),
    [
        ([], None),
        ([(100, 100)], None),
        ([(100, 91)], None),
        ([(100, 90)], 0),
        ([(100, 80), (1000, 500), (10, 6)], 1),
        ([(INPUT_ROWS_MAX * 4, INPUT_ROWS_MAX + 1), (100, 50)], 1),
    ],
)
def test_the_one_with_the_largest_hidden_share_is_written_again(counted, number):
    """If that is worth it, and not more than one compaction takes."""
    found = [(segment(place, rows), left) for place, (rows, left) in enumerate(counted)]

    assert thinned(found) == ([] if number is None else [found[number][0]])


def segment(number, rows):
    return Segment(
        id=number,
        table=TABLE.id,
        path=f"segments/{number}",
        rows=rows,
        size_bytes=rows,
        sha256="",
        first=Token(0),
        last=Token(rows),
        oldest=0,
        newest=0,
    )
