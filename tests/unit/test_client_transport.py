"""What is known of a request that was not answered: whether it can have arrived."""

import asyncio
import socket
from contextlib import contextmanager

import pytest
from aiohttp import web

from client.client import Client
from client.errors import OutcomeUnknownError, UnreachableError
from client.patience import Patience
from client.transport import new_session
from transformations.extensions import SetExtension

HASTY = Patience(attempt_timeout_s=0.1, deadline_s=0.2)
HELLO = SetExtension(name="motd", value="hello")


@pytest.fixture
async def hanging(aiohttp_server):
    """The address of somebody who takes every request and answers none."""

    async def answer(_request):
        await asyncio.Event().wait()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    return str((await aiohttp_server(app)).make_url(""))


@contextmanager
def full_house():
    """An address that takes no connection in time: as many wait as may, and nobody lets them in."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting = []
        try:
            for _ in range(4):
                waiting.append(socket.socket())
                waiting[-1].setblocking(False)
                waiting[-1].connect_ex(listening.getsockname())
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            for item in waiting:
                item.close()


async def test_what_never_left_is_surely_not_committed():
    with full_house() as url:
        async with Client(url, patience=HASTY) as client:
            with pytest.raises(UnreachableError, match="takes no connection") as caught:
                await client.commit(HELLO)

    assert not isinstance(caught.value, OutcomeUnknownError)


async def test_what_left_and_was_not_answered_may_have_been(hanging):
    async with Client(hanging, patience=HASTY) as client:
        with pytest.raises(OutcomeUnknownError, match="no answer in time"):
            await client.commit(HELLO)


async def test_a_session_is_good_for_whatever_is_asked(aiohttp_server):
    async def answer(_request):
        return web.Response(text="fine")

    app = web.Application()
    app.router.add_get("/", answer)
    url = (await aiohttp_server(app)).make_url("/")
    async with new_session(None, None) as session, session.get(url) as response:
        assert await response.text() == "fine"


async def test_no_time_at_all_is_not_all_the_time_there_is(hanging):
    none = Patience(attempt_timeout_s=0.0, deadline_s=0.05)
    async with Client(hanging, patience=none) as client:
        with pytest.raises(UnreachableError):
            await client.status()
