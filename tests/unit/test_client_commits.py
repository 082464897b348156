"""A commit is made once, however often and wherever it has to be sent."""

import asyncio
from uuid import UUID, uuid4

import pytest
from aiohttp import web

from client.answers import Committed, Rejected
from client.client import Client
from client.errors import AnswerError, OutcomeUnknownError, RequestError, UnreachableError
from client.patience import Patience
from client.proposals import Proposal
from encoding.entries import EntryId
from transformations.extensions import SetExtension

QUICK = Patience(deadline_s=5.0, attempt_timeout_s=2.0, pause_first_s=0.001, pause_max_s=0.01)
IMPATIENT = Patience(deadline_s=0.2, attempt_timeout_s=0.1, pause_first_s=0.01, pause_max_s=0.01)
HELLO = SetExtension(name="motd", value="hello")
NOBODY = "http://127.0.0.1:1"


class Script:
    """A server that answers each request with the next of its answers, and notes the bodies."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.bodies = []

    async def answer(self, request):
        self.bodies.append(await request.json())
        return self.answers.pop(0)(self.bodies[-1], request)


def committed(body, _):
    answer = {"epoch": 7, "entry_id": body["entry_id"], "result": {"node": 3}, "hash": "ab" * 32}
    return web.json_response({**answer, "entries": []})


def dropped(_, request):
    request.transport.abort()
    return web.Response()


def problem(status, code, headers=None, **members):
    content = {"status": status, "code": code, "detail": f"it is {code}", **members}
    return lambda *_: web.json_response(content, status=status, headers=headers)


def said(status, text):
    return lambda *_: web.Response(status=status, text=text)


@pytest.fixture
async def serve(aiohttp_server):
    async def start(*answers):
        script = Script(*answers)
        app = web.Application()
        app.router.add_post("/v1/commit", script.answer)
        app.router.add_post("/v1/commit/batch", script.answer)
        server = await aiohttp_server(app)
        return str(server.make_url("")), script

    return start


async def test_a_commit_is_a_value(serve):
    url, script = await serve(committed)
    entry_id = EntryId(uuid4())
    async with Client(url, "secret", patience=QUICK) as client:
        outcome = await client.commit(HELLO, entry_id=entry_id, actor="ada", reason="why not")

    assert isinstance(outcome, Committed)
    assert (outcome.epoch, outcome.entry_id, outcome.result.node) == (7, entry_id, 3)
    assert outcome.hash == b"\xab" * 32
    assert script.bodies == [
        {
            "entry_id": str(entry_id),
            "transformation": {"kind": "SetExtension", "name": "motd", "value": "hello"},
            "actor": "ada",
            "reason": "why not",
        }
    ]


async def test_a_refusal_is_a_value_too(serve):
    refusal = problem(
        409, "ranges_locked", epoch=5, sequence=4, ranges=[{"left": "1", "right": "2"}]
    )
    url, _ = await serve(refusal)
    async with Client(url, patience=QUICK) as client:
        outcome = await client.commit({"kind": "PrepareJoin", "node": 1})

    assert isinstance(outcome, Rejected)
    assert (outcome.code, outcome.epoch, outcome.sequence) == ("ranges_locked", 5, 4)
    assert outcome.ranges[0].left == "1"


@pytest.mark.parametrize(
    "obstacle",
    [
        problem(503, "unknown"),
        problem(503, "stopping", {"Retry-After": "0"}),
        problem(429, "overloaded", {"Retry-After": "0"}),
        said(502, "<html>"),
        dropped,
    ],
)
async def test_what_is_not_decided_is_sent_again_with_the_same_id(serve, obstacle):
    url, script = await serve(obstacle, committed)
    async with Client(url, patience=QUICK) as client:
        outcome = await client.commit(HELLO)

    assert isinstance(outcome, Committed)
    assert len(script.bodies) == 2
    assert script.bodies[0] == script.bodies[1]


async def test_another_address_is_asked_where_one_is_down(serve):
    url, script = await serve(committed, committed)
    async with Client([NOBODY, url], patience=QUICK) as client:
        await client.commit(HELLO)
        await client.commit(HELLO)

    assert len(script.bodies) == 2


async def test_where_nobody_was_reached_nothing_was_committed():
    async with Client(NOBODY, patience=IMPATIENT) as client:
        with pytest.raises(UnreachableError, match="takes no connection") as caught:
            await client.commit(HELLO)

    assert not isinstance(caught.value, OutcomeUnknownError)


async def test_a_doubt_at_the_deadline_names_the_entry_id(serve):
    url, _ = await serve(*[problem(503, "unknown")] * 100)
    entry_id = EntryId(uuid4())
    async with Client(url, patience=IMPATIENT) as client:
        with pytest.raises(OutcomeUnknownError, match=str(entry_id)) as caught:
            await client.commit(HELLO, entry_id=entry_id)

    assert caught.value.entry_ids == (entry_id,)


async def test_a_malformed_request_is_not_sent_again(serve):
    url, script = await serve(problem(400, "malformed"))
    async with Client(url, patience=QUICK) as client:
        with pytest.raises(RequestError, match="it is malformed"):
            await client.commit({"kind": "Nonsense"})

    assert len(script.bodies) == 1


@pytest.mark.parametrize(
    "answer",
    [
        said(500, "oh"),
        said(200, "not JSON"),
        said(200, f'{{"epoch": 1, "entry_id": "{UUID(int=1)}", "hash": "00"}}'),
    ],
)
async def test_an_answer_that_makes_no_sense_is_no_answer(serve, answer):
    url, _ = await serve(answer)
    async with Client(url, patience=QUICK) as client:
        with pytest.raises(AnswerError):
            await client.commit(HELLO)


async def test_a_batch_sends_again_only_what_stayed_undecided(serve):
    one, two, three = (Proposal(transformation=HELLO) for _ in range(3))

    def in_part(body, _):
        first, _, third = body["commits"]
        done = {"epoch": 1, "result": {}, "hash": "00" * 32, "entries": []}
        return web.json_response(
            {
                "outcomes": [
                    {**done, "entry_id": first["entry_id"]},
                    {"status": 503, "code": "unknown", "detail": "?"},
                    {"status": 409, "code": "internal", "detail": third["entry_id"]},
                ]
            }
        )

    def the_rest(body, _):
        (only,) = body["commits"]
        done = {"epoch": 2, "entry_id": only["entry_id"], "result": {}, "hash": "00" * 32}
        return web.json_response({"outcomes": [done]})

    url, script = await serve(in_part, the_rest)
    async with Client(url, patience=QUICK) as client:
        outcomes = await client.commit_batch([one, two, three])

    assert [item.epoch for item in outcomes[:2]] == [1, 2]
    assert isinstance(outcomes[2], Rejected)
    assert [item["entry_id"] for item in script.bodies[1]["commits"]] == [str(two.entry_id)]


async def test_an_atomic_batch_that_is_refused_says_which_one(serve):
    url, script = await serve(problem(409, "keyspace_exists", index=1))
    proposals = [Proposal(transformation=HELLO) for _ in range(2)]
    async with Client(url, patience=QUICK) as client:
        outcome = await client.commit_batch(proposals, atomic=True)

    assert isinstance(outcome, Rejected)
    assert (outcome.code, outcome.index) == ("keyspace_exists", 1)
    assert script.bodies[0]["atomic"] is True


async def test_a_cancelled_commit_stops_at_once(serve):
    url, _ = await serve(*[problem(503, "unavailable", {"Retry-After": "5"})] * 3)
    async with Client(url) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.commit(HELLO)
