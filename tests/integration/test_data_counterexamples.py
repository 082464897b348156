"""Orders of steps, writes and reads by which rows could be lost: here they are not."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

import pytest

from client.answers import Committed, Rejected
from metadata.barriers import Evidence, Level
from metadata.directory import NodeId
from metadata.plans import Step
from metadata.tokens import FULL, Token
from services.local.waiting import until
from services.node.data.ownership import written_of
from tests.builders import STEPS, honest_receipts
from tests.integration.data_cluster import data_cluster, held_back, stuck
from tests.integration.nodes import TIMEOUT_S, reached
from tests.integration.test_data_movement import eventually
from tests.integration.test_data_sequences import barrier, copied, moved, sequence_of
from tests.integration.test_movement_nodes import driving, finished
from transformations.ending import CancelSequence, RetireSequence
from transformations.join import PrepareJoin
from transformations.leave import PrepareLeave
from transformations.replace import PrepareReplace
from transformations.sessions import CloseSession, Errand, OpenSession

WHOLE = [{"left": FULL.left, "right": FULL.right}]
KEYS = [f"k{number}" for number in range(60)]
REPLACING = PrepareReplace(node=NodeId(4), replaced=NodeId(3))


@pytest.fixture
async def four(database, tmp_path):
    """Nodes 1, 2 and 3 own everything; node 4 is spare."""
    async with data_cluster(database, tmp_path, spare=1) as made:
        yield made


def due(cluster, evidence, receipts=()):
    """The transformation that takes the due step."""
    sequence = sequence_of(cluster)
    if sequence.due is Step.RETIRE:
        return RetireSequence(sequence=sequence.id, barrier=evidence)
    kind = STEPS[sequence.kind][(Step.START, Step.MID, Step.FINISH).index(sequence.due)]
    more = {"receipts": receipts} if sequence.due is Step.MID else {}
    return kind(sequence=sequence.id, barrier=evidence, **more)


async def stepped(cluster):
    """Barrier, rows if they are due, and the step, known to everybody."""
    sequence = sequence_of(cluster)
    evidence = await barrier(cluster)
    receipts = await moved(cluster, sequence) if sequence.due is Step.MID else ()
    return await accepted(cluster, due(cluster, evidence, receipts))


async def accepted(cluster, transformation):
    outcome = await cluster.commit(transformation)
    assert isinstance(outcome, Committed), outcome
    return outcome


async def refused(cluster, transformation):
    outcome = await cluster.home.commit(transformation)
    assert isinstance(outcome, Rejected), outcome
    return outcome


def only(*numbers):
    return Evidence(Level.EACH_QUORUM, tuple(map(NodeId, numbers)))


async def walked(cluster, prepare):
    """A whole sequence, of which every step is known to everybody."""
    await accepted(cluster, prepare)
    while cluster.home.applied.metadata.sequences.in_progress:
        await stepped(cluster)


async def known_to(cluster, epoch, *numbers):
    for number in numbers:
        await reached(cluster.nodes[number], epoch)


def flush_of(sequence, **more):
    return {
        "session": sequence.session,
        "epoch": sequence.last_epoch,
        "tables": [1],
        "ranges": WHOLE,
        **more,
    }


async def test_a_write_of_one_owner_before_start_and_of_the_source_after_its_flush(four):
    """The copy would miss it, and so would a quorum of those who read after MID.

    It counts for both: the source is not flushed while it runs, and the coordinator makes it
    again with the owners of now.
    """
    await accepted(four, REPLACING)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(stuck(four.nodes[2], "put"))
        release = await stack.enter_async_context(stuck(four.nodes[3], "put"))
        putting = asyncio.ensure_future(four.put("k", {"a_int": 7}, number=1))
        await until(lambda: four.nodes[3].engine.gate.running > 0, timeout_s=TIMEOUT_S)
        await accepted(four, due(four, await barrier(four)))

        sequence = sequence_of(four)
        status, problem = await four.internal("flush", flush_of(sequence, wait_s=0.05), 3)
        assert (status, problem["code"]) == (503, "not_drained")

        release()
        status, answer = await putting
        assert (status, answer["epoch"]) == (200, sequence.last_epoch)
        assert await four.held(4, "k") is not None, "a quorum without node 2 needs it"


async def test_a_coordinator_that_missed_start_is_refused_by_a_source_that_was_flushed(four):
    """Its write reaches the new owner too, or is not acknowledged."""
    await accepted(four, REPLACING)
    evidence = await barrier(four)
    async with held_back(four.nodes[2]) as release:
        started = await four.home.commit(due(four, evidence))
        await known_to(four, started.epoch, 1, 3, 4)
        sequence = sequence_of(four)
        status, flushed = await four.internal("flush", flush_of(sequence), 3)
        assert (status, flushed["segments"]) == (200, [])

        putting = asyncio.ensure_future(four.put("k", {"a_int": 7}, number=2))
        await until(lambda: four.nodes[2].engine._published.is_awaited, timeout_s=TIMEOUT_S)
        assert await four.held(3, "k") is None
        assert not putting.done()
        release()
        status, answer = await putting
    assert (status, answer["epoch"]) == (200, started.epoch)
    having = {number for number in (1, 2, 4) if await four.held(number, "k") is not None}
    assert len(having) >= 2, "a majority of those who read after MID"


async def test_a_cancel_after_mid_while_one_coordinator_is_still_at_mid(four):
    """It reads node 4, which nobody else does any more: so writes go on to reach it."""
    await accepted(four, REPLACING)
    await stepped(four)
    await stepped(four)
    cancel = CancelSequence(sequence=sequence_of(four).id)
    async with AsyncExitStack() as stack:
        for number in (2, 4):
            await stack.enter_async_context(held_back(four.nodes[number]))
        cancelled = await four.home.commit(cancel)
        await known_to(four, cancelled.epoch, 1, 3)
        async with stuck(four.nodes[2], "put"):
            status, problem = await four.put("k", {"a_int": 7}, number=1)
        assert (status, problem["code"]) == (503, "write_unknown")
        assert (await four.get("k", number=2))[0] in (200, 404), "it was not acknowledged"
        early = await refused(four, due(four, only(1, 3)))
        assert early.code == "barrier_not_passed", "it is retired when the others know"

    async with stuck(four.nodes[2], "put"):
        status, answer = await four.put("k", {"a_int": 8}, number=1)
        assert (status, answer["epoch"]) == (200, cancelled.epoch)
        assert (await four.held(4, "k")) is not None
    await stepped(four)
    assert 4 not in four.writers("k")
    for number in (1, 2, 3):
        assert (await four.get("k", number=number))[1]["columns"]["a_int"] == 8


async def test_a_read_by_a_coordinator_at_mid_finds_what_was_written_after_the_cancel(four):
    await accepted(four, REPLACING)
    await stepped(four)
    await stepped(four)
    async with held_back(four.nodes[2]) as release:
        cancelled = await four.home.commit(CancelSequence(sequence=sequence_of(four).id))
        await known_to(four, cancelled.epoch, 1, 3, 4)
        async with stuck(four.nodes[2], "put"):
            assert (await four.put("k", {"a_int": 7}, number=1))[0] == 200
        async with stuck(four.nodes[1], "get"):
            reading = asyncio.ensure_future(four.get("k", number=2))
            await until(lambda: four.nodes[2].engine._published.is_awaited, timeout_s=TIMEOUT_S)
            release()
            status, found = await reading
    assert (status, found["columns"]["a_int"]) == (200, 7)


async def test_a_cleanup_overtaken_by_the_range_coming_back(database, tmp_path):
    """Not while it is open; and one that comes late finds its session closed."""
    async with data_cluster(database, tmp_path, factor=2, spare=1) as cluster:
        for key in KEYS:
            assert (await cluster.put(key, {"a_int": 1}, query="?consistency=all"))[0] == 200
        before = {key: cluster.owners(key) for key in KEYS}
        await walked(cluster, PrepareJoin(node=NodeId(4), tokens=(Token(0),)))
        loser, lost = next(
            (node, key) for key in KEYS for node in before[key] if node not in cluster.owners(key)
        )
        opening = OpenSession(purpose=Errand.CLEANUP, nodes=(NodeId(loser),), ranges=(FULL,))
        session = (await accepted(cluster, opening)).epoch

        early = await refused(cluster, PrepareLeave(node=NodeId(4)))
        assert early.code == "cleanup_open"

        message = {"session": session, "ranges": WHOLE}
        async with held_back(cluster.nodes[loser]):
            await cluster.home.commit(CloseSession(session=session))
            prepared = await cluster.home.commit(PrepareLeave(node=NodeId(4)))
            assert isinstance(prepared, Committed), prepared
            status, _ = await cluster.internal("cleanup", {**message, "wait_s": 0.05}, loser)
            assert status == 200, "it does not know better, and holds nothing that is its own"
        assert await cluster.held(loser, lost) is None
        while cluster.home.applied.metadata.sequences.in_progress:
            await stepped(cluster)
            late = {**message, "wait_s": 0.05}
            status, problem = await cluster.internal("cleanup", late, loser)
            assert (status, problem["code"]) in [(409, "ranges_reserved"), (409, "no_permit")]
        assert loser in cluster.owners(lost)
        assert await cluster.held(loser, lost) is not None
        for key in KEYS:
            assert (await cluster.get(key, number=loser))[0] == 200


async def test_a_laggard_target_that_has_not_seen_the_session_close(four):
    """What it still imports is done before FINISH, which waits for it by name."""
    assert (await four.put("k", {"a_int": 1}, query="?consistency=all"))[0] == 200
    await accepted(four, REPLACING)
    await stepped(four)
    sequence = sequence_of(four)
    evidence = await barrier(four)
    await moved(four, sequence)
    _, flushed = await four.internal("flush", flush_of(sequence), 3)
    what = (WHOLE, flushed["segments"])
    receipts = honest_receipts(four.home.applied.metadata, sequence)
    async with held_back(four.nodes[4]):
        closed = await four.home.commit(due(four, evidence, receipts))
        await known_to(four, closed.epoch, 1, 2, 3)
        await copied(four, sequence.session, 4, what)

        early = await refused(four, due(four, only(1, 2, 3)))
        assert early.code == "barrier_not_passed"
        assert "not yet by nodes [4]" in early.detail
    await known_to(four, closed.epoch, 4)
    status, _ = await four.internal("staging", {"session": sequence.session}, 4)
    assert status == 409, "it knows now, and takes nothing more"
    await stepped(four)
    assert sequence_of(four).due is Step.RETIRE


async def repaired(cluster, *numbers):
    """These nodes agree on everything, so that no tombstone is needed any more."""
    nodes = tuple(map(NodeId, numbers))
    opening = OpenSession(purpose=Errand.REPAIR, nodes=nodes, ranges=(FULL,))
    session = (await accepted(cluster, opening)).epoch
    flush = {"session": session, "epoch": session, "tables": [1], "ranges": WHOLE}
    for number in numbers:
        status, read = await cluster.internal("flush", flush, number)
        assert status == 200
        mine = written_of(cluster.home.applied.metadata, cluster.table(), NodeId(number))
        ranges = [{"left": span.left, "right": span.right} for span in mine]
        await copied(cluster, session, number, (ranges, read["segments"]))
        _, held = await cluster.internal("flush", flush, number)
        files = [item["path"] for item in held["segments"]]
        assert len(files) == 2 * len(read["segments"])
        message = {"session": session, "ranges": WHOLE, "epoch": session, "files": files}
        status, answer = await cluster.internal("repaired", message, number)
        assert (status, answer["segments"]) == (200, len(files))
    await accepted(cluster, CloseSession(session=session))


async def forgotten(cluster, number, key):
    """Compacted until nothing is left of the key; a node compacts by itself too."""
    store = cluster.nodes[number].plane.store
    await store.compact_all(cluster.table())
    return await cluster.held(number, key) is None


async def test_a_node_that_comes_back_does_not_bring_back_what_was_deleted(database, tmp_path):
    """It left with a row, of which nobody else has even the tombstone any more."""
    joining = PrepareJoin(node=NodeId(4), tokens=(Token(0),))
    async with data_cluster(database, tmp_path, factor=2, spare=1) as cluster:
        for key in KEYS:
            assert (await cluster.put(key, {"a_int": 1}, query="?consistency=all"))[0] == 200
        await walked(cluster, joining)
        mine = next(key for key in KEYS if 4 in cluster.owners(key))
        await walked(cluster, PrepareLeave(node=NodeId(4)))
        assert (await cluster.delete(mine, query="?consistency=all"))[0] == 200
        await repaired(cluster, 1, 2, 3)
        for number in (1, 2, 3):
            await eventually(partial(forgotten, cluster, number, mine))
        assert await cluster.held(4, mine) is not None

        await walked(cluster, joining)

        assert 4 in cluster.owners(mine)
        for number in cluster.nodes:
            assert (await cluster.get(mine, number=number))[0] == 404


@pytest.mark.asyncio(loop_scope="session")
async def test_what_only_the_dead_node_and_one_other_acknowledged(warm_spark, database, tmp_path):
    """Rows and deletes that node 3 has missed: the successor of node 1 has both."""
    async with data_cluster(database, tmp_path, spare=1) as four:
        assert (await four.put("gone", {"a_int": 1}, query="?consistency=all"))[0] == 200
        async with stuck(four.nodes[3], "put"):
            assert (await four.put("new", {"a_int": 2}, number=1))[0] == 200
            assert (await four.delete("gone", number=1))[0] == 200
            await four.stop(1)
            # What node 3 was still asked for is not written by it any more.
            four.nodes[3].plane.store.put = refuse
        assert await four.held(3, "new") is None
        prepare = PrepareReplace(node=NodeId(4), replaced=NodeId(1), dead=(NodeId(1),))
        async with driving(warm_spark, four) as board:
            await four.commit(prepare)
            await finished(four, board)

        assert (await four.held(4, "new")) is not None
        assert (await four.held(4, "gone")).content is None
        await four.stop(2)
        assert (await four.get("gone", number=3))[0] == 404
        assert (await four.get("new", number=3))[1]["columns"]["a_int"] == 2


async def refuse(*_given):
    raise AssertionError
