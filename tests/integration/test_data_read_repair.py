"""A read brings the newest version to those who own the row when it is answered."""

from __future__ import annotations

import asyncio
import time

import pytest

from metadata.directory import NodeId
from metadata.replicas import replicas_of
from metadata.tokens import Token
from services.local.waiting import until
from store.keys import key_of
from store.rows import row_of
from tests.integration.data_cluster import data_cluster, held_back, stuck
from tests.integration.test_data_counterexamples import accepted, due, known_to
from tests.integration.test_data_sequences import barrier
from transformations.join import UnsafeJoin
from transformations.replace import PrepareReplace

KEYS = [f"k{number}" for number in range(200)]


@pytest.fixture
async def four(database, tmp_path):
    """Nodes 1, 2 and 3 own everything; node 4 is spare."""
    async with data_cluster(database, tmp_path, spare=1) as made:
        yield made


async def test_a_read_repairs_only_those_who_own_the_row_by_now(database, tmp_path, monkeypatch):
    """Its owners change while one of them is being asked."""
    monkeypatch.setattr("services.node.data.rounds.PATIENCE_S", 60)
    async with data_cluster(database, tmp_path, nodes=4, spare=1) as cluster:
        joining = UnsafeJoin(node=NodeId(5), tokens=(Token(0),), accept_loss="a test")
        key, holder, asked, lost = owners_to_be(cluster, joining)
        partitioner = cluster.home.applied.metadata.cluster.partitioner
        now_us = int(time.time() * 1_000_000)
        newer = row_of(cluster.table(), partitioner, key, columns={"a_int": 2}, timestamp=now_us)
        await cluster.nodes[holder].plane.store.put(cluster.table(), [newer])

        async with stuck(cluster.nodes[asked], "get") as release:
            reading = asyncio.ensure_future(cluster.get(key, number=holder))
            await until(lambda: cluster.nodes[asked].engine.gate.running > 0, timeout_s=5)
            tip = (await cluster.commit(joining)).epoch
            release()
            status, found = await reading

        assert (status, found["columns"]["a_int"], found["epoch"]) == (200, 2, tip)
        assert await cluster.held(lost, key) is None
        having = {number for number in cluster.nodes if await cluster.held(number, key) == newer}
        assert len(having & {asked, 5}) >= 1
        assert having <= {holder, asked, 5}


async def test_a_read_repairs_though_its_coordinator_has_missed_start(four):
    """START changes who is written to, but not who is read: only the repair is refused."""
    await accepted(four, PrepareReplace(node=NodeId(4), replaced=NodeId(3)))
    evidence = await barrier(four)
    partitioner = four.home.applied.metadata.cluster.partitioner
    now_us = int(time.time() * 1_000_000)
    newer = row_of(four.table(), partitioner, "k", columns={"a_int": 2}, timestamp=now_us)
    await four.nodes[1].plane.store.put(four.table(), [newer])

    async with held_back(four.nodes[1]) as release:
        started = await four.home.commit(due(four, evidence))
        await known_to(four, started.epoch, 2, 3, 4)
        reading = asyncio.ensure_future(four.get("k", number=1))
        await until(lambda: four.nodes[1].engine._published.is_awaited, timeout_s=5)
        assert not reading.done()
        release()
        status, found = await reading

    assert (status, found["columns"]["a_int"]) == (200, 2)
    having = {number for number in four.nodes if await four.held(number, "k") == newer}
    assert len(having & {1, 2, 3}) >= 2
    assert len(having & {1, 2, 4}) >= 2


def owners_to_be(cluster, joining):
    """A key that the new node takes from one owner, with one who keeps it and is asked first."""
    metadata = cluster.home.applied.metadata
    outcome = joining.execute(metadata)
    before = {key: cluster.owners(key) for key in KEYS}
    for key, owners in before.items():
        after = owners_in(cluster, outcome.after, key)
        kept = [node for node in owners if node in after]
        (lost,) = set(owners) - set(after) or (None,)
        if lost is not None and owners[-1] == lost:
            return key, kept[0], kept[1], lost
    raise AssertionError("no such key")


def owners_in(cluster, metadata, key):
    token = key_of(cluster.table(), metadata.cluster.partitioner, key).token
    found = replicas_of(metadata, "shop", token)
    assert found is not None
    return found.readers
