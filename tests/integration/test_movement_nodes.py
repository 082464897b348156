"""A real driver moves rows between real nodes over HTTP, while they are written and read."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from functools import partial

import pytest

from metadata.directory import NodeId
from metadata.locks import SequenceId
from metadata.tokens import FULL, Token
from sequences.driver import World
from sequences.errands import Errands, Workers
from sequences.status import Board
from services.driver.cleaning import NodeCleaner
from services.driver.cluster import LiveCluster
from services.driver.copying import Tools
from services.driver.data_nodes import HttpDataNodes
from services.driver.links import linked
from services.driver.moving import OpenSessions, SparkMover
from services.driver.nodes import NodeCalls
from services.driver.repairing import Repairer
from services.driver.watermarks import NodeWatermarks
from services.duties import busy
from services.local.waiting import until
from services.settings import DriverSettings, Listen
from tests.fixtures.spark import nothing_runs
from tests.integration.data_cluster import data_cluster
from tests.integration.test_data_movement import eventually
from transformations.ending import CancelSequence
from transformations.join import PrepareJoin
from transformations.replace import PrepareReplace
from transformations.sessions import Errand, OpenSession

pytestmark = pytest.mark.asyncio(loop_scope="session")

TIMEOUT_S = 60.0
ROWS = 120


@asynccontextmanager
async def driving(spark, made):
    """A driver as a process would run it, with the warm Spark of the tests."""
    settings = DriverSettings(
        name="driver-1",
        seeds=(made.home.url,),
        listen=Listen(host="127.0.0.1", port=0, is_shared=False),
        spark_master="local[2]",
    )
    clock = asyncio.get_running_loop().time
    async with linked(settings) as links:
        calls = NodeCalls(links.nodes, lambda: links.follower.metadata)
        tools = Tools(spark, HttpDataNodes(calls), OpenSessions(links.client))
        cluster = LiveCluster(links.follower, links.client, "driver-1")
        mover, board = SparkMover(tools, clock), Board()
        world = World(
            cluster,
            NodeWatermarks(calls),
            mover,
            clock,
            lambda _failures: 0.2,
            lambda _quiet: 0.2,
        )
        workers = Workers(NodeCleaner(calls), Repairer(tools, cluster.newest, clock))
        errands = Errands(world, workers, board, print)

        async def drive():
            await links.follower.in_touch()
            await errands.run()

        async with busy((links.follower.run(), drive())):
            yield board


def is_over(made):
    metadata = made.home.applied.metadata
    return not metadata.sequences.in_progress and not metadata.sessions.open


def has_no_files(folder):
    return not any(files for _, _, files in os.walk(folder))


async def finished(made, board):
    try:
        await until(partial(is_over, made), timeout_s=TIMEOUT_S)
    except TimeoutError:
        pytest.fail(f"stuck: {board.all()}")
    await made.everywhere(made.home.applied.metadata.epoch)


async def begun(spark, tag, made):
    """Until a job with this tag runs."""
    async with asyncio.timeout(TIMEOUT_S):
        while not (await spark.tasks(tag)).all:
            assert not is_over(made), "it was over before a job was seen"
            await asyncio.sleep(0.01)


async def put_many(made, first, last, number=1):
    for index in range(first, last):
        status, body = await made.put(f"key{index}", {"a_bigint": index}, number=number)
        assert status == 200, body


async def check_all_there(made, last, number=1):
    for index in range(last):
        status, body = await made.get(f"key{index}", number=number)
        assert status == 200, (index, body)
        assert body["columns"]["a_bigint"] == index


async def test_a_node_joins_under_writes(warm_spark, database, tmp_path):
    async with data_cluster(database, tmp_path, nodes=3, factor=2, spare=1) as made:
        await put_many(made, 0, ROWS)
        async with driving(warm_spark, made) as board:
            await made.commit(PrepareJoin(node=NodeId(4), tokens=(Token(0), Token(2**62))))
            await asyncio.gather(put_many(made, ROWS, ROWS + 40), finished(made, board))

        await check_all_there(made, ROWS + 40, number=4)
        held = await made.nodes[4].plane.store.count(made.table(), [FULL])
        owned = sum(4 in made.owners(f"key{index}") for index in range(ROWS + 40))
        assert held.rows == owned > 0


async def test_a_dead_node_is_replaced_by_what_the_others_have(warm_spark, database, tmp_path):
    async with data_cluster(database, tmp_path, nodes=3, factor=3, spare=1) as made:
        await put_many(made, 0, ROWS)
        await made.stop(2)
        # Acknowledged by the two that are left.
        await put_many(made, ROWS, ROWS + 20)
        async with driving(warm_spark, made) as board:
            prepare = PrepareReplace(node=NodeId(4), replaced=NodeId(2), dead=(NodeId(2),))
            await made.commit(prepare)
            await finished(made, board)

        held = await made.nodes[4].plane.store.count(made.table(), [FULL])
        assert held.rows == ROWS + 20
        await check_all_there(made, ROWS + 20, number=4)


async def test_a_cancelled_join_leaves_no_rows_and_no_files(warm_spark, database, tmp_path):
    async with data_cluster(database, tmp_path, nodes=3, factor=2, spare=1) as made:
        await put_many(made, 0, ROWS)
        async with driving(warm_spark, made) as board:
            prepared = await made.commit(PrepareJoin(node=NodeId(4), tokens=(Token(0),)))
            tag = f"sequence-{prepared.epoch}"
            await begun(warm_spark, tag, made)
            await made.commit(CancelSequence(sequence=SequenceId(prepared.epoch)))
            await finished(made, board)

        await nothing_runs(warm_spark, tag)
        folder = made.settings(4).state_dir / "data" / "staged"
        await until(partial(has_no_files, folder), timeout_s=TIMEOUT_S)
        held = await made.nodes[4].plane.store.count(made.table(), [FULL])
        assert (held.rows, held.tombstones) == (0, 0)
        await check_all_there(made, ROWS)


async def no_tombstones(made, number):
    """Of what the node holds after a compaction; it needs that nothing is pinned any more."""
    store = made.nodes[number].plane.store
    await store.compact_all(made.table())
    return (await store.count(made.table(), [FULL])).tombstones == 0


async def test_a_repair_lets_tombstones_go(warm_spark, database, tmp_path):
    async with data_cluster(database, tmp_path, nodes=3, factor=3) as made:
        await put_many(made, 0, 20)
        for index in range(20, 30):
            assert (await made.delete(f"key{index}", query="?consistency=all"))[0] == 200
        async with driving(warm_spark, made) as board:
            nodes = tuple(map(NodeId, (1, 2, 3)))
            opening = OpenSession(purpose=Errand.REPAIR, nodes=nodes, ranges=(FULL,))
            await made.commit(opening)
            await finished(made, board)

        for number in nodes:
            await eventually(partial(no_tombstones, made, number))
        await check_all_there(made, 20)
