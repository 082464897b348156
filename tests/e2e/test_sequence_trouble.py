"""What stops a sequence is told at the sequence, loses nothing, and is over with its cause."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from client.answers import Committed
from client.client import Client
from metadata.columns import ColumnType
from metadata.schema import Column, Simple
from metadata.tokens import Token
from services.local.ports import HeldPorts
from tests.e2e.place import a_place
from tests.e2e.spares import Spare
from transformations.join import PrepareJoin
from transformations.schema import CreateKeyspace, CreateTable

SEED = int(os.environ.get("TROUBLE_SEED") or random.randrange(1 << 30))
ROWS = 4_000
ROW_CHARS = 1_000
BATCH = 500
TOKENS = 16
TOLD_TIMEOUT_S = 240.0
OVER_TIMEOUT_S = 180.0
DISK_BYTES = 64 * 1024 * 1024
LEFT_BYTES = 700 * 1024
"""Room for the node's log, and for less than the rows that it gets."""
COLUMNS = (Column("id", ColumnType.STRING), Column("text", ColumnType.STRING))

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town():
    """Three nodes with rows and nobody who drives."""
    print(f"TROUBLE_SEED={SEED}")
    with a_place() as place:
        place.run("up", "--detach", "--port", "0", "--nodes", "3", "--no-driver")
        async with Client(cms_of(place)) as client, aiohttp.ClientSession() as session:
            found = Town(place, client, session)
            await found.commit(CreateKeyspace(name="shop", replication=Simple(3)))
            await found.commit(
                CreateTable(keyspace="shop", name="orders", columns=COLUMNS, partition_key=("id",))
            )
            await found.fill()
            async with contextlib.AsyncExitStack() as found.spares:
                yield found


def cms_of(place):
    return next(item["url"] for item in place.listed() if item["role"] == "cms")


class Town:
    def __init__(self, place, client, session):
        self.place = place
        self.client = client
        self.session = session
        self.spares = contextlib.AsyncExitStack()
        self.random = random.Random(SEED)
        self.rows = {f"key-{number}": self._text() for number in range(ROWS)}

    def _text(self):
        """Nothing that gets smaller by compression."""
        return "".join(self.random.choices("0123456789abcdefghijklmnopqrstuv", k=ROW_CHARS))

    async def commit(self, transformation):
        outcome = await self.client.commit(transformation)
        assert isinstance(outcome, Committed), outcome
        return outcome

    async def fill(self):
        listed = [{"key": key, "columns": {"text": text}} for key, text in self.rows.items()]
        for first in range(0, ROWS, BATCH):
            url = f"{self.place.process('node-1')['url']}/v1/tables/shop/orders/rows"
            body = json.dumps({"rows": listed[first : first + BATCH]})
            headers = {"Content-Type": "application/json"}
            async with self.session.post(url, data=body, headers=headers) as response:
                assert response.status == 200, await response.text()

    async def check_rows(self):
        url = f"{self.place.process('node-2')['url']}/v1/tables/shop/orders/rows"
        for key in self.random.sample(sorted(self.rows), 200):
            async with self.session.get(f"{url}/{key}") as response:
                said = await response.json()
                assert said.get("columns", {}).get("text") == self.rows[key], (key, said)

    def spare(self, folder):
        """Runs until all tests are over: what it has won by one belongs to the next."""
        spare = Spare(folder, cms_of(self.place), folder.name)
        spare.start(set())
        self.spares.push_async_callback(spare.stop)
        return spare

    async def join(self, spare):
        async with asyncio.timeout(TOLD_TIMEOUT_S):
            while not (node := await self._number(spare)):  # noqa: ASYNC110 another process
                await asyncio.sleep(0.1)
        tokens = tuple(Token(self.random.randrange(-(2**63) + 1, 2**63)) for _ in range(TOKENS))
        return (await self.commit(PrepareJoin(node=node, tokens=tokens))).result.sequence

    async def _number(self, spare):
        nodes = (await self.client.component("directory"))["nodes"]
        return next((n["id"] for n in nodes if n["addresses"].get("http") == spare.address), None)

    async def told(self, sequence, *words):
        """Until the sequence says that it is stuck before MID, in these words."""
        said: Any = None
        try:
            async with asyncio.timeout(TOLD_TIMEOUT_S):
                while not is_stuck(said, words):
                    await asyncio.sleep(0.1)
                    said = (await self.seen(sequence))["driver"]
        except TimeoutError:
            pytest.fail(f"{words} was not told: {await self.seen(sequence)}")
        assert said["failures"] >= 1
        assert (await self.seen(sequence))["due"] == "mid"

    async def seen(self, sequence):
        async with self.session.get(f"{cms_of(self.place)}/v1/sequences/{sequence}") as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def over(self, sequence):
        async with asyncio.timeout(OVER_TIMEOUT_S):
            while await self._is_open(sequence):  # noqa: ASYNC110 another process
                await asyncio.sleep(0.1)

    async def _is_open(self, sequence):
        listed = (await self.client.component("sequences"))["sequences"]
        return any(item["id"] == sequence for item in listed)


def is_stuck(said, words):
    return said and said["doing"] == "stuck" and all(word in said["detail"] for word in words)


@contextlib.asynccontextmanager
async def a_driver(town, folder, master):
    """A driver that nobody supervises, with its Spark at this master."""
    folder.mkdir(exist_ok=True)
    with HeldPorts() as ports:
        listen = f"127.0.0.1:{ports.hold()}"
    environment = {
        **{name: text for name, text in os.environ.items() if name[:8] != "RINGLOG_"},
        "RINGLOG_NAME": "driver-9",
        "RINGLOG_SEEDS": cms_of(town.place),
        "RINGLOG_LISTEN": listen,
        "RINGLOG_SPARK_MASTER": master,
        "RINGLOG_STATE_DIR": str(folder),
    }
    with (folder / "log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.driver", env=environment, stderr=log
        )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


@contextlib.contextmanager
def small_disk(folder):
    """A file system of its own, so that it can be full while others are not. Gives why there is
    none, if so."""
    folder.mkdir()
    options = ("-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder))
    mounted = subprocess.run(("mount", *options), capture_output=True, text=True, check=False)
    try:
        yield mounted.stderr.strip() if mounted.returncode else None
    finally:
        if not mounted.returncode:
            subprocess.run(("umount", "--lazy", str(folder)), check=True)


async def test_a_sequence_tells_what_stops_it_and_goes_on_without_it(town, tmp_path):
    """First nobody is where Spark should be, then its target has no room. One sequence for both,
    because every other one would start a cluster's worth of processes again."""
    disk, driver = tmp_path / "disk", tmp_path / "driver"
    no_disk = town.spares.enter_context(small_disk(disk))
    with HeldPorts() as ports:
        nobody = f"spark://127.0.0.1:{ports.hold()}"
    sequence = await town.join(town.spare(disk / "spare-1"))
    ballast = disk / "ballast"
    if no_disk is None:
        ballast.write_bytes(bytes(shutil.disk_usage(disk).free - LEFT_BYTES))

    async with a_driver(town, driver, nobody):
        await town.told(sequence, nobody, "RINGLOG_SPARK_MASTER")

    async with a_driver(town, driver, "local[2]"):
        if no_disk is None:
            await town.told(sequence, "free some space")
            ballast.unlink()
        await town.over(sequence)
    await town.check_rows()
    if no_disk is not None:
        pytest.skip(f"a disk that is full needs the right to mount one: {no_disk}")
