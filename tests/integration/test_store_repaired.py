"""Which files of a node a repair covers, and which tombstones may go then."""

from __future__ import annotations

import pytest

from metadata.tokens import FULL, MINIMUM, Range, Token
from tests.store_model import SESSION, TABLE, live, repaired, rows_at, scanned, staged, store_in

LOW, HIGH = Range(MINIMUM, Token(50)), Range(Token(50), MINIMUM)


async def flushed(store, *tokens, **values):
    await store.put(TABLE, rows_at(*tokens, **values))
    (segment,) = await store.flush(TABLE, [FULL])
    return segment


async def test_a_repair_covers_what_it_has_read_and_brought_and_nothing_else(tmp_path):
    """Somebody else may have read and brought other things under the same session."""
    async with store_in(tmp_path) as store:
        before = await flushed(store, 10, amount=None)
        await store.pin(SESSION, TABLE.id, [FULL])
        later = await flushed(store, 20, amount=None)
        await store.pin(SESSION, TABLE.id, [FULL])
        strange = await flushed(store, 30, amount=None)
        brought, other = (
            staged(tmp_path, rows_at(token, amount=None), name)
            for token, name in ((60, "a"), (70, "b"))
        )
        await store.register(TABLE, "repair", [brought])
        await store.register(TABLE, "repair of another", [other])

        marked = await store.cover(SESSION, [LOW, HIGH], {before.path, strange.path, brought.path})

        assert marked == 2
        found = {item.path: item.repaired for item in await store.segments(TABLE.id, [FULL])}
        assert found == {
            before.path: (FULL,),
            later.path: (),
            strange.path: (),
            brought.path: (FULL,),
            other.path: (),
        }


@pytest.mark.parametrize(
    ("tokens", "timestamp", "dropped"),
    [
        ((5, 15), 3, 1),
        ((5, 15), 2, 0),
        ((5, 15), 1, 0),
        ((11, 15), 1, 1),
        ((5, 9), 1, 1),
        ((10,), 1, 0),
    ],
)
async def test_a_tombstone_goes_beside_segments_that_have_nothing_older_there(
    tmp_path, tokens, timestamp, dropped
):
    """A node that is written to has newer ones at any time; they must not keep it for ever."""
    async with store_in(tmp_path) as store:
        await flushed(store, *tokens, timestamp=timestamp)
        await store.pin(SESSION, TABLE.id, [FULL])
        await flushed(store, 10, timestamp=1)
        await flushed(store, 10, timestamp=2, amount=None)
        await repaired(store, session=SESSION + 1)

        done = await store.compact_all(TABLE)

        assert done.tombstones_dropped == dropped
        left = rows_at(*tokens, timestamp=timestamp)
        if not dropped:
            left = [item for item in left if item.token != 10]
            left += rows_at(10, timestamp=2, amount=None)
        assert await scanned(store) == sorted(left, key=lambda item: item.token)


@pytest.mark.parametrize("seed", range(41, 44))
async def test_whatever_goes_nothing_that_was_deleted_comes_back(tmp_path, seed, monkeypatch):
    """Timestamps grow as they do in life, so that tombstones go at other times than all at once."""
    for name in ("segments.GROUP_ROWS_MAX", "compaction.WINDOW_ROWS_MAX", "compaction.INPUTS_MIN"):
        monkeypatch.setattr(f"store.{name}", 2)
    monkeypatch.setattr("store.compaction.INPUTS_MAX", 3)

    model = await live(tmp_path, seed=seed, steps=150, reopen_each=50, is_ageing=True)

    assert model.dropped > 0
