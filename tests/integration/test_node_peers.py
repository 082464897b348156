"""Catching up from other nodes first, whatever they say."""

from __future__ import annotations

import asyncio
import socket

import msgspec
import pytest
from aiohttp import web

from client.following import NEWS_MAX
from client.pages import PAGE_ENTRIES, page_in, page_request
from client.peers import PEER_ANSWER_BYTES_MAX, Peers
from client.transport import ask, new_session
from log.chain import seal
from log.containers import MEDIA_TYPE, container
from log.follower import Fault
from log.replay import Applied
from metadata.epoch import Epoch
from services.local.ports import ADDRESS
from services.node.running import running
from tests.golden.history import history
from tests.integration.nodes import (
    TIMEOUT_S,
    Between,
    Told,
    get,
    house,
    known,
    node,
    same,
    serving,
    sql,
)
from transformations.directory import Register, Startup

STRANGERS = history().entries


@pytest.fixture
async def home(database, tmp_path):
    async with house(database, tmp_path) as made:
        yield made


def pages_served(text):
    """How often somebody got a page of the log."""
    return sum(
        float(line.rpartition(" ")[2])
        for line in text.decode().splitlines()
        if line.startswith('ringlog_requests_total{method="GET",path="/v1/log",status="200"}')
    )


async def test_whoever_is_far_behind_asks_its_peers(home):
    """One page comes from the CMS, which tells how far the log is; the others do not."""
    async with node(home.settings("node-1")) as first:
        await known(first)
        await home.commit_many(3500)
        await same(first, home.applied)
        before = pages_served((await get(f"{first.url}/metrics"))[1])
        between = Between(home.url)
        async with serving(between.answer) as address:
            settings = home.settings("node-2", seeds=(f"http://{address}",), notify=True)
            async with node(settings) as second:
                # Its own Register comes behind what it has to catch up with.
                await known(second)
                await same(second, home.applied)
                by_peer = pages_served((await get(f"{first.url}/metrics"))[1]) - before

    print(f"pages by the peer {by_peer}, by the CMS {between.counts['/v1/log']}")
    assert by_peer >= 3


async def test_a_peer_whose_log_is_trimmed_is_no_help_and_no_harm(home):
    settings = home.settings("node-1")
    async with node(settings) as first:
        await known(first)
        for _ in range(3):
            await home.commit_many(1200)
            await home.take_snapshot()
            await same(first, home.applied)
    assert sql(settings, "SELECT min(epoch) FROM journal_entries")[0][0] > 1000
    between = Between(home.url)
    between.twist = _without_snapshots
    async with node(settings) as first, serving(between.answer) as address:
        await same(first, home.applied)
        status, problem = await get(f"{first.url}/v1/log?after=5")
        assert (status, problem["code"]) == (410, "trimmed")
        told = Told()
        second_settings = home.settings("node-2", seeds=(f"http://{address}",), notify=True)
        async with node(second_settings) as second:
            second.listeners.add(told)
            await known(second)
            await same(second, home.applied)
        assert second.engine.following.follower.faults[Fault.LYING_PEER] == 0


def _without_snapshots(request, found):
    """As if the CMS had none: its snapshots cannot be read."""
    if request.path.startswith("/v1/snapshots/"):
        return web.Response(status=200, body=b"damaged")
    return found


class Liar:
    """Another node, which answers for the log whatever it is told to."""

    def __init__(self, home, lie):
        self.asked = 0
        self._home = home
        self._lie = lie

    async def answer(self, request):
        assert request.path == "/v1/log", request.path
        assert request.headers["Ringlog-Cluster"] == self._home.applied.metadata.cluster.id
        self.asked += 1
        after = int(request.query["after"])
        # NOTIFY may be quicker than the process that appended.
        await self._home.engine.latest()
        entries = await self._home.engine.entries_after(
            Epoch(after), entries_max=1000, bytes_max=1 << 22
        )
        found = self._lie(list(entries))
        if asyncio.iscoroutine(found):
            found = await found
        if isinstance(found, bytes):
            found = web.Response(body=found, headers={"Content-Type": MEDIA_TYPE})
        return found


def _page(entries, tip=None):
    return container(entries, {"tip": str(tip or (entries[-1].epoch if entries else 0))})


def _resealed(entries, **changes):
    """A chain of its own, from the first entry on."""
    hash_, found = entries[0].previous_hash, []
    for index, sealed in enumerate(entries):
        changed = changes if index == 0 else {}
        found.append(seal(msgspec.structs.replace(sealed.entry, **changed), hash_))
        hash_ = found[-1].hash
    return found


def _with(entries, **changes):
    return [msgspec.structs.replace(entries[0], **changes), *entries[1:]]


def _chained(entries, count):
    """So many entries of which the first alone is true, each sealed onto the one before it."""
    found = list(entries[:1])
    while len(found) < count:
        forged = msgspec.structs.replace(found[-1].entry, epoch=Epoch(found[-1].epoch + 1))
        found.append(seal(forged, found[-1].hash))
    return found


async def _hanging(_entries):
    await asyncio.sleep(60)


LIES = {
    "wrong hash": lambda found: _page(_with(found, hash=bytes(32))),
    "wrong previous hash": lambda found: _page(_with(found, previous_hash=bytes(32))),
    "wrong epoch": lambda found: _page(_with(found, epoch=Epoch(found[0].epoch + 1))),
    "a gap": lambda found: _page([*found[1:], *STRANGERS[-1:]]),
    "out of order": lambda found: _page([*STRANGERS[-1:], *found[::-1]]),
    "a false digest, sealed": lambda found: _page(_resealed(found, digest=bytes(32))),
    "another actor, sealed": lambda found: _page(
        _resealed(found, actor="mallory", digest=bytes(32))
    ),
    "cut short": lambda found: _page(found)[:-40],
    "only the magic": lambda _: b"Obj\x01",
    "empty": lambda _: b"",
    "a gigantic count": lambda found: _page(found)[:4] + b"\xfe" * 9 + b"\x01" + _page(found)[5:],
    "an endless number": lambda _: b"Obj\x01" + b"\xff" * 4000,
    "a tip of many digits": lambda found: _page(found, tip="9" * 10_000),
    "a negative tip": lambda found: _page(found, tip="-5"),
    "another cluster": lambda _: _page(STRANGERS),
    "another cluster, later": lambda found: _page(STRANGERS[found[0].epoch - 1 :] or STRANGERS),
    "html": lambda _: web.Response(text="<html>It works!</html>", content_type="text/html"),
    "json": lambda _: web.json_response({"tip": 5, "entries": []}),
    "a problem": lambda _: web.json_response({"code": "diverged"}, status=409),
    "a server error": lambda _: web.Response(status=500),
    "elsewhere": lambda _: web.Response(status=302, headers={"Location": "/v1/log"}),
    "nothing new": lambda found: _page([], tip=found[0].epoch - 1),
    "hanging": _hanging,
    "oversized": lambda _: bytes(PEER_ANSWER_BYTES_MAX + 1),
    "more than was asked for": lambda found: _page(_chained(found, PAGE_ENTRIES + 1)),
}
HARMLESS = {"a problem", "a server error", "elsewhere", "nothing new", "hanging", "oversized"}
"""No lie, only no help."""


@pytest.mark.parametrize("lie", LIES)
async def test_a_peer_that_lies_is_counted_and_never_believed(home, lie):
    liar = Liar(home, LIES[lie])
    told = Told()
    async with serving(liar.answer) as address:
        await home.commit(_registration(address))
        async with running(home.settings("node-1", notify=True)) as subject:
            subject.listeners.add(told)
            await known(subject)
            await same(subject, home.applied)
            await _meet(liar, home, subject)
            faults = subject.engine.following.follower.faults
            _, text = await get(f"{subject.url}/metrics")
            assert (await get(f"{subject.url}/readyz"))[0] == 200

    assert [change.metadata.epoch for change in told.changes if change.is_jump] == []
    assert faults[Fault.FROM_THE_FUTURE] == 0
    is_lie = lie not in HARMLESS
    assert (faults[Fault.LYING_PEER] > 0) == is_lie
    assert (b'fault="lying_peer"' in text) == is_lie


async def _meet(liar, home, subject):
    """Gaps, until the liar was asked: NOTIFY says that there are entries, and brings none."""
    async with asyncio.timeout(TIMEOUT_S):
        while not liar.asked:
            await home.commit_many(NEWS_MAX + 2)
            await same(subject, home.applied)


async def test_a_peer_refuses_whom_the_same_entries_led_elsewhere(home):
    """In one round trip, by the digest: the hash of the last entry is the same."""
    async with node(home.settings("node-1")) as first:
        await known(first)
        tip = await home.commit_many(5)
        await same(first, home.applied)
        before, after = [await home.engine.metadata_at(Epoch(tip - back)) for back in (2, 1)]
        elsewhere = Applied(
            msgspec.structs.replace(before.metadata, epoch=after.metadata.epoch), after.hash
        )
        async with new_session(None, after.metadata.cluster.id) as session:
            clock = asyncio.get_running_loop().time
            peers = Peers(session, lambda: {first.engine.node: first.url}, clock)
            page = await peers.page(after)
            assert page is not None
            assert [sealed.epoch for sealed in page.entries] == [tip]
            assert await peers.page(elsewhere) is None
            request = page_request(elsewhere)
            answer = await ask(session, first.url, request, timeout_s=TIMEOUT_S)
            problem = msgspec.json.decode(answer.body)
            assert (answer.status, problem["code"], problem["field"]) == (409, "diverged", "digest")


async def test_a_peer_that_speaks_no_http_is_no_harm(home):
    async def babble(reader, writer):
        await reader.read(100)
        writer.write(b"\x00\xff" * 1000)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(babble, ADDRESS, 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await home.commit(_registration(f"{ADDRESS}:{port}"))
        await _goes_on(home)


@pytest.mark.parametrize(
    "address",
    [
        "a" * 100 + ":80",
        "..:80",
        "no-such-host.invalid:80",
        "127.0.0.1:99999",
        "user:pw@127.0.0.1:1",
        "127.0.0.1/../:1",
    ],
)
async def test_an_address_that_is_none_is_no_harm(home, address):
    """The directory takes any text that ends with a port."""
    await home.commit(_registration(address))
    await _goes_on(home)


async def test_a_peer_that_takes_no_answer_back_is_no_harm(home):
    """It accepts connections and never says a word."""
    with socket.socket() as deaf:
        deaf.bind((ADDRESS, 0))
        deaf.listen(1)
        await home.commit(_registration(f"{ADDRESS}:{deaf.getsockname()[1]}"))
        await _goes_on(home)


async def _goes_on(home):
    async with node(home.settings("node-1", notify=True)) as subject:
        await known(subject)
        for _ in range(3):
            await home.commit_many(NEWS_MAX + 5)
            await same(subject, home.applied)


async def test_a_node_at_anothers_address_is_not_taken_for_it(home):
    """Two nodes swap their addresses; each refuses what is meant for the other."""
    async with node(home.settings("node-1", notify=True)) as first:
        await known(first)
        settings = home.settings("node-2", notify=True)
        async with node(settings) as second:
            await known(second)
            await same(second, home.applied)
            numbers = first.engine.node, second.engine.node
            ghost = await home.commit(_registration("127.0.0.1:9", host="ghost"))
            moved = Startup(node=numbers[1], addresses={"http": "127.0.0.1:10"}, version="1")
            await home.commit(moved)
            taken = Startup(
                node=ghost.result.node, addresses={"http": settings.advertised}, version="1"
            )
            await home.commit(taken)
            await home.commit_many(20)
            await same(first, home.applied)
            await same(second, home.applied)
            status, problem = await get(
                f"{second.url}/v1/log?after=0", Ringlog_To=str(ghost.result.node)
            )
            assert (status, problem["code"]) == (409, "wrong_node")


def _registration(address, host="liar"):
    return Register(
        host_id=host, addresses={"http": address}, datacenter="dc1", rack="r1", version="1"
    )


def test_the_lies_are_lies():
    """What the honest peer would have said is believed."""
    applied = history().applied
    assert page_in(container([], {"tip": "7"}), applied).tip == 7


def test_no_more_is_taken_than_was_asked_for():
    """A false chain is as good as a true one until it is applied, and may have any length."""
    applied = history().applied
    first = msgspec.structs.replace(STRANGERS[-1].entry, epoch=Epoch(applied.metadata.epoch + 1))
    forged = _chained([seal(first, applied.hash)], PAGE_ENTRIES + 500)

    assert len(page_in(_page(forged), applied).entries) == PAGE_ENTRIES
