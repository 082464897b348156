"""A CMS and nodes over real HTTP and a real Postgres, in one process, for tests that break them."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, closing
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec
from aiohttp import web

from client.client import Client
from client.proposals import Proposal, new_entry_id
from log.batch import Stamp
from log.postgres import PostgresLog
from log.postgres_sessions import Sessions
from metadata.epoch import Epoch
from services.cms.engine import running as engine_running
from services.cms.http import serve
from services.cms.reports.postgres import postgres_stores
from services.http.limits import HttpLimits
from services.http.serving import Address
from services.local.ports import ADDRESS, HeldPorts
from services.local.waiting import until
from services.node.running import FILE, running
from services.settings import Listen, NodeSettings
from snapshots.postgres import PostgresSnapshots
from transformations.extensions import SetExtension
from transformations.initialize import Initialize, TriggerSnapshot

TIMEOUT_S = 30.0
QUICK = HttpLimits(slice_s=0.05, bookmark_interval_s=0.1)


class House:
    """One address at which a CMS answers, or does not."""

    def __init__(self, postgres_dsn, ports, folder):
        self.dsn = postgres_dsn
        self.engine: Any = None
        self._ports = ports
        self._folder = folder
        self._cms_port = ports.hold()
        self._stack = AsyncExitStack()

    @property
    def url(self):
        return f"http://{ADDRESS}:{self._cms_port}"

    @property
    def applied(self):
        return self.engine.applied

    async def open_cms(self, dsn=None):
        """Start a CMS over this database, at the address that nodes know."""
        stack = self._stack
        sessions = Sessions(dsn or self.dsn)
        stack.push_async_callback(sessions.close)
        store, snapshots = PostgresLog(sessions), PostgresSnapshots(sessions)
        self.engine = await stack.enter_async_context(
            engine_running(
                "cms-1",
                store,
                snapshots,
                lambda: Stamp("cms-1", _now_us()),
                stores=postgres_stores(sessions),
            )
        )
        where = Address(port=self._cms_port)
        await stack.enter_async_context(serve(self.engine, tokens=None, where=where, limits=QUICK))

    async def close_cms(self):
        await self._stack.aclose()
        self.engine = None

    async def found(self, name="test"):
        async with Client(self.url) as client:
            await client.commit(Initialize(name=name))

    async def commit(self, transformation):
        async with Client(self.url) as client:
            return await client.commit(transformation)

    async def commit_many(self, count, names=7):
        """So many entries, which leave little metadata behind; gives the tip."""
        async with Client(self.url) as client:
            for start in range(0, count, 500):
                batch = [
                    Proposal(
                        transformation=SetExtension(name=f"e{number % names}", value=uuid4().hex),
                        entry_id=new_entry_id(),
                    )
                    for number in range(start, min(count, start + 500))
                ]
                outcomes = await client.commit_batch(batch)
        return outcomes[-1].epoch

    async def take_snapshot(self):
        """Ask for one and wait until it is stored; gives its epoch."""
        epoch = (await self.commit(TriggerSnapshot())).epoch
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                listed = await self.engine.snapshot_epochs()
                if listed and listed[0].epoch >= epoch:
                    return listed[0].epoch
                await asyncio.sleep(0.02)

    async def heard_of(self, number, epoch):
        """Wait until this node has reported this epoch."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                heard = await self.engine.reporting.stores.reports.heard()
                if any(each.node == number and each.epoch >= epoch for each in heard):
                    return
                await asyncio.sleep(0.02)

    def settings(self, name, *, notify=False, folder=None, **more):
        port = more.pop("port", None) or self._ports.hold()
        return msgspec.structs.replace(
            NodeSettings(
                name=name,
                state_dir=self._folder / (folder or name),
                seeds=(self.url,),
                listen=Listen(host=ADDRESS, port=port, is_shared=False),
                advertised=f"{ADDRESS}:{port}",
                datacenter="dc1",
                rack="r1",
                dsn=self.dsn if notify else None,
            ),
            **more,
        )


@asynccontextmanager
async def house(dsn, folder):
    """A CMS that serves a cluster, until the block ends."""
    with HeldPorts() as ports:
        made = House(dsn, ports, folder)
        await made.open_cms()
        try:
            await made.found()
            yield made
        finally:
            await made.close_cms()


class Told:
    """A listener that keeps what it was told."""

    def __init__(self):
        self.changes = []

    def __call__(self, change):
        self.changes.append(change)

    @property
    def steps(self):
        return [(change.previous.epoch, change.metadata.epoch) for change in self.changes]


@asynccontextmanager
async def node(settings):
    """A node that runs; a listener that is added at once hears of all that it publishes."""
    async with running(settings) as made:
        yield made


async def known(subject):
    await until(lambda: subject.engine.node is not None, timeout_s=TIMEOUT_S)


async def reached(subject, epoch):
    assert await subject.engine.reached(Epoch(epoch), TIMEOUT_S), (
        subject.engine.applied.metadata.epoch,
        epoch,
        subject.engine.following.standing,
    )


async def same(subject, applied):
    """The node has exactly this version."""
    await reached(subject, applied.metadata.epoch)
    found = subject.engine.applied
    assert (found.metadata.epoch, found.metadata.digest, found.hash) == (
        applied.metadata.epoch,
        applied.metadata.digest,
        applied.hash,
    )


async def get(url, **headers):
    """Status, and the body read as JSON where it is."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with aiohttp.ClientSession() as session, session.get(url, headers=named) as response:
        is_json = response.content_type.endswith("json")
        return response.status, await (response.json() if is_json else response.read())


def sql(settings, statement, *values):
    """What somebody does to the file of a node that is down."""
    with closing(sqlite3.connect(settings.state_dir / FILE)) as connection, connection:
        return connection.execute(statement, values).fetchall()


class Between:
    """An address that passes requests on to another, counts them, and may change the answers."""

    def __init__(self, target):
        self.target = target
        self.counts: Counter[str] = Counter()
        self.twist = None

    async def answer(self, request):
        self.counts[request.path] += 1
        body = await request.read()
        skipped = {"Host", "Content-Length", "Accept-Encoding"}
        headers = {k: v for k, v in request.headers.items() if k not in skipped}
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                request.method, f"{self.target}{request.path_qs}", data=body, headers=headers
            ) as response,
        ):
            found = web.Response(
                status=response.status,
                body=await response.read(),
                headers={"Content-Type": response.headers.get("Content-Type", "")},
            )
        return found if self.twist is None else self.twist(request, found)


@asynccontextmanager
async def serving(answer):
    """Any path, answered by one coroutine; gives the address."""
    server = web.Server(answer)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, ADDRESS, 0)
        await site.start()
        yield f"{ADDRESS}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _now_us():
    return int(time.time() * 1_000_000)
