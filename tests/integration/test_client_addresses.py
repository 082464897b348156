"""Which of several addresses is asked: nobody hangs on one that hangs, or on a stranger."""

import asyncio
from uuid import uuid4

import pytest
from aiohttp import web

from client.answers import Committed, Rejected
from client.client import Client
from client.connection import ADDRESSES_MAX, Connection
from client.errors import (
    DivergedError,
    RequestError,
    UnreachableError,
)
from client.pages import IMAGE_WAIT_S, CmsLog
from client.patience import Patience
from client.transport import Request
from metadata.epoch import Epoch
from transformations.extensions import SetExtension

AS_LONG = Patience(attempt_timeout_s=0.6, deadline_s=0.6, pause_first_s=0.001, pause_max_s=0.01)
"""One attempt alone may take all the time there is."""
LONG = Patience(attempt_timeout_s=5.0, deadline_s=30.0, pause_first_s=0.001, pause_max_s=0.01)
NOBODY = "http://127.0.0.1:1"
ASKED = Request(path="/v1/metadata/cluster")
HELLO = SetExtension(name="motd", value="hello")


class Address:
    """Somebody who listens; `says` is what is answered, and None hangs."""

    def __init__(self):
        self.says = fine
        self.asked = 0

    async def answer(self, request):
        self.asked += 1
        if self.says is None:
            await asyncio.Event().wait()
        return self.says(await request.text())


def fine(_body):
    return web.json_response({"id": "ours"})


def committed(_body):
    answer = {"epoch": 7, "entry_id": str(ENTRY), "result": {}, "hash": "ab" * 32, "entries": []}
    return web.json_response(answer)


def problem(status, code, **members):
    content = {"status": status, "code": code, "detail": f"it is {code}", **members}
    return lambda _: web.json_response(content, status=status)


def said(status, text, content_type="text/html"):
    return lambda _: web.Response(status=status, text=text, content_type=content_type)


ENTRY = uuid4()
OTHER_CLUSTER = problem(409, "wrong_cluster")
STRANGERS = {
    "another cluster": OTHER_CLUSTER,
    "not found": said(404, "<html>nothing here</html>"),
    "not allowed": said(405, "no"),
    "json of its own": lambda _: web.json_response({"error": "no such route"}, status=404),
    "sent elsewhere": said(302, "over there"),
    "a page": said(200, "<html>It works!</html>"),
    "a failure": said(500, "oh"),
}


@pytest.fixture
async def listen(aiohttp_server):
    async def start():
        address = Address()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", address.answer)
        server = await aiohttp_server(app)
        return str(server.make_url("")).rstrip("/"), address

    return start


@pytest.fixture
async def connect():
    made = []

    def start(*urls, patience=LONG):
        made.append(Connection(urls, token=None, cluster="ours", patience=patience))
        return made[-1]

    yield start
    for connection in made:
        await connection.close()


async def test_one_that_hangs_leaves_time_for_another(listen, connect):
    (one, hung), (two, _) = await listen(), await listen()
    hung.says = None
    subject = connect(one, two, patience=AS_LONG)

    assert b"ours" in await subject.read(ASKED)
    await subject.read(ASKED)
    assert hung.asked == 1


async def test_where_time_is_up_the_next_question_goes_to_the_next(listen, connect):
    """Two that hang use up the time; the third is not asked for the first time for ever."""
    places = [await listen() for _ in range(3)]
    places[0][1].says = places[1][1].says = None
    subject = connect(*(url for url, _ in places), patience=AS_LONG)

    with pytest.raises(UnreachableError):
        await subject.read(ASKED)
    assert b"ours" in await subject.read(ASKED)
    assert [address.asked for _, address in places] == [1, 1, 1]


async def test_a_question_that_is_held_leaves_time_for_another_that_is(listen, connect):
    (one, hung), (two, _) = await listen(), await listen()
    hung.says = None
    subject = connect(one, two, patience=AS_LONG)

    assert b"ours" in await subject.read(ASKED, wait_s=0.2)


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_a_stranger_is_passed_over_and_never_preferred(listen, connect, stranger):
    (one, strange), (two, _) = await listen(), await listen()
    strange.says = STRANGERS[stranger]
    subject = connect(one, two)

    assert b"ours" in await subject.read(ASKED)
    await subject.read(ASKED)
    assert strange.asked == 1


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_a_stranger_does_not_speak_for_a_cms_that_restarts(listen, connect, stranger):
    (one, cms), (two, strange) = await listen(), await listen()
    strange.says = STRANGERS[stranger]
    cms.says = problem(503, "stopping")
    subject = connect(one, two, patience=AS_LONG)

    with pytest.raises(UnreachableError):
        await subject.read(ASKED)
    cms.says = fine
    assert b"ours" in await subject.read(ASKED)


async def test_one_address_alone_is_believed_at_once(listen, connect):
    url, address = await listen()
    subject = connect(url)

    address.says = OTHER_CLUSTER
    with pytest.raises(DivergedError, match="it is wrong_cluster"):
        await subject.read(ASKED)
    address.says = said(404, "<html>")
    with pytest.raises(RequestError, match="404"):
        await subject.read(ASKED)
    assert address.asked == 2


async def test_what_all_say_is_believed_after_one_round(listen, connect):
    (one, first), (two, second) = await listen(), await listen()
    first.says = second.says = OTHER_CLUSTER
    subject = connect(one, two)

    with pytest.raises(DivergedError):
        await subject.read(ASKED)
    assert (first.asked, second.asked) == (1, 1)


async def test_what_is_decided_is_not_asked_again_elsewhere(listen, connect):
    (one, first), (two, second) = await listen(), await listen()
    first.says = problem(404, "unknown_epoch")
    subject = connect(one, two)

    with pytest.raises(RequestError, match="unknown_epoch"):
        await subject.read(ASKED)
    assert second.asked == 0


async def test_a_commit_goes_past_strangers_and_is_no_refusal_of_theirs(listen):
    (one, strange), (two, cms) = await listen(), await listen()
    strange.says, cms.says = OTHER_CLUSTER, committed
    async with Client([one, two], patience=LONG) as client:
        assert isinstance(await client.commit(HELLO, entry_id=ENTRY), Committed)


async def test_an_image_of_another_cluster_is_refused_for_good(listen):
    (one, first), (two, second) = await listen(), await listen()
    first.says = problem(409, "wrong_cluster", epoch=5)
    async with Client([one, two], patience=LONG) as client:
        outcome = await client.commit(HELLO, entry_id=ENTRY)

    assert isinstance(outcome, Rejected)
    assert second.asked == 0


async def test_what_is_learnt_takes_the_place_of_what_was(connect):
    subject = connect("http://seed:1")
    subject.learn(["http://old:1", "http://seed:1"])
    subject.learn([f"http://new:{number}" for number in range(1, 100)])

    assert subject.urls[:2] == ("http://seed:1", "http://new:1")
    assert "http://old:1" not in subject.urls
    assert len(subject.urls) == ADDRESSES_MAX


async def test_what_is_no_address_is_not_learnt(connect):
    subject = connect("http://seed:1")
    subject.learn(["http://[bad", "http://:1", "http://good:1"])

    assert subject.urls == ("http://seed:1", "http://good:1")


async def test_an_address_that_is_forgotten_meanwhile_is_still_asked(listen, connect):
    (one, first), (two, _) = await listen(), await listen()
    subject = connect(NOBODY)
    subject.learn([one, two])
    asked = asyncio.Event()

    def forgotten(_body):
        subject.learn([])
        asked.set()
        return web.json_response({}, status=503)

    first.says = forgotten
    assert b"ours" in await subject.read(ASKED)
    assert asked.is_set()


class Slow(Connection):
    """One on which everything takes a while that it is not given."""

    async def read(self, request, *, wait_s=0.0):
        raise UnreachableError(f"{request.path} was given {wait_s:.0f} s")


async def test_a_snapshot_is_given_more_time_than_a_page():
    slow = Slow([NOBODY], token=None, cluster=None, patience=LONG)
    with pytest.raises(UnreachableError, match=f"/v1/snapshots/7 was given {IMAGE_WAIT_S:.0f} s"):
        await CmsLog(slow).snapshot(Epoch(7))
    await slow.close()
