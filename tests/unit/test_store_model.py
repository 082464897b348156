"""Whatever is done to a store, it holds what a dictionary would hold."""

from __future__ import annotations

from functools import partial

import pytest

from store import hot
from store.failures import StoreError
from tests.store_model import TABLE, live, row, store_in


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Everything that comes in groups, pages and windows comes in many of them."""
    monkeypatch.setattr("store.segments.GROUP_ROWS_MAX", 2)
    monkeypatch.setattr("store.flushing.FLUSHED_ROWS_MAX", 5)
    monkeypatch.setattr("store.flushing.PAGE_ROWS_MAX", 3)
    monkeypatch.setattr("store.flushing.FORGOTTEN_ROWS_MAX", 2)
    monkeypatch.setattr("store.compaction.WINDOW_ROWS_MAX", 3)
    monkeypatch.setattr("store.compaction.INPUTS_MIN", 2)
    monkeypatch.setattr("store.store.COUNTED_ROWS_MAX", 4)


async def test_a_store_agrees_with_a_dictionary(tmp_path):
    await live(tmp_path, seed=1, steps=20, reopen_each=10)


async def test_writes_are_counted_with_their_rows(tmp_path):
    """Neither one without the other, and a file that is opened again counts on."""

    def refuse(_connection):
        raise StoreError("no")

    for opened in (0, 1):
        async with store_in(tmp_path) as store:
            count = partial(store._means.database.read, hot.writes)
            assert await count() == 3 * opened
            for number in range(3):
                await store.put(TABLE, [row(5, "a", 1), row(6, "b", number)])
            with pytest.raises(StoreError):
                await store.put(TABLE, [row(7, "c", 1)], refuse)
            assert await count() == 3 * opened + 3
