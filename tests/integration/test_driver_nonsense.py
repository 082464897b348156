"""Whatever answers at the address of a node or of a CMS: the driver says so and lives on."""

from __future__ import annotations

from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest
from aiohttp import web

from client.client import Client
from client.connection import Connection
from client.errors import ClientError
from client.patience import Patience
from metadata.directory import NodeId
from metadata.epoch import Epoch
from sequences.ports import WorkError
from services.driver.nodes import NodeCalls
from services.driver.watermarks import NodeWatermarks
from services.http.progress import Progress, ProgressAnswer
from services.node.bodies import Watermark
from services.node.discovery import cluster_served_by
from services.node.roads import ADDRESS_NAME
from services.telling import Teller
from tests.builders import commit, founded, registration
from transformations.extensions import ClearExtension

NODE = NodeId(1)
QUICK = Patience(attempt_timeout_s=0.5, deadline_s=0.5)
DEEP = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
NONSENSE = [b"", b"null", b'"\xff"', b'{"node": 1, "digest": "\xff\xfe"}', DEEP, b"<html>"]


@asynccontextmanager
async def serving(status, body):
    """The address at which everything is answered so."""

    async def answer(_request):
        return web.Response(status=status, body=body, content_type="application/json")

    application = web.Application()
    application.router.add_route("*", "/{any:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def answered_with(status, body):
    """How a driver calls a node at whose address everything is answered so."""
    async with serving(status, body) as address, aiohttp.ClientSession() as session:
        known = msgspec.structs.replace(registration(1), addresses={ADDRESS_NAME: address})
        metadata = commit(founded(), known)
        yield NodeCalls(session, lambda: metadata)


@pytest.mark.parametrize("status", [200, 409, 500])
@pytest.mark.parametrize("body", NONSENSE)
async def test_an_answer_that_makes_no_sense_is_told_of_its_node(status, body):
    async with answered_with(status, body) as calls:
        with pytest.raises(WorkError, match="node 1") as raised:
            await calls.get(NODE, "/v1/epoch", {}, Watermark, 30.0)

    assert raised.value.nodes == (NODE,)


@pytest.mark.parametrize("body", NONSENSE)
async def test_nobody_votes_by_an_answer_that_makes_no_sense(body):
    told = []

    def observe(node, epoch):
        told.append((node, epoch))
        return False

    async with answered_with(200, body) as calls:
        await NodeWatermarks(calls).observe([NODE], Epoch(1), 0.0, observe)

    assert told == []


@asynccontextmanager
async def connected(status, body):
    """To an address that is no CMS."""
    async with serving(status, body) as address:
        connection = Connection([f"http://{address}"], token=None, cluster=None, patience=QUICK)
        try:
            yield connection
        finally:
            await connection.close()


@pytest.mark.parametrize("status", [200, 409, 500])
@pytest.mark.parametrize("body", NONSENSE)
async def test_what_a_cms_answers_to_a_report_ends_nobody(status, body):
    async with connected(status, body) as connection:
        teller = Teller(connection, "/internal/v1/progress", "not_told")
        told = Progress(driver="driver-1", sequences=())
        assert await teller.tell(told, ProgressAnswer) is None


@pytest.mark.parametrize("status", [200, 409, 500])
@pytest.mark.parametrize("body", NONSENSE)
async def test_nobody_serves_a_cluster_by_an_answer_that_makes_no_sense(status, body):
    async with connected(status, body) as connection:
        assert await cluster_served_by(connection) is None


@pytest.mark.parametrize("body", NONSENSE)
async def test_a_commit_whose_answer_makes_no_sense_is_not_taken_for_made(body):
    async with serving(200, body) as address, Client(f"http://{address}", patience=QUICK) as client:
        with pytest.raises(ClientError):
            await client.commit(ClearExtension(name="colour"))
