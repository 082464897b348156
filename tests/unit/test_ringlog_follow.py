"""`ringlog.follow` where the log cannot be followed: an error that says why, and soon."""

import asyncio

import pytest
from aiohttp import web

import ringlog
from client.errors import NotFollowingError
from ringlog import following


@pytest.fixture
async def serve(aiohttp_server):
    async def start(answer):
        async def cluster(_request):
            return web.json_response({"id": "ours"})

        app = web.Application()
        app.router.add_get("/v1/metadata/cluster", cluster)
        app.router.add_get("/v1/log", answer)
        return str((await aiohttp_server(app)).make_url(""))

    return start


async def test_a_log_that_contradicts_is_told_at_once(serve):
    async def answer(_request):
        problem = {"status": 409, "code": "diverged", "detail": "another history"}
        return web.json_response(problem, status=409)

    url = await serve(answer)
    async with asyncio.timeout(following.CONTACT_TIMEOUT_S / 2):
        with pytest.raises(NotFollowingError, match="cannot be followed: another history"):
            async with ringlog.follow(url):
                pass


async def test_a_log_that_does_not_answer_is_a_sentence(serve, monkeypatch):
    async def answer(_request):
        await asyncio.Event().wait()

    monkeypatch.setattr(following, "CONTACT_TIMEOUT_S", 0.1)
    url = await serve(answer)
    with pytest.raises(NotFollowingError, match="did not answer to the end within"):
        async with ringlog.follow(url):
            pass
