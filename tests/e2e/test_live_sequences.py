"""Sequences under live traffic: a quorum read never misses an acknowledged quorum write."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import sys

import aiohttp
import pytest
import pytest_asyncio

from client.answers import Committed
from client.client import Client
from metadata.columns import ColumnType
from metadata.directory import NodeId
from metadata.schema import Column, Simple
from services.local.ports import HeldPorts
from services.node.running import FILE
from tests.e2e.place import a_place
from tests.e2e.traffic import Traffic
from transformations.ending import CancelSequence
from transformations.join import PrepareJoin
from transformations.leave import PrepareLeave
from transformations.move import PrepareMove
from transformations.replace import PrepareReplace
from transformations.schema import CreateKeyspace, CreateTable

SEED = int(os.environ.get("LIVE_SEED") or random.randrange(1 << 30))
SEQUENCE_TIMEOUT_S = 240.0
SWEPT_TIMEOUT_S = 90.0
"""Longer than a node leaves alone what a job staged after its session was closed."""
BEGUN = 100
"""So many rows are written before anything happens."""
PAUSE_S = 0.005
"""After each request: without it the clients leave little of the machine to what they watch."""
COLUMNS = (
    Column("id", ColumnType.STRING),
    Column("version", ColumnType.BIGINT),
    Column("text", ColumnType.STRING),
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town():
    """Four nodes and a driver; a keyspace with three copies, one table, and rows."""
    print(f"LIVE_SEED={SEED}")
    with a_place() as place:
        place.run("up", "--detach", "--port", "0", "--nodes", "4")
        cms = next(item["url"] for item in place.listed() if item["role"] == "cms")
        async with Client(cms) as client:
            found = Town(place, client)
            await found.commit(CreateKeyspace(name="shop", replication=Simple(3)))
            await found.commit(
                CreateTable(keyspace="shop", name="orders", columns=COLUMNS, partition_key=("id",))
            )
            yield found


class Town:
    def __init__(self, place, client):
        self.place = place
        self.client = client
        self.random = random.Random(SEED)
        self.left = set()

    async def commit(self, transformation):
        outcome = await self.client.commit(transformation)
        assert isinstance(outcome, Committed), outcome
        return outcome

    async def directory(self):
        return (await self.client.component("directory"))["nodes"]

    async def joined(self):
        return {node["id"] for node in await self.directory() if node["state"] == "joined"}

    async def sequences(self):
        return (await self.client.component("sequences"))["sequences"]

    async def over(self, sequence):
        """Wait until a sequence is gone, and its session with it."""
        async with asyncio.timeout(SEQUENCE_TIMEOUT_S):
            while not await self._is_over(sequence):  # noqa: ASYNC110 another process
                await asyncio.sleep(0.1)

    async def _is_over(self, sequence):
        if any(item["id"] == sequence for item in await self.sequences()):
            return False
        return not (await self.client.component("sessions"))["sessions"]

    async def known_at(self, address):
        """The number of the node at an address, if the directory has it."""
        nodes = await self.directory()
        return next((n["id"] for n in nodes if n["addresses"].get("http") == address), None)

    def urls(self):
        """Of the nodes that serve rows; one that has left runs on and sends people away."""
        found = [item["url"] for item in self.place.listed() if item["role"] == "node"]
        return [url for url in found if url not in self.left]

    async def url_of(self, number):
        node = next(item for item in await self.directory() if item["id"] == number)
        address = node["addresses"]["http"]
        return next(url for url in self.urls() if url.endswith(address))

    @contextlib.contextmanager
    def paused(self, name):
        """One process stands still while the block runs."""
        pid = self.place.process(name)["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    async def scale(self, nodes):
        await asyncio.to_thread(self.place.run, "scale", "--nodes", str(nodes))


@contextlib.asynccontextmanager
async def traffic(town, urls=None):
    """Reads and writes while the block runs; afterwards nothing may have gone wrong."""
    found = Traffic(urls or town.urls, "shop.orders", town.random.randrange(1 << 30))
    task = asyncio.create_task(found.run(pause_s=PAUSE_S))
    try:
        async with asyncio.timeout(30):
            while found.counts["written"] < BEGUN:
                assert not task.done()
                await asyncio.sleep(0.05)
        yield found
    finally:
        found.stop()
        await task
    keys = await found.verify()
    print(f"{dict(found.counts)}, {keys} keys, failed: {dict(found.complaints)}")
    assert found.violations == []
    assert found.counts["written"] > BEGUN


def new_tokens(town, count=8):
    return tuple(town.random.randrange(-(2**63) + 1, 2**63) for _ in range(count))


async def test_a_node_joins(town):
    async with traffic(town):
        await town.scale(5)

    assert len(await town.joined()) == 5


async def test_a_node_moves(town):
    async with traffic(town):
        outcome = await town.commit(PrepareMove(node=NodeId(2), tokens=new_tokens(town)))
        await town.over(outcome.result.sequence)


async def tokens_of(town, node):
    ring = (await town.client.component("ring"))["tokens"]
    return [int(item["token"]) for item in ring if item["node"] == node]


def nudged(tokens, place):
    """The same tokens, one of them a little further on: few ranges are touched by that."""
    return (*tokens[:place], tokens[place] + (1 << 40), *tokens[place + 1 :])


async def prepared_beside(town, node):
    """A second move that has nothing to do with the first, found by asking the CMS."""
    tokens = await tokens_of(town, node)
    for place in range(len(tokens)):
        move = PrepareMove(node=NodeId(node), tokens=nudged(tokens, place))
        outcome = await town.client.commit(move)
        if isinstance(outcome, Committed):
            return outcome.result.sequence
        assert outcome.code == "ranges_locked", outcome
    return pytest.fail("nothing can be moved beside the first")


async def test_two_sequences_that_do_not_touch_run_side_by_side(town):
    async with traffic(town):
        # Nobody takes a step before both are prepared: the first might be over by then.
        with town.paused("driver-1"):
            tokens = nudged(await tokens_of(town, 2), 0)
            first = (await town.commit(PrepareMove(node=NodeId(2), tokens=tokens))).result.sequence
            second = await prepared_beside(town, 3)
            assert {item["id"] for item in await town.sequences()} == {first, second}
        await town.over(first)
        await town.over(second)


async def driven_now(town):
    """What the driver is doing, as it says itself."""
    url = f"{town.place.process('driver-1')['url']}/v1/sequences"
    async with aiohttp.ClientSession() as session, session.get(url) as found:
        return (await found.json())["sequences"]


def is_copying(driven):
    return any((item["moved"] or {}).get("phase") == "copying" for item in driven)


async def kinds_of(town, sequence):
    """What the log has of a sequence, in order."""
    found = await town.client.entries(after=sequence - 1)
    return [
        sealed.kind
        for sealed in found
        if sequence in (sealed.epoch, getattr(sealed.entry.transformation, "sequence", None))
    ]


def holds(folder):
    """What a node has of any table, and what was staged there."""
    with contextlib.closing(sqlite3.connect(f"file:{folder / FILE}?mode=ro", uri=True)) as db:
        (hot,) = db.execute("SELECT count(*) FROM store_rows").fetchone()
        (cold,) = db.execute("SELECT count(*) FROM store_segments WHERE NOT removed").fetchone()
    staged = [path for path in (folder / "data" / "staged").rglob("*") if path.is_file()]
    return hot, cold, staged


async def test_a_join_is_cancelled_while_rows_are_copied(town, tmp_path):
    """The job ends, the session is closed, and of all that was on its way nothing is left."""
    async with traffic(town), spare_node(town, tmp_path) as (spare, pid):
        prepared = await town.commit(PrepareJoin(node=spare, tokens=new_tokens(town)))
        sequence = prepared.result.sequence
        async with asyncio.timeout(SEQUENCE_TIMEOUT_S):
            while not is_copying(await driven_now(town)):  # noqa: ASYNC110 another process
                await asyncio.sleep(0.02)
        # So that nothing is imported before the cancel is in the log.
        os.kill(pid, signal.SIGSTOP)
        try:
            (found,) = await town.sequences()
            assert (found["id"], found["due"]) == (sequence, "mid")
            assert found["session"] is not None
            await town.commit(CancelSequence(sequence=sequence))
        finally:
            os.kill(pid, signal.SIGCONT)
        await town.over(sequence)

        kinds = await kinds_of(town, sequence)
        assert kinds == ["PrepareJoin", "StartJoin", "CancelSequence", "RetireSequence"]
        assert await driven_now(town) == []
        async with asyncio.timeout(SWEPT_TIMEOUT_S):
            while holds(tmp_path) != (0, 0, []):  # noqa: ASYNC110 another process
                await asyncio.sleep(0.1)
    assert spare not in await town.joined()


async def test_a_node_that_is_up_leaves(town):
    """It is asked for rows to its end; what it had comes from itself."""
    url, before = await town.url_of(4), await town.joined()
    async with traffic(town):
        outcome = await town.commit(PrepareLeave(node=NodeId(4)))
        await town.over(outcome.result.sequence)
        town.left.add(url)

    assert await town.joined() == before - {4}


async def test_a_node_that_does_not_answer_is_removed(town):
    """A leave whose node is declared dead: what it had comes from the others."""
    node = next(item for item in await town.directory() if item["id"] == 5)
    process = next(
        item for item in town.place.listed() if item["url"].endswith(node["addresses"]["http"])
    )
    others = [url for url in town.urls() if url != process["url"]]
    before = await town.joined()
    os.kill(process["pid"], signal.SIGSTOP)
    try:
        async with traffic(town, lambda: others):
            outcome = await town.commit(PrepareLeave(node=NodeId(5), dead=(NodeId(5),)))
            await town.over(outcome.result.sequence)
    finally:
        os.kill(process["pid"], signal.SIGCONT)

    assert await town.joined() == before - {5}
    town.left.add(process["url"])


@contextlib.asynccontextmanager
async def spare_node(town, folder):
    """A node that nobody supervises: registered, owning nothing. Its number, and its process."""
    cms = next(item["url"] for item in town.place.listed() if item["role"] == "cms")
    with HeldPorts() as ports:
        port = ports.hold()
    environment = {
        **os.environ,
        "RINGLOG_NAME": "spare",
        "RINGLOG_STATE_DIR": str(folder),
        "RINGLOG_SEEDS": cms,
        "RINGLOG_LISTEN": f"127.0.0.1:{port}",
    }
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.node", env=environment, stderr=log
        )
    try:
        address = f"127.0.0.1:{port}"
        async with asyncio.timeout(60):
            while not (found := await town.known_at(address)):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        yield found, process.pid
    finally:
        process.terminate()
        await process.wait()


async def test_a_dead_node_is_replaced(town, tmp_path):
    """The new node has every acknowledged row, also those that only the dead one and one other
    had: all owners that are left are merged."""
    dead = town.place.process("node-1")
    others = [url for url in town.urls() if url != dead["url"]]
    one = NodeId(1)
    async with spare_node(town, tmp_path) as (spare, _):
        os.kill(dead["pid"], signal.SIGSTOP)
        try:
            async with traffic(town, lambda: others):
                outcome = await town.commit(PrepareReplace(node=spare, replaced=one, dead=(one,)))
                await town.over(outcome.result.sequence)
        finally:
            os.kill(dead["pid"], signal.SIGCONT)
