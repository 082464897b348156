"""The cluster that people look at: real processes, tokens on, a table with rows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import aiohttp

from client.answers import Committed, Rejected
from client.client import Client
from metadata.barriers import Evidence, Level
from metadata.columns import ColumnType
from metadata.directory import NodeId
from metadata.locks import SequenceId
from metadata.schema import Column, Simple
from metadata.tokens import Token
from services.local.ports import HeldPorts
from tests.e2e.place import a_place
from transformations.ending import CancelSequence
from transformations.extensions import SetExtension
from transformations.join import PrepareJoin, StartJoin
from transformations.leave import PrepareLeave
from transformations.move import PrepareMove
from transformations.schema import CreateKeyspace, CreateTable

NODES = 3
ROWS = 600
ROWS_REQUEST_MAX = 1_000
SPARE_TIMEOUT_S = 60.0
SEQUENCE_TIMEOUT_S = 240.0
POLL_S = 0.1
COLUMNS = (
    Column("id", ColumnType.STRING),
    Column("amount", ColumnType.BIGINT),
    Column("text", ColumnType.STRING),
)


class Stack:
    """A running cluster, and what tests do to it beside the browser."""

    def __init__(self, place, client, tokens):
        self.place = place
        self.client = client
        self.tokens = tokens

    @property
    def url(self):
        return next(item["url"] for item in self.place.listed() if item["role"] == "cms")

    async def commit(self, transformation, **more):
        outcome = await self.client.commit(transformation, **more)
        assert isinstance(outcome, Committed), outcome
        return outcome

    async def tip(self):
        return (await self.client.component("cluster"))["epoch"]

    async def directory(self):
        return (await self.client.component("directory"))["nodes"]

    async def sequences(self):
        return (await self.client.component("sequences"))["sequences"]

    async def until_over(self, sequence, timeout_s=SEQUENCE_TIMEOUT_S):
        async with asyncio.timeout(timeout_s):
            while any(  # noqa: ASYNC110 another process
                item["id"] == sequence for item in await self.sequences()
            ):
                await asyncio.sleep(POLL_S)

    async def until_clean(self):
        """Nobody drops rows any more that it has no range for."""
        async with asyncio.timeout(SEQUENCE_TIMEOUT_S):
            while (await self.get("/v1/sequences"))["sessions"]:  # noqa: ASYNC110 other processes
                await asyncio.sleep(POLL_S)

    async def put_rows(self, count):
        node = next(item["url"] for item in self.place.listed() if item["role"] == "node")
        headers = {"Authorization": f"Bearer {self.tokens['operator']}"}
        path = "/v1/tables/shop/orders/rows?consistency=quorum"
        async with aiohttp.ClientSession(node, headers=headers) as session:
            for first in range(0, count, ROWS_REQUEST_MAX):
                rows = [
                    {"key": f"order-{number}", "columns": {"amount": number, "text": "x" * 40}}
                    for number in range(first, min(count, first + ROWS_REQUEST_MAX))
                ]
                async with session.post(path, json={"rows": rows}) as response:
                    assert response.status == 200, await response.text()

    async def touch(self):
        """Any entry, so that the tip moves."""
        return (await self.commit(SetExtension(name="touched", value="again"), actor="bob")).epoch

    async def refused(self, transformation):
        """Why a commit is not made."""
        outcome = await self.client.commit(transformation)
        assert isinstance(outcome, Rejected), outcome
        return outcome

    async def begin_join(self, node):
        """Prepare a join with proposed tokens; gives the number of the sequence."""
        found = await self.get(f"/v1/tokens?node={node}&count=4")
        tokens = tuple(map(Token, map(int, found["tokens"])))
        outcome = await self.commit(PrepareJoin(node=NodeId(node), tokens=tokens), actor="ann")
        return outcome.result.sequence

    async def start_join(self, sequence):
        """Its next step, as a driver takes it once every node has applied the one before."""
        async with asyncio.timeout(SEQUENCE_TIMEOUT_S):
            while not (barrier := await self._barrier(sequence))["passed"]:  # noqa: ASYNC110 other processes
                await asyncio.sleep(POLL_S)
        applied = {NodeId(node) for group in barrier["groups"] for node in group["applied"]}
        evidence = Evidence(Level(barrier["level"]), tuple(sorted(applied)))
        await self.commit(StartJoin(sequence=SequenceId(sequence), barrier=evidence), actor="ann")

    async def _barrier(self, sequence):
        return (await self.get(f"/v1/sequences/{sequence}"))["barrier"]

    async def begin_leave(self, node):
        outcome = await self.commit(PrepareLeave(node=NodeId(node)), actor="ann")
        return outcome.result.sequence

    async def begin_move(self, node, tokens):
        wanted = tuple(map(Token, tokens))
        outcome = await self.commit(PrepareMove(node=NodeId(node), tokens=wanted), actor="ann")
        return outcome.result.sequence

    async def knows_rate(self):
        """Whether a plan tells how long it takes: some driver told how fast rows were moved."""
        wanted = {"transformation": {"kind": "PrepareMove", "node": 1, "tokens": ["1"]}}
        headers = {"Authorization": f"Bearer {self.tokens['viewer']}"}
        async with (
            aiohttp.ClientSession(self.url, headers=headers) as session,
            session.post("/v1/plan", json=wanted) as response,
        ):
            assert response.status == 200, await response.text()
            plan = await response.json()
            assert plan["outcome"] == "accepted", plan
            return plan["rows_per_s"] is not None

    async def cancel(self, sequence):
        await self.client.commit(CancelSequence(sequence=SequenceId(sequence)))

    async def get(self, path):
        headers = {"Authorization": f"Bearer {self.tokens['viewer']}"}
        async with (
            aiohttp.ClientSession(self.url, headers=headers) as session,
            session.get(path) as response,
        ):
            assert response.status == 200, await response.text()
            return await response.json()

    @contextlib.contextmanager
    def paused(self, name):
        """A process that does nothing for a while; gives what lets it go on earlier."""
        pid = self.place.process(name)["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield lambda: os.kill(pid, signal.SIGCONT)
        finally:
            os.kill(pid, signal.SIGCONT)

    @contextlib.asynccontextmanager
    async def waiting_join(self, name):
        """A join that no driver carries on; it is turned back in the end. Gives node and number."""
        async with self.spare(name) as node:
            with self.paused("driver-1"):
                sequence = await self.begin_join(node)
                try:
                    yield node, sequence
                finally:
                    await self.cancel(sequence)
            await self.until_over(sequence)

    @contextlib.asynccontextmanager
    async def spare(self, name):
        """A node that is registered and owns nothing; gives its number."""
        with tempfile.TemporaryDirectory(prefix="ringlog-spare-") as folder:
            address = _free_address()
            environment = {
                **self.place.environment,
                "RINGLOG_NAME": name,
                "RINGLOG_STATE_DIR": folder,
                "RINGLOG_SEEDS": self.url,
                "RINGLOG_LISTEN": address,
                "RINGLOG_TOKENS_FILE": str(self.place.path / "tokens.json"),
            }
            log = Path(folder, "log").open("wb")  # noqa: ASYNC230, SIM115 closed below
            with contextlib.closing(log):
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "services.node", env=environment, stderr=log
                )
                try:
                    yield await self._known_at(address)
                finally:
                    process.terminate()
                    await process.wait()

    async def _known_at(self, address):
        async with asyncio.timeout(SPARE_TIMEOUT_S):
            while (found := await self._number_at(address)) is None:  # noqa: ASYNC110 another process
                await asyncio.sleep(POLL_S)
            return found

    async def _number_at(self, address):
        nodes = await self.directory()
        return next((node["id"] for node in nodes if address in node["addresses"].values()), None)


@contextlib.asynccontextmanager
async def a_stack(rows=ROWS):
    with a_place() as place:
        up = ("up", "--detach", "--port", "0", "--nodes", str(NODES), "--tokens", "--name", "shop")
        await asyncio.to_thread(place.run, *up)
        tokens = json.loads((place.path / "tokens.json").read_text())
        cms = next(item["url"] for item in place.listed() if item["role"] == "cms")
        async with Client(cms, tokens["admin"]) as client:
            stack = Stack(place, client, tokens)
            await _furnish(stack, rows)
            yield stack


async def _furnish(stack, rows):
    await stack.commit(
        CreateKeyspace(name="shop", replication=Simple(2)), actor="ann", reason="the shop opens"
    )
    await stack.commit(CreateKeyspace(name="archive", replication=Simple(3)), actor="ann")
    await stack.commit(
        CreateTable(keyspace="shop", name="orders", columns=COLUMNS, partition_key=("id",)),
        actor="ann",
    )
    await stack.commit(SetExtension(name="motd", value="welcome"), actor="bob")
    await stack.put_rows(rows)


def _free_address():
    with HeldPorts() as ports:
        return f"127.0.0.1:{ports.hold()}"
