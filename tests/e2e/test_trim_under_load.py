"""A log that is trimmed while it grows and while nodes are behind: nobody misses an entry."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from contextlib import AsyncExitStack, asynccontextmanager
from io import BytesIO
from typing import Any

import aiohttp
import fastavro
import pytest

from audit.keys import save
from audit.reading import open_archive
from client.client import Client
from log.replay import replay
from services.local.ports import ADDRESS, HeldPorts
from tests.archives import KEY
from tests.e2e.cluster import cluster
from tests.e2e.nodes import NodeProcess
from tests.e2e.test_fanout_chaos import Committers, equal, gaps
from tests.fixtures.postgres import server_folder
from tests.integration.trimmed import asked, audit
from transformations.initialize import Initialize

DEADLINE_S = 150.0
COMMITTERS = 2


async def tip_of(subject):
    (row,) = await asked(
        subject.server.dsn, "SELECT coalesce(max(epoch), 0) AS tip FROM log_entries"
    )
    return row["tip"]


async def grown(subject, epoch):
    async with asyncio.timeout(DEADLINE_S):
        while await tip_of(subject) < epoch:  # noqa: ASYNC110 another process
            await asyncio.sleep(0.1)


class Reader:
    """Somebody who reads the whole log over HTTP, from the first entry on, at leisure."""

    def __init__(self, url):
        self.epochs: list[int] = []
        self.is_last_round = False
        self._url = url

    async def run(self):
        """Until there is nothing new in the round that was said to be the last."""
        async with aiohttp.ClientSession() as session:
            found = [0]
            while found or not self.is_last_round:
                found = await self._page(session)
                self.epochs += found

    async def _page(self, session):
        after = self.epochs[-1] if self.epochs else 0
        path = f"{self._url}/v1/log?after={after}&limit=500&wait=1"
        async with session.get(path, headers={"Accept": "application/avro"}) as response:
            body = await response.read()
            assert response.status == 200, body
        records: Any = fastavro.reader(BytesIO(body))
        return [item["epoch"] for item in records]


class Stage:
    """Two CMS on one log, of which the second reads through the archive, and nodes."""

    def __init__(self, subject, folder, ports, stack):
        self.subject = subject
        self.archive = folder / "archive"
        self.key = folder / "log.key"
        self.committers = Committers([cms.url for cms in subject.members], random.Random(7))
        self.nodes: list[NodeProcess] = []
        self._folder = folder
        self._ports = ports
        self._stack = stack

    @property
    def through(self):
        return self.subject.members[1]

    async def prepare(self):
        """The archive that the second one is told of is yet to be made."""
        save(KEY, self.key)
        await self.through.stop()
        self.through._environment["RINGLOG_ARCHIVE"] = str(self.archive)
        await self.through.start()
        await self.through.ready()
        async with Client(self.subject.url) as client:
            await client.commit(Initialize(name="trimmed"))

    async def node(self, cms):
        """One that asks only this CMS, and is told of news by Postgres."""
        name, own = f"node-{len(self.nodes) + 1}", f"{ADDRESS}:{self._ports.hold()}"
        environment = {
            "RINGLOG_NAME": name,
            "RINGLOG_LISTEN": own,
            "RINGLOG_SEEDS": cms.url,
            "RINGLOG_POSTGRES_DSN": self.subject.server.dsn,
        }
        made = NodeProcess(name, self._folder, environment, f"http://{own}")
        self.nodes.append(made)
        self._stack.push_async_callback(made.stop)
        await made.start()
        await made.ready(DEADLINE_S)
        return made

    async def trim(self):
        """Export what there is and let go of it; gives the seam."""
        exported = await audit(
            "export", self.archive, "--sign", self.key, "--url", self.through.url
        )
        assert exported.exit_code == 0, exported.output
        done = await audit(
            *("trim", "--up-to", open_archive(self.archive).tip.epoch, "--archive", self.archive),
            *("--key", f"{self.key}.pub", "--yes", "--json"),
            RINGLOG_POSTGRES_DSN=self.subject.server.dsn,
        )
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)["seam"]

    async def seams(self, sleepers):
        """Trim again and again under load; each time one of the sleepers is woken."""
        found = []
        for number, sleeper in enumerate(sleepers, start=1):
            await grown(self.subject, 1000 * number + 200)
            found.append(await self.trim())
            os.kill(sleeper.pid, signal.SIGCONT)
        return found

    async def judge(self):
        """Every node has the log's end, and published each entry or said that it jumped."""
        exported = await audit("export", self.archive, "--url", self.through.url)
        assert exported.exit_code == 0, exported.output
        whole = open_archive(self.archive)
        await equal(self.nodes, replay(whole.entries(whole.after.epoch, whole.tip.epoch)))
        jumps = {}
        for node in self.nodes:
            lives = node.published()
            jumps[node.name] = sum(each.is_jump for life in lives for each in life.versions)
            assert [gap for life in lives for gap in gaps(life)] == [], node.name
            assert not {line.state for line in node.noted("standing")} & {"diverged", "stopped"}
        return jumps


@asynccontextmanager
async def staged():
    async with AsyncExitStack() as stack:
        ports = stack.enter_context(HeldPorts())
        folder = stack.enter_context(server_folder())
        subject = await stack.enter_async_context(
            cluster(2, more={"RINGLOG_PARTITION_EPOCHS": "1000"})
        )
        stage = Stage(subject, folder, ports, stack)
        await stage.prepare()
        yield stage


@pytest.mark.timeout(400)
async def test_trimming_under_load_while_nodes_are_behind():
    """Nodes that slept go on, one that comes anew as well, and a reader gets every entry."""
    async with staged() as stage:
        without, through = stage.subject.members
        await stage.node(without)
        sleepers = [await stage.node(through), await stage.node(without)]
        reader = Reader(through.url)
        async with asyncio.TaskGroup() as group:
            for _ in range(COMMITTERS):
                group.create_task(stage.committers.run())
            group.create_task(reader.run())
            for each in sleepers:
                os.kill(each.pid, signal.SIGSTOP)
            seams = await stage.seams(sleepers)
            stage.committers.stopping.set()
            await stage.node(without)
            reader.is_last_round = True
        jumps = await stage.judge()
        counts = dict(stage.committers.counts)
        (row,) = await asked(
            stage.subject.server.dsn,
            "SELECT min(epoch) AS first, max(epoch) AS tip FROM log_entries",
        )

    print(f"seams={seams} rows={dict(row)} commits={counts} read={len(reader.epochs)} {jumps}")
    assert seams == sorted(set(seams))
    assert row["first"] == seams[-1] + 1 >= 2000
    assert reader.epochs == list(range(1, len(reader.epochs) + 1))
    assert len(reader.epochs) > seams[-1]
    # A neighbour that never slept may hand on what the log has let go; who comes anew knows none.
    assert jumps["node-3"] <= jumps["node-4"] == 1
