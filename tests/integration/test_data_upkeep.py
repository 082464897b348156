"""What a node does by itself goes on where one table is in trouble."""

from __future__ import annotations

import asyncio
import re

import pytest

from metadata.tokens import FULL
from services.local.waiting import until
from tests.integration.data_cluster import data_cluster
from tests.integration.nodes import TIMEOUT_S
from tests.integration.test_data_movement import eventually
from transformations.schema import CreateTable

HOT_ROWS_MAX = 10


@pytest.fixture
async def alone(database, tmp_path, monkeypatch):
    """One node, which flushes and compacts at the least occasion."""
    monkeypatch.setattr("services.node.data.upkeep.HOT_ROWS_MAX", HOT_ROWS_MAX)
    monkeypatch.setattr("services.node.data.upkeep.UPKEEP_EVERY_S", 0.05)
    monkeypatch.setattr("services.node.data.upkeep.FORGET_EVERY_S", 0.2)
    monkeypatch.setattr("services.node.data.upkeep.COUNT_EVERY_S", 0.1)
    monkeypatch.setattr("store.compaction.INPUTS_MIN", 2)
    async with data_cluster(database, tmp_path, nodes=1, factor=1) as made:
        yield made


async def damaged_by(made):
    """By its own figures, how many files the node cannot read."""
    async with made.session.get(f"{made.nodes[1].url}/metrics") as response:
        text = await response.text()
    return float(re.search(r"^ringlog_damaged_segments (.*)$", text, re.MULTILINE)[1])  # type: ignore[index] # it is there


async def fill(made, table, count):
    for number in range(count):
        status, found = await made.put(f"{number}", {}, table=table)
        assert status == 200, found


async def test_a_damaged_segment_holds_up_nothing_but_its_own_merging(alone):
    plane = alone.nodes[1].plane
    await fill(alone, "t", 1)
    (bad,) = await plane.store.flush(alone.table(), (FULL,))
    path = alone.settings(1).state_dir / "data" / bad.path
    content = await asyncio.to_thread(path.read_bytes)
    await asyncio.to_thread(path.write_bytes, content[:-1])
    columns = alone.table().columns
    await alone.commit(
        CreateTable(keyspace="shop", name="u", columns=columns, partition_key=("id",))
    )
    # The next segment makes two, which are merged, if they can be read.
    await fill(alone, "t", 1)
    await plane.store.flush(alone.table(), (FULL,))

    async def is_counted():
        return await damaged_by(alone) == 1

    await eventually(is_counted)
    await fill(alone, "u", HOT_ROWS_MAX + 1)

    async def is_flushed():
        return bool(await plane.store.segments(alone.table("u").id, (FULL,)))

    await eventually(is_flushed)
    plane.upkeep.figures = {}
    await until(lambda: "shop.t" in plane.upkeep.figures, timeout_s=TIMEOUT_S)

    await asyncio.to_thread(path.write_bytes, content)

    async def is_merged():
        return len(await plane.store.segments(alone.table().id, (FULL,))) == 1

    await eventually(is_merged)
    assert await damaged_by(alone) == 0
