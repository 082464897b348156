"""Nodes with tables over real HTTP and a real Postgres, in one process, for tests of their data."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from io import BytesIO
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from metadata.columns import ColumnType
from metadata.directory import NodeId
from metadata.replicas import replicas_of
from metadata.schema import Column, Simple
from metadata.tokens import Token
from services.local.waiting import until
from store.keys import key_of
from tests.integration.nodes import TIMEOUT_S, house, known, node, reached
from transformations.join import UnsafeJoin
from transformations.schema import CreateKeyspace, CreateTable

COLUMNS = tuple(Column(f"a_{kind}", kind) for kind in ColumnType)
"""One of each type, beside the key."""


class DataCluster:
    """Nodes are counted from 1, as the cluster numbers them."""

    def __init__(self, home, session, **settings):
        self.home = home
        self._more = settings
        self.session = session
        self.nodes = {}
        self._settings = {}
        self._stacks = {}

    async def start(self, number):
        settings = self._settings.setdefault(
            number, self.home.settings(f"node-{number}", **self._more)
        )
        self._stacks[number] = AsyncExitStack()
        made = await self._stacks[number].enter_async_context(node(settings))
        self.nodes[number] = made
        await known(made)
        assert made.engine.node == number
        return made

    def settings(self, number):
        return self._settings[number]

    async def stop(self, number):
        del self.nodes[number]
        await self._stacks.pop(number).aclose()

    async def stop_all(self):
        for number in list(self.nodes):
            await self.stop(number)

    async def commit(self, transformation):
        """And wait until everybody has it."""
        outcome = await self.home.commit(transformation)
        await self.everywhere(outcome.epoch)
        return outcome

    async def everywhere(self, epoch):
        for subject in self.nodes.values():
            await reached(subject, epoch)

    async def fit(self):
        """Wait until every node may serve data."""
        for subject in self.nodes.values():
            await until(partial(is_fit, subject), timeout_s=TIMEOUT_S)

    def table(self, name="t"):
        return self.home.applied.metadata.schema.table("shop", name)

    def owners(self, key, name="t"):
        """Those who are read."""
        return self._replicas(key, name).readers

    def writers(self, key, name="t"):
        return self._replicas(key, name).writers

    def _replicas(self, key, name):
        metadata = self.home.applied.metadata
        token = key_of(self.table(name), metadata.cluster.partitioner, key).token
        return replicas_of(metadata, "shop", token)

    async def held(self, number, key, name="t"):
        """The version that this node has by itself."""
        metadata = self.home.applied.metadata
        found = key_of(self.table(name), metadata.cluster.partitioner, key)
        return await self.nodes[number].plane.store.get(self.table(name), found.token, found.text)

    async def ask(self, method, path, number=1, body=None, **headers):
        url = URL(f"{self.nodes[number].url}{path}", encoded=True)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            named["Content-Type"] = "application/json"
        data = None if body is None else BytesIO(msgspec.json.encode(body))
        async with self.session.request(method, url, data=data, headers=named) as response:
            return response.status, await response.json()

    async def put(self, key, columns, number=1, query="", table="t", **body):
        path = f"/v1/tables/shop/{table}/rows/{key}{query}"
        return await self.ask("PUT", path, number, {"columns": columns, **body})

    async def get(self, key, number=1, query="", table="t"):
        return await self.ask("GET", f"/v1/tables/shop/{table}/rows/{key}{query}", number)

    async def delete(self, key, number=1, query="", table="t"):
        return await self.ask("DELETE", f"/v1/tables/shop/{table}/rows/{key}{query}", number)

    async def internal(self, path, body, number=1, **headers):
        cluster = self.home.applied.metadata.cluster.id
        named = {"Ringlog_Cluster": cluster, "Ringlog_To": str(number), **headers}
        return await self.ask("POST", f"/internal/v1/{path}", number, body, **named)


@asynccontextmanager
async def data_cluster(dsn, folder, *, nodes=3, factor=3, spare=0, **settings):
    """So many nodes that own data, and one table `shop.t` with a string key `id`."""
    async with house(dsn, folder) as home, aiohttp.ClientSession() as session:
        made = DataCluster(home, session, **settings)
        try:
            for number in range(1, nodes + spare + 1):
                await made.start(number)
            for number in range(1, nodes + 1):
                token = Token(2**64 // nodes * number - 2**63 - 1)
                await home.commit(UnsafeJoin(node=NodeId(number), tokens=(token,)))
            await home.commit(CreateKeyspace(name="shop", replication=Simple(factor)))
            await made.commit(
                CreateTable(
                    keyspace="shop",
                    name="t",
                    columns=(Column("id", ColumnType.STRING), *COLUMNS),
                    partition_key=("id",),
                )
            )
            await made.fit()
            yield made
        finally:
            await made.stop_all()


def is_fit(subject):
    return subject.plane.fitness._doubt is None


def in_path(*values):
    return ",".join(quote(value, safe="") for value in values)


@asynccontextmanager
async def held_back(subject):
    """A node that publishes nothing new until the block ends, or until `release` is called."""
    publication = subject.engine.following._publication
    released, plain = asyncio.Event(), publication.go_on

    async def go_on(steps):
        await released.wait()
        await plain(steps)

    publication.go_on = go_on
    try:
        yield released.set
    finally:
        released.set()
        del publication.go_on


@asynccontextmanager
async def stuck(subject, name):
    """`put` or `get` of this node's store take until the block ends, or `release` is called."""
    store = subject.plane.store
    released, plain = asyncio.Event(), getattr(store, name)

    async def wait(*given):
        await released.wait()
        return await plain(*given)

    setattr(store, name, wait)
    try:
        yield released.set
    finally:
        released.set()
        delattr(store, name)
