"""A Postgres that takes an append and does not answer: unknown, and the same id tells later."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit
from uuid import uuid4

import aiohttp
import pytest

from log.batch import Stamp
from log.postgres import PostgresLog
from log.postgres_sessions import Sessions
from log.sequencer import Limits
from metadata.epoch import Epoch
from services.cms.engine import running
from services.cms.http import serve
from services.http.serving import Address
from snapshots.postgres import PostgresSnapshots
from tests.integration.test_cms_serving import FOUNDING, QUICK, Client

DOUBT_AFTER_S = 0.3
UNKNOWN_AFTER_S = 0.6
CHUNK_BYTES = 65536


class Swallowing:
    """Between a CMS and Postgres: while it swallows, questions arrive and answers do not."""

    def __init__(self, host, port):
        self._target = (host, port)
        self._writers = []
        self.is_swallowing = False

    async def connected(self, reader, writer):
        if self.is_swallowing:
            writer.close()
            return
        back, forth = await asyncio.open_connection(*self._target)
        self._writers += [writer, forth]
        await asyncio.gather(self._pass(reader, forth), self._pass(back, writer, answers=True))

    async def _pass(self, reader, writer, *, answers=False):
        with suppress(ConnectionError):
            while data := await reader.read(CHUNK_BYTES):
                if answers and self.is_swallowing:
                    continue
                writer.write(data)
                await writer.drain()
        writer.close()

    def close(self):
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def through(dsn):
    """The same database behind a proxy."""
    parts = urlsplit(dsn)
    proxy = Swallowing(parts.hostname, parts.port)
    server = await asyncio.start_server(proxy.connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    user = parts.netloc.rpartition("@")[0]
    try:
        yield proxy, parts._replace(netloc=f"{user}@127.0.0.1:{port}").geturl()
    finally:
        server.close()
        proxy.close()


@pytest.fixture
async def behind(database):
    async with through(database) as (proxy, dsn):
        sessions = Sessions(dsn, doubt_after_s=DOUBT_AFTER_S)
        async with (
            running(
                "c",
                PostgresLog(sessions),
                PostgresSnapshots(sessions),
                lambda: Stamp("c", 1),
                limits=Limits(unknown_after_s=UNKNOWN_AFTER_S),
            ) as engine,
            serve(engine, tokens=None, where=Address(), limits=QUICK) as url,
            aiohttp.ClientSession(url) as session,
        ):
            client = Client(session, engine, None)
            assert (await client.commit(**FOUNDING))[0] == 200
            yield client, proxy
        await sessions.close()


async def test_an_append_without_an_answer_is_unknown_and_told_later(behind, database):
    client, proxy = behind
    entry_id = str(uuid4())
    proxy.is_swallowing = True
    what = {"kind": "SetExtension", "name": "a", "value": "b"}
    body = {"entry_id": entry_id, "transformation": what}

    async with client.session.post("/v1/commit", json=body) as response:
        problem = await response.json()
    assert (response.status, problem["code"]) == (503, "unknown")
    assert int(response.headers["Retry-After"]) >= 1
    assert "same id" in problem["detail"]

    proxy.is_swallowing = False
    status, answer = await client.post("/v1/commit", body)
    assert (status, answer["epoch"], answer["entry_id"]) == (200, 2, entry_id)
    assert await client.post("/v1/commit", body) == (status, answer)
    sessions = Sessions(database)
    entries = await PostgresLog(sessions).read_after(Epoch(1), entries_max=10, bytes_max=1 << 20)
    await sessions.close()
    assert [(str(item.entry_id), item.hash.hex()) for item in entries] == [
        (entry_id, answer["hash"])
    ]
