"""What a node applies, what it refuses, and what it serves while something is wrong."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import suppress
from itertools import pairwise

import aiohttp
import asyncpg
import msgspec
import pytest
from aiohttp import web

from client.client import Client
from client.pages import page_in
from client.standing import State
from log.chain import seal
from log.containers import MEDIA_TYPE, container
from log.replay import Applied
from metadata.epoch import Epoch
from services.http.reports import REPORT_EVERY_S, REPORTS_PATH
from services.local.waiting import until
from tests.fixtures.postgres import _address, _made_database
from tests.integration.nodes import (
    TIMEOUT_S,
    Between,
    Told,
    get,
    house,
    known,
    node,
    reached,
    same,
    serving,
    sql,
)
from transformations.extensions import SetExtension

LOG_PATHS = ("/v1/epoch", "/v1/log?after=1", "/v1/log/2", "/v1/log/stream?after=1")
SNAPSHOT_PATHS = ("/v1/snapshots", "/v1/snapshots/1")


@pytest.fixture
async def home(database, tmp_path):
    async with house(database, tmp_path) as made:
        yield made


def is_gapless(told):
    """Each version follows the one before, and whatever is no single step says that it jumps."""
    changes = told.changes
    joined = all(
        before.metadata.epoch == after.previous.epoch for before, after in pairwise(changes)
    )
    return joined and all(
        change.is_jump or change.metadata.epoch == change.previous.epoch + 1 for change in changes
    )


async def become(subject, state):
    await until(lambda: subject.engine.following.standing.state is state, timeout_s=TIMEOUT_S)


async def test_a_snapshot_is_a_jump_that_listeners_are_told_of(home):
    await home.commit_many(300)
    snapshot = await home.take_snapshot()
    await home.commit_many(3)
    told = Told()
    async with node(home.settings("node-1")) as subject:
        subject.listeners.add(told)
        await known(subject)
        await same(subject, home.applied)
        status, text = await get(f"{subject.url}/metrics")

    assert told.steps[0] == (0, snapshot)
    assert told.changes[0].is_jump
    assert is_gapless(told)
    assert status == 200
    assert b"ringlog_jumps_total 1.0" in text


async def test_a_late_listener_first_gets_the_whole(home):
    async with node(home.settings("node-1")) as subject:
        await known(subject)
        await same(subject, home.applied)
        told = Told()
        subject.listeners.add(told)
        tip = home.applied.metadata.epoch
        await reached(subject, await home.commit_many(2))
        await until(lambda: len(told.changes) == 3, timeout_s=TIMEOUT_S)

    assert told.steps == [(0, tip), (tip, tip + 1), (tip + 1, tip + 2)]


async def test_a_damaged_snapshot_of_the_cms_is_not_believed(home):
    await home.commit_many(300)
    snapshot = await home.take_snapshot()
    await home.commit_many(3)
    connection = await asyncpg.connect(home.dsn)
    try:
        await connection.execute(
            "UPDATE snapshots SET image = set_byte(image, length(image) / 2, "
            "get_byte(image, length(image) / 2) # 255) WHERE epoch = $1",
            snapshot,
        )
    finally:
        await connection.close()
    told = Told()
    async with node(home.settings("node-1")) as subject:
        subject.listeners.add(told)
        await known(subject)
        await same(subject, home.applied)

    assert not any(change.is_jump for change in told.changes)
    assert is_gapless(told)


async def two_snapshots(home, settings):
    """A node that has been there for two snapshots, and keeps both."""
    async with node(settings) as subject:
        await known(subject)
        for _ in range(2):
            await home.commit_many(5)
            await home.take_snapshot()
            # Of two that it applied at once it would keep one.
            await same(subject, home.applied)
        await home.commit_many(5)
        await same(subject, home.applied)
        return subject.engine.applied


async def test_a_damaged_snapshot_of_its_own_is_replaced_by_the_older_one(home):
    settings = home.settings("node-1")
    applied = await two_snapshots(home, settings)
    (newest,) = sql(settings, "SELECT max(epoch) FROM journal_snapshots")[0]
    sql(settings, "UPDATE journal_snapshots SET image = x'c301ff' WHERE epoch = ?", newest)
    await home.close_cms()

    async with node(settings) as subject:
        await same(subject, applied)

    kept = [epoch for (epoch,) in sql(settings, "SELECT epoch FROM journal_snapshots")]
    assert newest not in kept
    assert len(kept) == 1


@pytest.mark.parametrize("place", ["header", "middle", "end", "cut"])
async def test_no_damage_to_a_snapshot_of_its_own_is_fatal(home, place):
    settings = home.settings("node-1")
    applied = await two_snapshots(home, settings)
    for epoch, image in sql(settings, "SELECT epoch, image FROM journal_snapshots"):
        at = {"header": 3, "middle": len(image) // 2, "end": -1, "cut": 0}[place]
        changed = bytearray(image)
        changed[at] ^= 0xFF
        written = image[:-5] if place == "cut" else bytes(changed)
        sql(settings, "UPDATE journal_snapshots SET image = ? WHERE epoch = ?", written, epoch)

    async with node(settings) as subject:
        await same(subject, applied)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE journal_entries SET payload = x'00' WHERE epoch = ?",
        "UPDATE journal_entries SET hash = zeroblob(32) WHERE epoch = ?",
        "UPDATE journal_entries SET previous_hash = zeroblob(32) WHERE epoch = ?",
        "DELETE FROM journal_entries WHERE epoch = ?",
        "DELETE FROM journal_entries WHERE epoch = ? OR epoch = 1",
    ],
)
async def test_a_damaged_entry_of_its_own_is_fetched_again(home, damage, capsys):
    settings = home.settings("node-1")
    async with node(settings) as subject:
        await known(subject)
        tip = await home.commit_many(20)
        await same(subject, home.applied)
    bad = tip - 10
    sql(settings, damage, bad)
    capsys.readouterr()

    told = Told()
    async with node(settings) as subject:
        assert subject.engine.applied.metadata.epoch < bad
        subject.listeners.add(told)
        await same(subject, home.applied)
        assert "copy_damaged" in capsys.readouterr().out

    assert is_gapless(told)
    assert sql(settings, "SELECT count(*), max(epoch) FROM journal_entries")[0] == (tip, tip)


async def test_a_file_that_is_no_database_is_refused_in_one_sentence(home):
    settings = home.settings("node-1")
    settings.state_dir.mkdir()
    (settings.state_dir / "node.sqlite").write_bytes(b"not a database" * 500)
    with pytest.raises(Exception, match=r"node\.sqlite") as caught:
        async with node(settings):
            pass
    assert not isinstance(caught.value, sqlite3.Error)


async def test_a_log_that_lost_its_tail_is_noticed_and_not_followed(home, postgres, capsys):
    """The database comes back without its last entries, and later with them again."""
    settings = home.settings("node-1")
    async with node(settings) as subject:
        await known(subject)
        await home.commit_many(5)
        await same(subject, home.applied)
        tip = home.applied.metadata.epoch
        await home.close_cms()
        name = home.dsn.rpartition("/")[2]
        async with _made_database(postgres, template=name) as copy:
            await home.open_cms()
            await home.commit_many(4)
            await same(subject, home.applied)
            whole = home.applied
            await home.close_cms()
            await home.open_cms(_address(postgres, copy))
            await become(subject, State.DIVERGED)

            status, problem = await get(f"{subject.url}/readyz")
            assert (status, problem["code"]) == (409, "diverged")
            assert f"Epoch {tip + 4} is beyond the tip" in problem["detail"]
            for path in (*LOG_PATHS, *SNAPSHOT_PATHS):
                assert (await get(f"{subject.url}{path}"))[0] == 409, path
            # It goes on reporting, by which the CMS learns that it has lost something.
            await until(lambda: home.engine.reporting.watch.divergence, timeout_s=TIMEOUT_S)
            assert (await get(f"{subject.url}/healthz"))[1]["status"] == "diverged"

            # A CMS that is gone takes nothing back.
            await home.close_cms()
            assert "state=diverged" in capsys.readouterr().out
            failures = subject.engine.following._asking
            before = failures._failures
            await until(lambda: failures._failures > before, timeout_s=TIMEOUT_S)
            assert (await get(f"{subject.url}/readyz"))[0] == 409

            await home.open_cms()
            await become(subject, State.FOLLOWING)
            await same(subject, whole)
            assert (await get(f"{subject.url}/readyz"))[0] == 200
            await home.close_cms()
    await home.open_cms()


async def test_streams_end_when_the_node_turns_out_wrong(home, postgres):
    async with node(home.settings("node-1")) as subject:
        await known(subject)
        await home.commit_many(5)
        await same(subject, home.applied)
        await home.close_cms()
        name = home.dsn.rpartition("/")[2]
        async with (
            _made_database(postgres, template=name) as copy,
            aiohttp.ClientSession() as session,
        ):
            await home.open_cms()
            await home.commit_many(4)
            await same(subject, home.applied)
            async with session.get(f"{subject.url}/v1/log/stream?after=1") as stream:
                assert stream.status == 200
                await stream.content.readuntil(b"\n\n")
                await home.close_cms()
                await home.open_cms(_address(postgres, copy))
                await become(subject, State.DIVERGED)
                await _ended(stream)
            await home.close_cms()
    await home.open_cms()


async def test_a_stream_ends_where_the_node_jumps(home):
    """Whoever comes back is told that what is next is not kept here."""
    between = Between(home.url)
    async with serving(between.answer) as address:
        settings = home.settings("node-1", seeds=(f"http://{address}",))
        async with node(settings) as subject:
            await known(subject)
            await same(subject, home.applied)
            after = home.applied.metadata.epoch
            where = settings.listen
            reader, writer = await asyncio.open_connection(where.host, where.port)
            writer.write(b"GET /v1/log/stream?after=%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % after)
            begun = await reader.readuntil(b"event: bookmark")
            between.twist = _no_log
            await home.commit_many(300)
            await become(subject, State.AWAY)
            await home.take_snapshot()
            between.twist = None
            await same(subject, home.applied)
            assert b"ringlog_jumps_total 1.0" in (await get(f"{subject.url}/metrics"))[1]

            async with asyncio.timeout(TIMEOUT_S):
                stream = begun + await reader.read()
            writer.close()
            status, problem = await get(f"{subject.url}/v1/log/stream", Last_Event_ID=str(after))

    assert stream.count(b"HTTP/1.1") == 1
    assert stream.endswith(b"\r\n0\r\n\r\n")
    assert (status, problem["code"]) == (410, "trimmed")


def _no_log(request, found):
    return web.Response(status=503) if request.path == "/v1/log" else found


async def _ended(stream):
    async with asyncio.timeout(TIMEOUT_S):
        with suppress(aiohttp.ClientPayloadError):
            while await stream.content.read(1 << 16):
                pass


async def test_an_entry_whose_digest_is_false_stops_the_node_for_good(home, capsys):
    """What the CMS says is true or something is broken; then nothing is served any more."""
    between = Between(home.url)
    async with serving(between.answer) as address:
        settings = home.settings("node-1", seeds=(f"http://{address}",))
        async with node(settings) as subject:
            await known(subject)
            await same(subject, home.applied)
            before = home.applied
            bad = before.metadata.epoch + 1
            between.twist = lambda request, found: _with_false_digest(request, found, before)
            await home.commit_many(3)
            await become(subject, State.STOPPED)

            for path in ("/readyz", *LOG_PATHS, *SNAPSHOT_PATHS):
                status, problem = await get(f"{subject.url}{path}")
                assert (status, problem["code"]) == (503, "unavailable"), path
                assert f"epoch {bad}" in problem["detail"]
                assert "digest" in problem["detail"]
            assert (await get(f"{subject.url}/healthz"))[0] == 200
            assert subject.engine.applied.hash == before.hash
            assert "state=stopped" in capsys.readouterr().out
        assert sql(settings, "SELECT max(epoch) FROM journal_entries")[0][0] == bad - 1

        # The next start is not trusted blindly either: it asks, and stops again.
        async with node(settings) as subject:
            await become(subject, State.STOPPED)
        between.twist = None
        async with node(settings) as subject:
            await same(subject, home.applied)


def _with_false_digest(request, found, before):
    """The same page, its first entry changed and everything sealed anew."""
    after = request.query.get("after", "")
    if request.path != "/v1/log" or after != str(before.metadata.epoch):
        return found
    page = page_in(found.body, Applied(before.metadata, before.hash))
    hash_, changed = before.hash, []
    for index, sealed in enumerate(page.entries):
        entry = sealed.entry
        if index == 0:
            entry = msgspec.structs.replace(entry, digest=bytes(32))
        changed.append(seal(entry, hash_))
        hash_ = changed[-1].hash
    body = container(changed, {"tip": str(page.tip)})
    found.body = body
    return found


async def test_a_message_for_another_node_is_refused(home):
    async with node(home.settings("node-1")) as subject:
        await known(subject)
        own = str(subject.engine.node)
        for path in ("/v1/epoch", "/v1/log?after=0", "/v1/log/stream?after=0"):
            status, problem = await get(f"{subject.url}{path}", Ringlog_To="77")
            assert (status, problem["code"]) == (409, "wrong_node"), path
            assert "not node 77" in problem["detail"]
        assert (await get(f"{subject.url}/v1/epoch", Ringlog_To=own))[0] == 200
        status, problem = await get(f"{subject.url}/v1/epoch", Ringlog_Cluster="another")
        assert (status, problem["code"]) == (409, "wrong_cluster")


async def test_who_is_ahead_of_a_node_waits_for_it(home):
    """To be behind is no other history, and nobody must ask in circles."""
    async with node(home.settings("node-1")) as subject:
        await known(subject)
        await same(subject, home.applied)
        tip = home.applied.metadata.epoch
        async with Client(subject.url) as client:
            following = client.follow(after=tip + 2)
            waiting = asyncio.create_task(anext(following))
            status, problem = await get(f"{subject.url}/v1/log/stream?after={tip + 2}")
            assert (status, problem["code"]) == (503, "unavailable")
            _, text = await get(f"{subject.url}/metrics")
            await until(subject.engine.following.in_touch.is_set, timeout_s=TIMEOUT_S)
            for number in range(3):
                await home.commit(SetExtension(name="a", value=str(number)))
            async with asyncio.timeout(TIMEOUT_S):
                assert (await waiting).epoch == tip + 3
            await following.aclose()
            _, text = await get(f"{subject.url}/metrics")
            asked = [
                float(line.rpartition(" ")[2])
                for line in text.decode().splitlines()
                if line.startswith("ringlog_requests_total") and 'path="/v1/log"' in line
            ]
            assert sum(asked) <= 5


async def test_how_old_the_lag_is_is_told(home):
    """It stays what it was while no CMS answers; for how long is what grows."""
    long_s = 2 * REPORT_EVERY_S
    async with node(home.settings("node-1")) as subject:
        await known(subject)
        await until(lambda: subject.engine.was_set_back is not None, timeout_s=TIMEOUT_S)
        await home.close_cms()
        await until(lambda: subject.engine.silence_s > long_s, timeout_s=TIMEOUT_S)
        health = (await get(f"{subject.url}/healthz"))[1]
        text = (await get(f"{subject.url}/metrics"))[1].decode()
        (silence,) = re.findall(r"^ringlog_log_silence_seconds (.+)$", text, re.MULTILINE)
        await home.open_cms()
        await until(lambda: subject.engine.silence_s < long_s, timeout_s=TIMEOUT_S)

    assert float(silence) >= health["silence_s"] > long_s


async def test_a_watermark_is_waited_for(home):
    async with node(home.settings("node-1")) as subject:
        await known(subject)
        await same(subject, home.applied)
        tip = home.applied.metadata.epoch
        waiting = asyncio.create_task(get(f"{subject.url}/v1/epoch?at_least={tip + 1}&wait=20"))
        await until(lambda: not waiting.done(), timeout_s=TIMEOUT_S)
        await home.commit(SetExtension(name="a", value="b"))
        status, body = await waiting
        assert (status, body["epoch"]) == (200, Epoch(tip + 1))


async def test_the_log_of_a_node_is_that_of_the_cms(home):
    async with node(home.settings("node-1")) as subject:
        await known(subject)
        await home.commit_many(30)
        await same(subject, home.applied)
        for path in ("/v1/log?after=0&limit=50", "/v1/log/7"):
            assert await get(f"{subject.url}{path}") == await get(f"{home.url}{path}")
            named = {"Accept": MEDIA_TYPE}
            assert await get(f"{subject.url}{path}", **named) == await get(
                f"{home.url}{path}", **named
            )


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"tip": "many", "now_us": 0}'])
async def test_an_answer_to_a_report_that_makes_no_sense_is_no_harm(home, body, capsys):
    between = Between(home.url)

    def twisted(request, found):
        return web.Response(body=body) if request.path == REPORTS_PATH else found

    async with (
        serving(between.answer) as address,
        node(home.settings("node-1", seeds=(f"http://{address}",))) as subject,
    ):
        await known(subject)
        between.twist = twisted
        capsys.readouterr()
        await until(lambda: "report_failed" in capsys.readouterr().out, timeout_s=TIMEOUT_S)
        await home.commit_many(3)
        await same(subject, home.applied)
