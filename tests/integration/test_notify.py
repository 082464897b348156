"""NOTIFY tells of entries and brings them, where it may; and only tells of them where not."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from log.chain import NO_ENTRIES, tip_of
from log.follower import fanned_out
from log.notify import LOOK_EVERY_S, NEWS_MAX, bring, ignore_turn
from log.postgres import CHANNEL, PostgresLog
from log.postgres_sessions import Sessions
from log.sequencer import BEYOND_ALL
from metadata.epoch import EMPTY, Epoch
from services.local.waiting import until
from tests.golden.history import history

HISTORY = history().entries
FEW = HISTORY[:NEWS_MAX]
STRANGER = "ringlog_stranger"
LISTENING = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'
"""
CUT = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE 'SELECT epoch, payload, hash FROM log_entries%'
"""


@pytest.fixture
async def log(database):
    sessions = Sessions(database)
    yield PostgresLog(sessions)
    await sessions.close()


@asynccontextmanager
async def listening(dsn, *, position=EMPTY, on_turn=ignore_turn):
    """What was brought and told, in the order in which it came; `position` stands still."""
    came: list[Any] = []

    def receive(message):
        arrival = fanned_out(message)
        assert arrival is not None
        came.append((arrival.epoch, arrival.payload, arrival.hash))

    async with asyncio.TaskGroup() as group:
        task = group.create_task(
            bring(dsn, lambda: Epoch(position), receive, came.append, on_turn=on_turn)
        )
        await until(lambda: bool(came), timeout_s=10)  # it listens, and says so
        yield came
        task.cancel()


@asynccontextmanager
async def asking(dsn):
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


def news(came):
    """Without the looks at intervals, of which there are more on a slow machine."""
    return [each for each in came if each != BEYOND_ALL]


def brought(entries):
    return [(sealed.epoch, sealed.payload, sealed.hash) for sealed in entries]


async def test_entries_come_before_the_word_that_they_are_there(database, log):
    async with listening(database) as came:
        await log.append(FEW, onto=NO_ENTRIES)
        await until(lambda: bool(news(came)), timeout_s=10)
        await until(lambda: news(came)[-1] == FEW[-1].epoch, timeout_s=10)

    assert news(came) == [*brought(FEW), FEW[-1].epoch]


async def test_only_what_is_behind_the_position_is_brought(database, log):
    await log.append(FEW[:-2], onto=NO_ENTRIES)
    async with listening(database, position=FEW[-3].epoch) as came:
        await log.append(FEW[-2:], onto=tip_of(FEW[-3]))
        await until(lambda: FEW[-1].epoch in came, timeout_s=10)

    assert news(came) == [*brought(FEW[-2:]), FEW[-1].epoch]


async def test_whoever_is_far_behind_is_only_told(database, log):
    async with listening(database) as came:
        await log.append(HISTORY, onto=NO_ENTRIES)
        await until(lambda: bool(news(came)), timeout_s=10)

    assert news(came) == [HISTORY[-1].epoch]


async def test_whoever_may_not_read_the_log_is_only_told(database, log):
    async with a_stranger(database) as dsn, listening(dsn) as came:
        await log.append(FEW, onto=NO_ENTRIES)
        await until(lambda: bool(news(came)), timeout_s=10)

    assert news(came) == [FEW[-1].epoch]


@asynccontextmanager
async def a_stranger(database):
    """Somebody who may connect, and nothing else."""
    async with asking(database) as owner:
        await owner.execute(f"CREATE ROLE {STRANGER} LOGIN PASSWORD '{STRANGER}'")
        try:
            yield as_stranger(database)
        finally:
            await owner.execute(f"DROP ROLE {STRANGER}")


def as_stranger(database):
    parts = urlsplit(database)
    place = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{STRANGER}:{STRANGER}@{place}").geturl()


async def test_whom_the_server_does_not_let_in_looks_at_intervals(database, log):
    """Told once, until it is let in; nothing depends on it."""
    turns: list[Exception | None] = []
    async with listening(as_stranger(database), on_turn=turns.append) as came:
        await until(lambda: len(came) > 1, timeout_s=10)
        assert len(turns) == 1
        assert isinstance(turns[0], asyncpg.PostgresError)
        async with a_stranger(database):
            await until(lambda: len(turns) > 1, timeout_s=10)
            await log.append(FEW, onto=NO_ENTRIES)
            await until(lambda: bool(news(came)), timeout_s=10)

    assert turns[1:] == [None]
    assert news(came) == [FEW[-1].epoch]


async def test_a_server_that_refuses_to_listen_is_asked_at_intervals(database, monkeypatch):
    """As a hot standby does."""
    asked: list[object] = []

    async def refuse(*arguments):
        asked.append(arguments)
        raise asyncpg.ReadOnlySQLTransactionError("cannot execute LISTEN during recovery")

    monkeypatch.setattr(asyncpg.Connection, "add_listener", refuse)
    turns: list[Exception | None] = []
    async with listening(database, on_turn=turns.append) as came:
        await until(lambda: len(came) > 1, timeout_s=10)
        assert len(asked) == len(came)

    assert set(came) == {BEYOND_ALL}
    assert len(turns) == 1


async def test_a_look_is_due_now_and_then_however_much_is_told(database):
    clock = asyncio.get_running_loop().time
    async with listening(database) as came, asking(database) as other:
        start_s = clock()
        for number in range(60):
            await other.execute("SELECT pg_notify($1, $2)", CHANNEL, str(number + 1))
            await asyncio.sleep(LOOK_EVERY_S / 25)
        await until(lambda: 60 in came, timeout_s=10)
        looks_max = (clock() - start_s) / LOOK_EVERY_S + 2

    assert 2 <= came.count(BEYOND_ALL) <= looks_max


async def test_a_connection_that_was_cut_is_made_again(database, log):
    async with listening(database) as came:
        await log.append(FEW[:3], onto=NO_ENTRIES)
        await until(lambda: FEW[2].epoch in came, timeout_s=10)
        async with asking(database) as owner:
            assert await owner.fetchval(CUT) == 1
            while not await owner.fetchval(LISTENING):  # noqa: ASYNC110 another process
                await asyncio.sleep(0.05)
        await log.append(FEW[3:], onto=tip_of(FEW[2]))
        await until(lambda: FEW[-1].epoch in came, timeout_s=10)

    assert news(came)[-1] == FEW[-1].epoch
    assert brought(FEW) == news(came)[-1 - len(FEW) : -1]
