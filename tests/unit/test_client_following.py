"""Following the log: dense, verified, resumable, and never another history."""

import asyncio

import pytest
from aiohttp import web

import ringlog
from client.client import Client
from client.errors import CorruptEntryError, DivergedError, TrimmedError
from client.patience import Patience
from log.containers import MEDIA_TYPE, container
from tests.golden.recordings import VERSIONS, read_log

LOG = read_log(VERSIONS[-1])
QUICK = Patience(deadline_s=5.0, pause_first_s=0.001, pause_max_s=0.01)


class Served:
    """A log that answers a few entries at a time, and after the last one waits."""

    def __init__(self, *, at_once=3, failures=()):
        self.asked = []
        self._at_once = at_once
        self._failures = list(failures)

    async def answer(self, request):
        self.asked.append(dict(request.query))
        if self._failures:
            return self._failures.pop(0)
        after = int(request.query["after"])
        found = LOG[after : after + self._at_once]
        if not found:
            await asyncio.sleep(30)
        assert request.headers["Accept"] == MEDIA_TYPE
        return web.Response(body=container(found, {"tip": str(len(LOG))}))


@pytest.fixture
async def serve(aiohttp_server):
    async def start(served):
        app = web.Application()
        app.router.add_get("/v1/log", served.answer)
        server = await aiohttp_server(app)
        return str(server.make_url(""))

    return start


async def take(client, count, after=0, after_hash=None):
    found = []
    async for sealed in client.follow(after, after_hash=after_hash):
        found.append(sealed)
        if len(found) == count:
            break
    return found


async def test_a_follower_gets_every_entry_once_and_in_order(serve):
    served = Served()
    async with Client(await serve(served), patience=QUICK) as client:
        assert await take(client, 8) == LOG[:8]

    assert [query["after"] for query in served.asked] == ["0", "3", "6"]
    assert "hash" not in served.asked[0]
    assert served.asked[1]["hash"] == LOG[2].hash.hex()
    assert served.asked[1]["wait"] == "20"


async def test_a_follower_survives_a_cms_that_does_not(serve):
    served = Served(failures=[web.Response(status=503), web.Response(status=502)])
    async with Client(await serve(served), patience=QUICK) as client:
        assert await take(client, 4) == LOG[:4]


async def test_a_follower_resumes_behind_what_it_has(serve):
    served = Served()
    async with Client(await serve(served), patience=QUICK) as client:
        found = await take(client, 2, after=5, after_hash=LOG[4].hash)

    assert found == LOG[5:7]
    assert served.asked[0]["hash"] == LOG[4].hash.hex()


async def test_another_history_is_not_followed(serve):
    async with Client(await serve(Served()), patience=QUICK) as client:
        with pytest.raises(CorruptEntryError, match="does not continue"):
            await take(client, 1, after=5, after_hash=b"\x07" * 32)


@pytest.mark.parametrize(
    ("status", "code", "error"), [(409, "diverged", DivergedError), (410, "trimmed", TrimmedError)]
)
async def test_a_log_that_cannot_be_followed_says_so(serve, status, code, error):
    problem = {"status": status, "code": code, "detail": "look elsewhere"}
    handler = Served(failures=[web.json_response(problem, status=status)])
    async with Client(await serve(handler), patience=QUICK) as client:
        with pytest.raises(error, match=r"look elsewhere\.") as caught:
            await take(client, 1)

    assert caught.value.problem.code == code


async def test_the_synchronous_face_follows_from_a_thread_of_its_own(serve):
    url = await serve(Served())

    def script():
        found = []
        with ringlog.connect(url) as cluster:
            for sealed in cluster.follow(after=1):
                found.append(sealed)
                if len(found) == 5:
                    break
        return found

    assert await asyncio.to_thread(script) == LOG[1:6]


async def test_the_front_door_opens_for_coroutines_too(serve):
    async with ringlog.connect([await serve(Served())]) as cluster:
        assert await cluster.entries(limit=3) == LOG[:3]


def test_an_address_that_is_none_is_refused_at_once():
    with pytest.raises(ValueError, match="give http://HOST:PORT"):
        ringlog.connect("localhost:7400").open()
