"""Two processes that want the same thing of Postgres at the same moment."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import asyncpg

from encoding.entries import EntryId
from log import lease
from log.chain import NO_ENTRIES
from log.postgres import PostgresLog
from log.postgres_sessions import Sessions
from log.store import AlreadyDecided, Appended, Refusal
from metadata.epoch import EMPTY
from transformations.outcome import Reason, Rejected


async def test_who_comes_second_to_the_first_lease_learns_who_has_it(database):
    """Its statement waits for the other's row, which is younger than what it may see."""
    first = await asyncpg.connect(database)
    sessions = Sessions(database)
    try:
        async with asyncio.TaskGroup() as group, first.transaction():
            await first.execute(
                "INSERT INTO lease (name, holder, url, term, expires_at) "
                "VALUES ($1, 'a', 'http://a', 1, clock_timestamp() + interval '1 minute')",
                lease.NAME,
            )
            second = group.create_task(lease.take(sessions, holder="b", url="http://b"))
            await _blocked(first)
        assert second.result() == lease.Lease("a", "http://a", 1)
    finally:
        await sessions.close()
        await first.close()


async def test_retries_that_cross_do_not_lock_each_other_out(database):
    """The same refusals by two processes, in opposite orders: both claim the same ids."""
    first, second = Sessions(database), Sessions(database)
    try:
        for _ in range(10):
            refusals = [_refusal(uuid4()) for _ in range(2_000)]
            results = await asyncio.gather(
                PostgresLog(first).append([], onto=NO_ENTRIES, refusals=refusals),
                PostgresLog(second).append([], onto=NO_ENTRIES, refusals=refusals[::-1]),
            )
            assert {type(result) for result in results} == {Appended, AlreadyDecided}
    finally:
        await first.close()
        await second.close()


def _refusal(entry_id):
    rejected = Rejected(Reason.NOT_INITIALIZED, "this log has no founding entry yet")
    return Refusal(entry_id=EntryId(entry_id), epoch=EMPTY, proposal=b"p", rejected=rejected)


async def _blocked(connection):
    async with asyncio.timeout(10):
        while not await connection.fetchval(  # noqa: ASYNC110 - the event is in the database
            "SELECT count(*) FROM pg_locks "
            "WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        ):
            await asyncio.sleep(0.01)
