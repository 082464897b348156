"""A log in Postgres that is cut into partitions of 1,000, and what it takes to trim it."""

from __future__ import annotations

import asyncio

import asyncpg
from typer.testing import CliRunner

from audit.exporting import export
from audit.folder import folder
from audit.keys import save
from log.chain import NO_ENTRIES
from log.postgres import PostgresLog
from log.postgres_room import divide, make_room
from log.postgres_sessions import Sessions
from log.store import Appended
from metadata.epoch import Epoch
from ringlog.main import app
from tests.archives import KEY

SIZE = 1000
BATCH = 500


async def filled(dsn, entries):
    """These entries in a log with small partitions."""
    sessions = Sessions(dsn)
    try:
        assert await divide(sessions, SIZE)
        onto = NO_ENTRIES
        for start in range(0, len(entries), BATCH):
            await make_room(sessions, Epoch(start))
            batch = entries[start : start + BATCH]
            outcome = await PostgresLog(sessions).append(batch, onto=onto)
            assert isinstance(outcome, Appended)
            onto = outcome.tip
    finally:
        await sessions.close()


def signed_archive(path, entries, snapshots=()):
    """An archive of these entries, with the key that signed it beside it."""
    key = path.with_name("log.key")
    if not key.exists():
        save(KEY, key)
    export(entries, folder(path), snapshots=snapshots, keys=[KEY])
    return f"{key}.pub"


async def audit(*words, **environment):
    """In a thread: the verbs run event loops of their own."""
    clean = {"RINGLOG_URL": None, "RINGLOG_POSTGRES_DSN": None, "RINGLOG_TOKEN": None}
    return await asyncio.to_thread(
        CliRunner().invoke, app, ["audit", *map(str, words)], env={**clean, **environment}
    )


async def trimmed(dsn, archive, up_to, *more):
    """What the verb answers."""
    key = f"{archive.with_name('log.key')}.pub"
    words = ("trim", "--up-to", up_to, "--archive", archive, "--key", key, *more)
    return await audit(*words, RINGLOG_POSTGRES_DSN=dsn)


async def asked(dsn, statement, *arguments):
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetch(statement, *arguments)
    finally:
        await connection.close()
