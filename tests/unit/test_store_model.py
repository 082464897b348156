"""Whatever is done to a store, it holds what a dictionary would hold."""

from __future__ import annotations

import pytest

from tests.store_model import live


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
