"""What is tried again and again costs the nodes no more than what is tried once."""

from __future__ import annotations

from functools import partial

import pytest

from metadata.epoch import Epoch
from metadata.sessions import SessionId
from metadata.tokens import FULL, Range, Token
from movement.spark import SparkUnreachableError
from sequences.ports import WorkError
from store import handed
from tests.builders import only_sequence
from tests.integration.data_cluster import data_cluster
from tests.integration.moving_nodes import store_nodes
from tests.integration.test_data_counterexamples import (
    REPLACING,
    accepted,
    due,
    flush_of,
)
from tests.integration.test_data_movement import eventually
from tests.integration.test_data_sequences import barrier, sequence_of
from tests.integration.test_movement_repair import opened, repairer
from tests.integration.test_movement_spark import cluster, fill, joining, mover_of
from tests.store_model import TABLE, rows_at, store_in
from transformations.ending import CancelSequence

SESSION = SessionId(9)
LOW, HIGH = Range(FULL.left, Token(0)), Range(Token(0), FULL.right)
TRIES = 5


@pytest.fixture
async def four(database, tmp_path):
    """Nodes 1, 2 and 3 own everything; node 4 is spare."""
    async with data_cluster(database, tmp_path, spare=1) as made:
        yield made


async def test_a_movement_that_is_tried_again_makes_no_more_segments(four):
    """Rows go on coming in; those are written to the target too, and are in no copy."""
    for number in range(20):
        assert (await four.put(f"k{number}", {"a_int": number}))[0] == 200
    await accepted(four, REPLACING)
    await accepted(four, due(four, await barrier(four)))
    wanted = flush_of(sequence_of(four))
    status, first = await four.internal("flush", wanted, 3)
    assert (status, len(first["segments"])) == (200, 1)

    for number in range(TRIES):
        assert (await four.put(f"late{number}", {"a_int": number}))[0] == 200
        assert await four.internal("flush", wanted, 3) == (200, first)

    store = four.nodes[3].plane.store
    assert len(await store.segments(1, [FULL])) == 1
    sequence = sequence_of(four)
    await accepted(four, CancelSequence(sequence=sequence.id, barrier=await barrier(four)))

    async def is_forgotten():
        return await store.pinning() == []

    await eventually(is_forgotten)


@pytest.fixture
async def store(tmp_path):
    async with store_in(tmp_path) as made:
        yield made


async def hand(store, ranges, epoch):
    """As a node does it: the note is in the transaction of the pins."""
    note = partial(
        handed.note, session=SESSION, table=TABLE.id, epoch=Epoch(epoch), ranges=tuple(ranges)
    )
    await store.flush(TABLE, ranges)
    return tuple(await store.pin(SESSION, TABLE.id, ranges, note))


async def test_a_session_gets_again_what_it_got_and_nothing_that_came_later(store):
    await store.put(TABLE, rows_at(-5, 5))
    found = await hand(store, [LOW], 12)
    await store.put(TABLE, rows_at(-6, timestamp=3))
    await store.flush(TABLE, [FULL])

    part = Range(Token(-10), Token(-1))
    assert await store.handed(SESSION, TABLE.id, [part]) == handed.Handed(Epoch(12), found)
    assert await store.handed(SESSION, TABLE.id, [FULL]) is None
    assert await store.handed(SessionId(8), TABLE.id, [part]) is None

    await hand(store, [HIGH], 15)
    again = await store.handed(SESSION, TABLE.id, [FULL])
    assert (again.epoch, len(again.segments)) == (12, 2)


async def test_what_is_cleaned_was_handed_to_nobody(store):
    """A range that comes back has other rows than those that were pinned of it."""
    await store.put(TABLE, rows_at(-5, 5))
    await hand(store, [FULL], 12)

    await store.cleanup(TABLE.id, [LOW])

    assert await store.handed(SESSION, TABLE.id, [LOW]) is None
    assert await store.handed(SESSION, TABLE.id, [HIGH]) is not None


async def test_a_session_without_rows_is_forgotten_too(store):
    await hand(store, [FULL], 12)
    assert await store.pinning() == [SESSION]

    await store.unpin(SESSION)

    assert await store.pinning() == []
    assert await store.handed(SESSION, TABLE.id, [FULL]) is None


class NoSpark:
    async def warm(self):
        raise SparkUnreachableError("Spark is away.")


async def test_nobody_flushes_for_a_spark_that_is_not_there(tmp_path):
    async with store_nodes(tmp_path, joining()) as nodes:
        await fill(nodes, rows=20)

        with pytest.raises(WorkError, match="Spark is away"):
            await mover_of(NoSpark(), nodes).move(nodes.metadata, only_sequence(nodes.metadata))

        assert nodes.flushed == []


async def test_nobody_flushes_for_a_repair_that_cannot_be(tmp_path):
    async with store_nodes(tmp_path, cluster()) as nodes:
        await fill(nodes, rows=20)
        session = opened(nodes)

        with pytest.raises(WorkError, match="Spark is away"):
            await repairer(NoSpark(), nodes).repair(nodes.metadata, session)
        nodes.down.add(3)
        with pytest.raises(WorkError, match="node 3 does not answer: a repair needs") as told:
            await repairer(NoSpark(), nodes).repair(nodes.metadata, session)

        assert told.value.nodes == (3,)
        assert nodes.flushed == []
