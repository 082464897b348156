"""The sequencer over a real Postgres: races, retries, refusals and lost connections."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from uuid import uuid4

import asyncpg
import pytest

from encoding.entries import EntryId
from log import postgres
from log.batch import Proposal, Request, Reused, Stamp
from log.chain import Tip
from log.postgres import PostgresLog
from log.postgres_sessions import NotDurableError, Sessions
from log.replay import replay
from log.store import Committed, Refusal
from metadata.epoch import EMPTY, Epoch
from services.cms.engine import running
from snapshots.postgres import PostgresSnapshots
from transformations.directory import Register
from transformations.extensions import ClearExtension, SetExtension
from transformations.initialize import Initialize, TriggerSnapshot
from transformations.outcome import Reason


def proposal(transformation, entry_id=None):
    return Proposal(entry_id=EntryId(entry_id or uuid4()), transformation=transformation)


def single(transformation, entry_id=None):
    return Request((proposal(transformation, entry_id),))


def register(number):
    return Register(
        host_id=f"host-{number}",
        addresses={"native": f"10.0.0.1:{number}"},
        datacenter="dc1",
        rack="r1",
        version="1",
    )


@asynccontextmanager
async def cms(dsn, name="cms-1"):
    sessions = Sessions(dsn)
    try:
        async with running(
            name, PostgresLog(sessions), PostgresSnapshots(sessions), lambda: Stamp(name, 1)
        ) as engine:
            yield engine
    finally:
        await sessions.close()


@pytest.fixture
async def founded(database):
    async with cms(database) as engine:
        await engine.commit(single(Initialize(name="test")))
    return database


async def everything(dsn):
    sessions = Sessions(dsn)
    entries = await PostgresLog(sessions).read_after(EMPTY, entries_max=100_000, bytes_max=1 << 30)
    await sessions.close()
    return entries


async def test_concurrent_commits_leave_no_gap(founded):
    """Four processes, no lease, many proposals each: every epoch once, and the chain holds."""
    async with (
        cms(founded, "a") as a,
        cms(founded, "b") as b,
        cms(founded, "c") as c,
        cms(founded, "d") as d,
    ):
        engines = [a, b, c, d]
        answers = await asyncio.gather(
            *(engines[number % 4].commit(single(register(number))) for number in range(1, 201))
        )

    epochs = sorted(answer.epoch for (answer,) in answers)
    assert epochs == list(range(2, 202))
    assert replay(await everything(founded)).metadata.epoch == 201


async def test_batches_of_different_lengths_race(founded):
    async with cms(founded, "a") as a, cms(founded, "b") as b:
        requests = [
            Request(
                tuple(
                    proposal(SetExtension(name=f"k{number}_{index}", value="v"))
                    for index in range(1 + number % 7)
                )
            )
            for number in range(40)
        ]
        answers = await asyncio.gather(
            *((a, b)[number % 2].commit(request) for number, request in enumerate(requests))
        )

    total = sum(len(request.proposals) for request in requests)
    assert sorted(item.epoch for answer in answers for item in answer) == list(range(2, total + 2))


async def test_a_retry_gets_the_first_answer(founded):
    """Also from another process, and although it would be refused on its merits now."""
    entry_id = uuid4()
    async with cms(founded, "a") as a:
        (first,) = await a.commit(single(register(1), entry_id))
    async with cms(founded, "b") as b:
        (second,) = await b.commit(single(register(1), entry_id))

    assert isinstance(first, Committed)
    assert first == second


async def test_the_founding_entry_can_be_sent_again(database):
    entry_id = uuid4()
    async with cms(database, "a") as a, cms(database, "b") as b:
        answers = await asyncio.gather(
            *(engine.commit(single(Initialize(name="test"), entry_id)) for engine in (a, b, a, b))
        )

    assert {answer.epoch for (answer,) in answers} == {1}
    assert {answer.result.cluster for (answer,) in answers} == {str(entry_id)}


async def test_two_founders_found_one_cluster(database):
    async with cms(database, "a") as a, cms(database, "b") as b:
        answers = await asyncio.gather(
            *(engine.commit(single(Initialize(name=engine.name))) for engine in (a, b))
        )

    kinds = sorted(type(answer).__name__ for (answer,) in answers)
    assert kinds == ["Committed", "Refusal"]


async def test_a_refusal_is_final(founded):
    """What was refused stays refused under its id, although it would be accepted now."""
    entry_id = uuid4()
    async with cms(founded) as engine:
        (first,) = await engine.commit(single(ClearExtension(name="later"), entry_id))
        await engine.commit(single(SetExtension(name="later", value="1")))
        (second,) = await engine.commit(single(ClearExtension(name="later"), entry_id))
        (fresh,) = await engine.commit(single(ClearExtension(name="later")))

    assert isinstance(first, Refusal)
    assert first.rejected.reason is Reason.UNKNOWN_EXTENSION
    assert second == first
    assert isinstance(fresh, Committed)


async def test_an_id_used_for_something_else_is_noticed(founded):
    entry_id = uuid4()
    async with cms(founded) as engine:
        await engine.commit(single(SetExtension(name="a", value="1"), entry_id))
        (answer,) = await engine.commit(single(SetExtension(name="a", value="2"), entry_id))

    assert answer == Reused(EntryId(entry_id))


async def test_an_atomic_request_is_all_or_nothing(founded):
    async with cms(founded) as engine:
        good = Request((proposal(register(1)), proposal(register(2))), atomic=True)
        bad = Request(
            (proposal(register(3)), proposal(register(1)), proposal(register(4))), atomic=True
        )
        kept = await engine.commit(good)
        dropped = await engine.commit(bad)
        nodes = len(engine.applied.metadata.directory.nodes)

    assert [answer.epoch for answer in kept] == [2, 3]
    assert isinstance(dropped[-1], Refusal)
    assert len(dropped) == 2
    assert nodes == 2


async def test_an_append_that_hangs_and_is_refused_meanwhile_stays_refused(founded):
    """The hole of check-then-insert: the first try is released only after its refusal.

    An append of the entry hangs in an open transaction; the retry waits for it on the index of
    decided ids, and whichever comes first is the answer of both.
    """
    entry_id = uuid4()
    hanging = await asyncpg.connect(founded)
    transaction = hanging.transaction()
    await transaction.start()
    await hanging.execute(
        "INSERT INTO decisions (entry_id, request, epoch, hash, result) VALUES ($1, $2, 2, $2, $2)",
        entry_id,
        bytes(32),
    )
    async with cms(founded) as engine:
        retry = asyncio.ensure_future(engine.commit(single(register(1), entry_id)))
        done, _ = await asyncio.wait([retry], timeout=0.3)
        assert not done
        await transaction.rollback()
        (answer,) = await retry
    await hanging.close()

    assert isinstance(answer, Committed)
    assert answer.epoch == 2


async def test_an_append_behind_its_deadline_does_nothing(founded):
    """A statement that lay in a broken connection for long must not take effect late."""
    sessions = Sessions(founded)
    async with cms(founded) as engine:
        onto = engine.applied.tip
    (last,) = (await everything(founded))[-1:]
    assert Tip(last.epoch, last.hash) == onto
    nothing: list[list[object]] = [[] for _ in range(7 + 11)]

    held = await sessions.append(
        postgres._APPEND, (onto.epoch, onto.hash), (*nothing, "1"), valid_for_s=-1
    )
    await sessions.close()

    assert held is False


async def test_backends_killed_under_load_lose_nothing(founded):
    """Each kill leaves an append in doubt; it is resolved by entry id."""
    async with cms(founded, "a") as a, cms(founded, "b") as b:
        killer = await asyncpg.connect(founded)

        async def kill():
            for _ in range(10):
                await asyncio.sleep(0.02)
                await killer.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name LIKE 'ringlog%' AND datname = current_database()"
                )

        killing = asyncio.ensure_future(kill())
        answers = []
        for start in range(1, 301, 20):
            answers += await asyncio.gather(
                *(
                    (a, b)[number % 2].commit(single(register(number)))
                    for number in range(start, start + 20)
                )
            )
        await killing
        await killer.close()

    entries = await everything(founded)
    by_id = {entry.entry_id: entry.epoch for entry in entries}
    assert all(by_id[answer.entry_id] == answer.epoch for (answer,) in answers)
    assert replay(entries).metadata.epoch == 301


async def test_reads_are_linearizable(founded):
    """A read through any process sees what another process acknowledged before it."""
    async with cms(founded, "a") as a, cms(founded, "b") as b:
        for number in range(1, 20):
            (answer,) = await a.commit(single(register(number)))
            assert (await b.latest()).metadata.epoch >= answer.epoch


async def test_the_guard_uses_the_index(founded):
    """On a nearly empty log Postgres would rather scan; the prepared plan would stay so."""
    connection = await asyncpg.connect(founded, server_settings={"enable_seqscan": "off"})
    guard = postgres._GUARD_TIP.replace("$1", "1").replace("$2", r"'\x00'").replace("$3", "now()")
    plan = "\n".join(row[0] for row in await connection.fetch("EXPLAIN " + guard))
    await connection.close()

    assert "Index" in plan
    assert "Seq Scan" not in plan


async def test_a_server_that_is_not_durable_is_refused(database):
    connection = await asyncpg.connect(database)
    await connection.execute(
        f"ALTER DATABASE {database.rpartition('/')[2]} SET synchronous_commit = off"
    )
    await connection.close()

    async with cms(database) as engine:
        sessions = Sessions(database)
        with pytest.raises(NotDurableError, match="synchronous_commit"):
            await sessions.append("SELECT 1", (0, b""), (), valid_for_s=1)
        assert engine.applied.metadata.epoch == EMPTY


async def test_a_snapshot_shortens_the_restart_and_a_broken_one_is_passed_over(founded):
    async with cms(founded) as engine:
        for number in range(1, 6):
            await engine.commit(single(register(number)))
        await engine.commit(single(TriggerSnapshot()))
        for _ in range(100):
            if await engine.snapshot_epochs():
                break
            await asyncio.sleep(0.02)
        digest = engine.applied.metadata.digest
        (info,) = await engine.snapshot_epochs()
    assert info.epoch == 7
    connection = await asyncpg.connect(founded)
    await connection.execute("UPDATE snapshots SET image = '\\x00'")
    await connection.close()

    async with cms(founded) as engine:
        assert engine.applied.metadata.digest == digest
        assert (await engine.metadata_at(Epoch(3))).metadata.epoch == 3
