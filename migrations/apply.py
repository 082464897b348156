"""Bringing a database's schema up to date, forward only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import asyncpg

from migrations.failure import MigrationError
from migrations.files import FOLDER, Migration, load

CONNECT_TIMEOUT_S = 10.0
TURN_TIMEOUT_S = 60

# Any number will do, as long as nothing else in the database takes the same; "ringlog" in ASCII.
_TURN = 0x72696E676C6F67

_CREATE_RECORD = """
    CREATE TABLE schema_migrations (
        number integer PRIMARY KEY,
        name text NOT NULL,
        checksum bytea NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
    )
"""


async def apply(target: asyncpg.Connection | str, folder: Path = FOLDER) -> list[str]:
    """Apply what is missing and return its names; verify what is there.

    Any number of processes may do so at once. A crash leaves whole migrations, applied and
    recorded, and the next run goes on. A connection must not be inside a transaction.
    """
    migrations = load(folder)
    if not isinstance(target, str):
        return await _apply_all(target, migrations)
    connection = await asyncpg.connect(target, timeout=CONNECT_TIMEOUT_S)
    try:
        return await _apply_all(connection, migrations)
    finally:
        await connection.close(timeout=CONNECT_TIMEOUT_S)


async def _apply_all(connection: asyncpg.Connection, migrations: Sequence[Migration]) -> list[str]:
    assert not connection.is_in_transaction()
    applied: list[str] = []
    # Once more than there are migrations, to verify the last.
    for _ in range(len(migrations) + 1):
        following = await _apply_next(connection, migrations)
        if following is None:
            break
        applied.append(following.name)
    return applied


async def _apply_next(
    connection: asyncpg.Connection, migrations: Sequence[Migration]
) -> Migration | None:
    # After waiting for its turn a statement must see what the one before has done; a stricter
    # isolation, which a database may have as its default, would show it the past.
    async with connection.transaction(isolation="read_committed"):
        await _take_turn(connection)
        recorded = await _recorded(connection)
        _verify(migrations, recorded)
        if len(recorded) == len(migrations):
            return None
        following = migrations[len(recorded)]
        await _execute(connection, following)
        return following


async def _take_turn(connection: asyncpg.Connection) -> None:
    """Held to the end of the transaction, and so also through a pooler, or if we die."""
    await connection.execute(f"SET LOCAL lock_timeout = '{TURN_TIMEOUT_S}s'")
    try:
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _TURN)
    except asyncpg.LockNotAvailableError:
        raise MigrationError(
            f"Another process has been migrating this database for {TURN_TIMEOUT_S} s."
        ) from None


async def _recorded(connection: asyncpg.Connection) -> list[asyncpg.Record]:
    # Asked first, because a service that only verifies may lack the right to create tables.
    if await connection.fetchval("SELECT to_regclass('schema_migrations')") is None:
        await connection.execute(_CREATE_RECORD)
    rows: list[asyncpg.Record] = await connection.fetch(
        "SELECT number, name, checksum FROM schema_migrations ORDER BY number"
    )
    return rows


def _verify(migrations: Sequence[Migration], recorded: Sequence[asyncpg.Record]) -> None:
    """What was applied must be the beginning of what we know."""
    for place, row in enumerate(recorded, start=1):
        if row["number"] != place:
            raise MigrationError(f"The database has no record of migration {place}.")
    if len(recorded) > len(migrations):
        raise MigrationError(
            f"The database is newer than this release: it has migration {recorded[-1]['name']}, "
            f"we know {len(migrations)}."
        )
    for migration, row in zip(migrations, recorded, strict=False):
        if migration.checksum != row["checksum"]:
            raise MigrationError(
                f"{migration.name} was changed after it was applied: restore it and add a new one."
            )


async def _execute(connection: asyncpg.Connection, migration: Migration) -> None:
    try:
        await connection.execute(migration.sql)
    except asyncpg.PostgresError as error:
        raise MigrationError(f"{migration.name} failed: {error}") from error
    await connection.execute(
        "INSERT INTO schema_migrations (number, name, checksum) VALUES ($1, $2, $3)",
        migration.number,
        migration.name,
        migration.checksum,
    )
