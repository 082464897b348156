"""Bringing a database's schema up to date."""

import asyncio
import os
import shutil
import sys

import asyncpg
import pytest

from migrations.apply import apply
from migrations.failure import MigrationError
from migrations.files import FOLDER, load
from services.local.postgres import running
from tests.fixtures.postgres import server_folder

NAMES = [migration.name for migration in load()]


@pytest.fixture
def folder(tmp_path):
    """A copy of the migrations that a test may change."""
    copy = tmp_path / "migrations"
    copy.mkdir()
    for path in FOLDER.glob("*.sql"):
        shutil.copy(path, copy)
    return copy


@pytest.fixture
async def connection(blank_database):
    connection = await asyncpg.connect(blank_database)
    yield connection
    await connection.close()


async def test_applies_each_migration_in_order(connection):
    assert await apply(connection) == NAMES

    recorded = await connection.fetch("SELECT * FROM schema_migrations ORDER BY number")
    assert [row["name"] for row in recorded] == NAMES
    assert [row["checksum"] for row in recorded] == [each.checksum for each in load()]


async def test_a_second_run_does_nothing(blank_database):
    await apply(blank_database)

    assert await apply(blank_database) == []


async def test_runs_at_once_apply_each_migration_once(blank_database):
    runs = await asyncio.gather(*(apply(blank_database) for _ in range(8)))

    assert sorted(name for names in runs for name in names) == NAMES


async def test_waits_its_turn_whatever_isolation_is_the_default(blank_database):
    """A transaction that sees the past would apply again what another has just applied."""
    options = {"server_settings": {"default_transaction_isolation": "serializable"}}
    connections = [await asyncpg.connect(blank_database, **options) for _ in range(4)]

    runs = await asyncio.gather(*map(apply, connections))

    assert sorted(name for names in runs for name in names) == NAMES
    for connection in connections:
        await connection.close()


async def test_databases_of_one_server_migrate_at_once():
    """They share the role that the first migration creates, so this needs a server without it."""
    with server_folder() as folder:
        async with running(folder) as server:
            other = server.dsn.removesuffix("postgres") + "template1"

            for names in await asyncio.gather(apply(server.dsn), apply(other)):
                assert names == NAMES

            connection = await asyncpg.connect(server.dsn)
            assert not await connection.fetchval(
                "SELECT rolcanlogin FROM pg_roles WHERE rolname = 'ringlog_trimmer'"
            )
            await connection.close()


async def test_a_failure_leaves_whole_migrations(connection, folder):
    """What failed is undone to the last statement; once it is mended the next run goes on."""
    broken = folder / f"{len(NAMES) + 1:04}_broken.sql"
    broken.write_text("CREATE TABLE half (); SELECT 1 / 0;")

    with pytest.raises(MigrationError, match="_broken failed: division by zero"):
        await apply(connection, folder)

    assert await connection.fetchval("SELECT to_regclass('half')") is None
    assert await connection.fetchval("SELECT count(*) FROM schema_migrations") == len(NAMES)

    broken.write_text("CREATE TABLE half ();")
    assert await apply(connection, folder) == [broken.stem]


async def test_an_applied_file_must_not_change(connection, folder):
    await apply(connection, folder)
    first = folder / f"{NAMES[0]}.sql"
    first.write_text(first.read_text() + "-- harmless\n")

    with pytest.raises(MigrationError, match=f"{NAMES[0]} was changed"):
        await apply(connection, folder)


async def test_a_database_may_not_be_ahead_of_the_code(connection, folder):
    await apply(connection)
    (folder / f"{NAMES[-1]}.sql").unlink()

    with pytest.raises(MigrationError, match=f"newer than this release.*{NAMES[-1]}"):
        await apply(connection, folder)


async def test_the_record_may_have_no_gap(connection):
    await apply(connection)
    await connection.execute("DELETE FROM schema_migrations WHERE number = 2")

    with pytest.raises(MigrationError, match="no record of migration 2"):
        await apply(connection)


@pytest.mark.parametrize(
    ("removed", "added", "sentence"),
    [
        (NAMES[1], None, "Migration 2 is missing"),
        (None, "0001_again", "Migration 2 is missing or there twice"),
        (None, "later", "not named like a migration"),
    ],
)
async def test_the_files_must_be_numbered_without_gap(connection, folder, removed, added, sentence):
    if removed is not None:
        (folder / f"{removed}.sql").unlink()
    if added is not None:
        (folder / f"{added}.sql").write_text("SELECT 1")

    with pytest.raises(MigrationError, match=sentence):
        await apply(connection, folder)

    assert await connection.fetchval("SELECT to_regclass('schema_migrations')") is None


async def test_a_service_that_only_verifies_needs_no_right_to_create(connection, blank_database):
    await apply(connection)
    await connection.execute("GRANT SELECT ON schema_migrations TO ringlog_trimmer")
    await connection.execute("SET ROLE ringlog_trimmer")

    assert await apply(connection) == []


async def command(*arguments, **variables):
    environment = {"PATH": os.environ["PATH"], **variables}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "migrations", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
        cwd=FOLDER.parent,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_the_command_says_what_it_did(blank_database):
    first = await command("--dsn", blank_database)
    second = await command(RINGLOG_POSTGRES_DSN=blank_database)

    assert first == (0, "".join(f"applied {name}\n" for name in NAMES))
    assert second == (0, "up to date\n")


async def test_the_command_refuses_in_one_sentence(connection, blank_database):
    await apply(connection)
    await connection.execute("UPDATE schema_migrations SET checksum = '' WHERE number = 1")

    status, output = await command("--dsn", blank_database)

    assert status == 1
    assert output.startswith(f"{NAMES[0]} was changed after it was applied")
    assert output.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], 2), (["--dsn", "postgresql://127.0.0.1:1/nowhere"], 3)],
)
async def test_the_command_exits_by_the_kind_of_trouble(arguments, expected):
    status, output = await command(*arguments)

    assert status == expected
    assert "Traceback" not in output
