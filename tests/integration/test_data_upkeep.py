"""What a node does by itself goes on where one table is in trouble."""

from __future__ import annotations

import asyncio
import re

import msgspec
import pytest

from metadata.tokens import FULL
from services.http.data_messages import REPLICA_WRITE_PATH, ReplicaWrite
from services.local.waiting import until
from store.failures import InvalidRowError
from store.rows import encoded, row_of
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


async def sent(made, row):
    """As another node would."""
    metadata = made.home.applied.metadata
    message = ReplicaWrite(epoch=metadata.epoch, table=made.table().id, rows=(row,))
    headers = {"Ringlog-Cluster": metadata.cluster.id, "Ringlog-To": "1"}
    url = f"{made.nodes[1].url}{REPLICA_WRITE_PATH}"
    body = msgspec.msgpack.encode(message)
    async with made.session.post(url, data=body, headers=headers) as response:
        return response.status, await response.read()


def made_by(cluster, **changes):
    partitioner = cluster.home.applied.metadata.cluster.partitioner
    row = row_of(cluster.table(), partitioner, "k", columns={"a_int": 1}, timestamp=1)
    return msgspec.structs.replace(row, **changes)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"content": b"\xc1"}, "cannot be read"),
        ({"content": encoded({"a_int": "many"})}, "columns.a_int"),
        ({"content": encoded({"a_timestamp": "2026-01-01"})}, "not stored as a timestamp"),
        ({"table": 99}, "of table 99, not of t"),
    ],
    ids=["no content", "another type", "as JSON has it", "another table"],
)
async def test_a_replica_takes_no_row_that_could_not_be_flushed(alone, changes, told):
    status, body = await sent(alone, made_by(alone, **changes))

    assert status == 400, body
    assert msgspec.json.decode(body)["code"] == "malformed"
    assert told in body.decode()
    assert await alone.held(1, "k") is None
    assert (await sent(alone, made_by(alone)))[0] == 200


async def test_a_row_that_cannot_be_flushed_ends_nothing_else(alone):
    """One that an older release has let in."""
    plane = alone.nodes[1].plane
    await plane.store.put(alone.table(), [made_by(alone, content=b"\xc1")])
    with pytest.raises(InvalidRowError, match="cannot be written to a segment"):
        await plane.store.flush(alone.table(), (FULL,))
    columns = alone.table().columns
    await alone.commit(
        CreateTable(keyspace="shop", name="u", columns=columns, partition_key=("id",))
    )
    await fill(alone, "t", HOT_ROWS_MAX + 1)
    await fill(alone, "u", HOT_ROWS_MAX + 1)

    async def is_flushed():
        return bool(await plane.store.segments(alone.table("u").id, (FULL,)))

    await eventually(is_flushed)
    assert (await alone.get("1"))[0] == 200


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
