"""A node that hangs is named soon; one that is only slow is waited for."""

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest

from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.sessions import SessionId
from metadata.tokens import FULL
from sequences.ports import WorkError
from services.driver.data_nodes import HttpDataNodes
from services.driver.nodes import NodeCalls
from services.driver.together import SILENT_MAX, while_alive
from services.http.data_messages import Flush
from services.node.roads import ADDRESS_NAME
from tests.builders import commit, founded, registration

LOOK_EVERY_S = 0.05
PATIENCE_S = 60.0
"""Less than a flush may take."""


@asynccontextmanager
async def listening():
    """Something that takes every connection and every request, and says nothing; its address."""
    taken = []
    server = await asyncio.start_server(lambda *streams: taken.append(streams), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        for _, writer in taken:
            writer.transport.abort()
        server.close()
        await server.wait_closed()


async def test_a_node_that_hangs_is_named_and_not_waited_for():
    async with listening() as address, aiohttp.ClientSession() as session:
        known = msgspec.structs.replace(registration(1), addresses={ADDRESS_NAME: address})
        metadata = commit(founded(), known)
        nodes = HttpDataNodes(NodeCalls(session, lambda: metadata), LOOK_EVERY_S)
        wanted = Flush(session=SessionId(7), epoch=Epoch(3), tables=(), ranges=(FULL,))
        with pytest.raises(WorkError) as raised:
            async with asyncio.timeout(PATIENCE_S):
                await nodes.flush(NodeId(1), wanted)

    assert str(raised.value) == (
        "node 1 does not answer any more: it was asked to write its rows to segments and is "
        "silent since"
    )


async def after(seconds, value):
    await asyncio.sleep(seconds)
    return value


async def test_who_is_slow_and_alive_is_waited_for():
    looks: list[int] = []

    async def alive():
        looks.append(len(looks))
        return len(looks) % SILENT_MAX == 0  # silent now and then, and never for long

    assert await while_alive(after(0.5, "done"), alive, 0.01) == "done"
    assert len(looks) > SILENT_MAX


async def test_who_is_silent_too_often_is_given_up_and_its_work_is_cancelled():
    ended = asyncio.Event()
    looks: list[None] = []

    async def hanging():
        try:
            await asyncio.sleep(PATIENCE_S)
        finally:
            ended.set()

    async def silent():
        looks.append(None)
        return False

    assert await while_alive(hanging(), silent, 0.01) is None
    assert ended.is_set()
    assert len(looks) == SILENT_MAX


async def test_what_goes_wrong_is_told_as_it_is():
    async def failing():
        raise WorkError("the disk is full")

    with pytest.raises(WorkError, match="the disk is full"):
        await while_alive(failing(), failing, 0.01)
