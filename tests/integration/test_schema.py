"""What the tables themselves promise, whoever writes to them."""

import asyncio
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import UUID, uuid4

import asyncpg
import pytest

HASH = sha256().digest()
INSERT_ENTRY = """
    INSERT INTO log_entries
        (epoch, entry_id, kind, payload, digest, previous_hash, hash, committed_at, committed_by)
    VALUES ($1, $2, 'Register', '', $3, $3, $3, now(), 'cms1')
"""
KEPT = {
    "log_entries": "kind",
    "log_entries_0": "kind",
    "log_entries_1": "kind",
    "log_origin": "claimed_at",
    "log_schemas": "schema",
}


@pytest.fixture
async def connection(database):
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


@pytest.fixture
async def other(database):
    """A second session, for races."""
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


async def append(connection, epoch, chain_hash=HASH):
    await connection.execute(INSERT_ENTRY, epoch, uuid4(), chain_hash)


async def partitions(connection):
    rows = await connection.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits "
        "WHERE inhparent = 'log_entries'::regclass"
    )
    return {row["name"] for row in rows}


@pytest.mark.parametrize("statement", ["UPDATE {} SET {} = {}", "DELETE FROM {}", "TRUNCATE {}"])
@pytest.mark.parametrize("role", ["origin", "replica"])
async def test_what_is_written_stays(connection, statement, role):
    """Also for the owner, also for no rows, also where triggers are turned off for replication."""
    await connection.execute(f"SET session_replication_role = {role}")

    for relation, column in KEPT.items():
        with pytest.raises(asyncpg.RestrictViolationError) as refused:
            await connection.execute(statement.format(relation, column, column))

        assert f"on {relation} is refused" in str(refused.value)
        assert "commit a new entry" in refused.value.hint


async def test_an_upsert_is_a_change(connection):
    await append(connection, 1)

    with pytest.raises(asyncpg.RestrictViolationError):
        await connection.execute(
            INSERT_ENTRY + "ON CONFLICT (epoch) DO UPDATE SET kind = 'Forged'", 1, uuid4(), HASH
        )


async def test_a_partition_attached_by_hand_is_no_way_around(connection):
    await connection.execute(
        "CREATE TABLE by_hand PARTITION OF log_entries FOR VALUES FROM (90000000) TO (91000000)"
    )
    await append(connection, 90_000_000)

    for statement in ("UPDATE by_hand SET kind = ''", "DELETE FROM by_hand"):
        with pytest.raises(asyncpg.RestrictViolationError):
            await connection.execute(statement)


async def test_an_epoch_is_appended_once(connection):
    await append(connection, 1)

    with pytest.raises(asyncpg.UniqueViolationError):
        await append(connection, 1)


async def test_a_malformed_entry_is_refused(connection):
    for epoch, size in ((0, 32), (-1, 32), (1, 31), (1, 33)):
        with pytest.raises(asyncpg.CheckViolationError):
            await append(connection, epoch, chain_hash=bytes(size))


async def test_the_log_begins_once(connection):
    await connection.execute("INSERT INTO log_origin DEFAULT VALUES")

    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.execute("INSERT INTO log_origin DEFAULT VALUES")
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute("INSERT INTO log_origin (is_claimed) VALUES (false)")


async def test_a_fingerprint_has_eight_bytes(connection):
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute("INSERT INTO log_schemas VALUES ($1, '{}')", bytes(7))


async def test_the_guard_of_an_append_is_an_index_scan(connection):
    """Statistics of an empty table favour reading it whole, and a prepared plan would keep that."""
    await append(connection, 1)
    await connection.execute("ANALYZE")
    await connection.execute("SET enable_seqscan = off")
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(
        "PREPARE guard (bigint, bytea) AS SELECT 1 FROM log_entries WHERE epoch = $1 AND hash = $2"
    )

    plan = await connection.fetch("EXPLAIN EXECUTE guard (1, '')")

    lines = [row["QUERY PLAN"] for row in plan]
    assert any("using log_entries_0_pkey" in line for line in lines), lines
    assert not any("Seq Scan" in line for line in lines), lines


async def test_the_log_is_extended_one_partition_ahead(connection):
    assert await partitions(connection) == {"log_entries_0", "log_entries_1"}

    await connection.execute("SELECT extend_log(999999)")
    assert await partitions(connection) == {"log_entries_0", "log_entries_1"}

    await connection.execute("SELECT extend_log(3000000)")
    assert await partitions(connection) == {f"log_entries_{number}" for number in range(5)}
    await append(connection, 4_999_999)


async def test_an_extension_is_as_append_only_as_the_rest(connection):
    await connection.execute("SELECT extend_log(2000000)")

    for statement in ("UPDATE {} SET kind = ''", "DELETE FROM {}", "TRUNCATE {}"):
        with pytest.raises(asyncpg.RestrictViolationError):
            await connection.execute(statement.format("log_entries_3"))


async def test_extensions_at_once_make_each_partition_once(database):
    connections = [await asyncpg.connect(database) for _ in range(8)]

    await asyncio.gather(
        *(
            each.execute(f"SELECT extend_log({million}000000)")
            for million, each in enumerate(connections, start=2)
        )
    )

    expected = {f"log_entries_{number}" for number in range(len(connections) + 3)}
    assert await partitions(connections[0]) == expected
    for each in connections:
        await each.close()


@pytest.mark.timeout(20)
async def test_extending_and_appending_do_not_wait_for_each_other(connection, other):
    async with connection.transaction():
        await append(connection, 1)
        await other.execute("SELECT extend_log(2000000)")

    async with other.transaction():
        await other.execute("SELECT extend_log(3000000)")
        await append(connection, 2)

    assert await connection.fetchval("SELECT count(*) FROM log_entries") == 2


async def test_what_was_trimmed_is_not_made_again(connection):
    await connection.execute("ALTER TABLE log_entries DETACH PARTITION log_entries_0")
    await connection.execute("DROP TABLE log_entries_0")

    await connection.execute("SELECT extend_log(2000000)")

    expected = {"log_entries_1", "log_entries_2", "log_entries_3"}
    assert await partitions(connection) == expected


async def test_the_log_is_not_extended_without_measure(connection):
    with pytest.raises(asyncpg.ProgramLimitExceededError, match="too far ahead"):
        await connection.execute("SELECT extend_log(9223372036854775807)")


async def decide(connection, entry_id=None, *, epoch=None, age=timedelta()):
    """Record an append at `epoch`, or else a refusal."""
    appended = epoch is not None
    await connection.execute(
        "INSERT INTO decisions VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        entry_id or uuid4(),
        b"request",
        epoch,
        HASH if appended else None,
        b"result" if appended else None,
        None if appended else b"refusal",
        None if appended else 0,
        datetime.now(UTC) - age,
    )


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE decisions SET request = '' WHERE entry_id = $1",
        "DELETE FROM decisions WHERE entry_id = $1",
    ],
)
@pytest.mark.parametrize("role", ["origin", "replica"])
async def test_a_decision_is_final(connection, statement, role):
    """Whether it was an append or, for a day, a refusal."""
    appended, refused = uuid4(), uuid4()
    await decide(connection, appended, epoch=1, age=timedelta(days=99))
    await decide(connection, refused, age=timedelta(hours=23))
    await connection.execute(f"SET session_replication_role = {role}")

    for entry_id in (appended, refused):
        with pytest.raises(asyncpg.RestrictViolationError, match="on decisions is refused"):
            await connection.execute(statement, entry_id)
    with pytest.raises(asyncpg.RestrictViolationError, match="on decisions is refused"):
        await connection.execute("TRUNCATE decisions")


async def test_only_old_refusals_are_forgotten(connection):
    young, old = timedelta(hours=23), timedelta(hours=25)
    await decide(connection, epoch=1, age=old)
    await decide(connection, age=young)
    await decide(connection, UUID(int=1), age=old)

    assert await connection.fetchval("SELECT forget_refusals()") == 1

    left = await connection.fetch("SELECT entry_id FROM decisions")
    assert len(left) == 2
    assert UUID(int=1) not in [row["entry_id"] for row in left]
    assert await connection.fetchval("SELECT forget_refusals()") == 0


HALF_DECIDED: list[dict[str, int | bytes]] = [
    {},
    {"epoch": 1, "hash": HASH},
    {"refusal": b""},
    {"epoch": 1, "hash": HASH, "result": b"", "refusal": b"", "refused_at": 1},
    {"epoch": 0, "hash": HASH, "result": b""},
    {"epoch": 1, "hash": b"short", "result": b""},
    {"refusal": b"", "refused_at": -1},
]


async def test_a_decision_is_either_an_append_or_a_refusal(connection):
    for columns in HALF_DECIDED:
        names = "".join(f", {name}" for name in columns)
        values = "".join(f", ${place}" for place, _ in enumerate(columns, start=1))

        with pytest.raises(asyncpg.CheckViolationError):
            await connection.execute(
                f"INSERT INTO decisions (entry_id, request{names}) "
                f"VALUES (gen_random_uuid(), ''{values})",
                *columns.values(),
            )


async def test_an_epoch_answers_one_entry(connection):
    await decide(connection, epoch=1)

    with pytest.raises(asyncpg.UniqueViolationError):
        await decide(connection, epoch=1)


async def test_a_refusal_waits_for_an_append_that_hangs(connection, other):
    """Both claim the entry id, so the second learns of the first however long that takes."""
    entry_id = uuid4()
    append_under_way = connection.transaction()
    await append_under_way.start()
    await decide(connection, entry_id, epoch=1)

    refusal = asyncio.ensure_future(decide(other, entry_id))
    await until_it_waits(connection, other.get_server_pid())
    await append_under_way.commit()

    with pytest.raises(asyncpg.UniqueViolationError):
        await refusal


async def until_it_waits(connection, session):
    waits_for = None
    async with asyncio.timeout(10):
        while waits_for != "Lock":
            waits_for = await connection.fetchval(
                "SELECT wait_event_type FROM pg_stat_get_activity($1)", session
            )
            # Inside a transaction the answer would otherwise stay the first one.
            await connection.execute("SELECT pg_stat_clear_snapshot()")
