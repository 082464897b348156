"""`ringlog audit reproduce`, and a CMS process of a release that decides otherwise."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import asyncpg
import pytest
from typer.testing import CliRunner

from audit.reproduce import PostgresProofs, installed_release
from log.chain import NO_ENTRIES, Tip, tip_of
from log.postgres import PostgresLog
from log.postgres_room import make_room
from log.postgres_sessions import Sessions
from log.replay import replay
from metadata.epoch import EMPTY, Epoch
from ringlog.main import app
from services.local.ports import ADDRESS, ANY, HeldPorts
from snapshots.postgres import PostgresSnapshots
from tests.archives import archived, entries_of, snapshot_of

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0
ENTRIES = entries_of(300)
HONEST = "from services.cms.__main__ import main; main()"
UNPROVED = """
import asyncio
from audit import reproduce
from services.cms import __main__ as cms, proving
async def endless(self):
    await asyncio.Event().wait()
proving.Proving._prove = endless
cms.installed_release = lambda: reproduce.Release("9.9.9", bytes(32))
"""
FORGED = """
from transformations.extensions import SetExtension
decides = SetExtension.execute
def otherwise(self, metadata):
    value = "forged" if metadata.epoch == 122 else self.value
    return decides(SetExtension(name=self.name, value=value), metadata)
SetExtension.execute = otherwise
"""


@pytest.fixture
async def filled(database):
    """A log of 300 entries that no release was held against, with a snapshot at 250."""
    sessions = Sessions(database)
    await make_room(sessions, EMPTY)
    await PostgresLog(sessions).append(ENTRIES, onto=NO_ENTRIES)
    snapshot = snapshot_of(replay(ENTRIES[:250]))
    await PostgresSnapshots(sessions).save(snapshot, created_by="before")
    await sessions.close()
    return database


@pytest.fixture
def ports():
    with HeldPorts() as held:
        yield held


async def started(dsn, code, ports, name="cms-1"):
    others = {k: v for k, v in os.environ.items() if not k.startswith("RINGLOG_")}
    listen = {
        "RINGLOG_LISTEN": f"{ADDRESS}:{ports.hold_shared(ANY)}",
        "RINGLOG_OWN_LISTEN": f"{ADDRESS}:{ports.hold()}",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", code),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        cwd=ROOT,
        env={**others, **listen, "RINGLOG_POSTGRES_DSN": dsn, "RINGLOG_NAME": name},
    )
    return process, f"http://{listen['RINGLOG_OWN_LISTEN']}"


async def ended(process):
    try:
        _, said = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return process.returncode, said.decode()


async def kept_in(dsn):
    sessions = Sessions(dsn)
    try:
        return await PostgresProofs(sessions).find(installed_release())
    finally:
        await sessions.close()


async def until_kept(dsn):
    async with asyncio.timeout(DEADLINE_S):
        while True:
            found = await kept_in(dsn)
            if found is not None:
                return found
            await asyncio.sleep(0.05)


async def test_a_forged_release_refuses_to_sequence_and_names_the_epoch(filled, ports):
    process, _ = await started(filled, FORGED + HONEST, ports)

    code, said = await ended(process)

    assert code == 1, said
    assert "does not reproduce epoch 123 of this history" in said.splitlines()[-1]
    assert "Traceback" not in said
    assert await kept_in(filled) is None
    connection = await asyncpg.connect(filled)
    try:
        assert await connection.fetchval("SELECT count(*) FROM lease") == 0, "it never led"
    finally:
        await connection.close()


async def test_also_where_the_newest_snapshot_is_before_that_epoch(filled, ports):
    code = FORGED.replace("122", "260") + HONEST
    process, _ = await started(filled, code, ports)

    status, said = await ended(process)

    assert status == 1, said
    assert "does not reproduce epoch 261 of this history" in said.splitlines()[-1]
    assert "Traceback" not in said


@asynccontextmanager
async def running(dsn, code, ports, name="cms-1"):
    """A process that answers, until the block ends."""
    process, url = await started(dsn, code, ports, name)
    try:
        async with aiohttp.ClientSession(url) as session:
            await until_ready(session)
            yield process, session
    finally:
        if process.returncode is None:
            process.terminate()
            await ended(process)


async def until_ready(session):
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if await _asked(session, "/readyz") is not None:
                return
            await asyncio.sleep(0.05)


async def test_an_honest_release_goes_on_and_keeps_that_it_may(filled, ports):
    async with running(filled, HONEST, ports) as (process, session):
        assert await until_kept(filled) == tip_of(ENTRIES[-1])
        assert await _committed(session) == 200
    assert process.returncode == 0


async def test_one_that_is_not_proved_yet_reads_and_lets_another_sequence(filled, ports):
    async with (
        running(filled, HONEST, ports, "old") as (process, old),
        running(filled, UNPROVED + HONEST, ports, "new") as (_, new),
    ):
        assert await _asked(new, "/v1/metadata/cluster") is not None
        async with asyncio.timeout(DEADLINE_S):
            while (status := await _committed(new)) != 200:
                assert status == 503, "until one has learnt who sequences"
        assert (await _asked(old, "/healthz"))["sequencing"] is True
        assert (await _asked(new, "/healthz"))["sequencing"] is False
        process.terminate()
        await ended(process)
        assert await _committed(new) == 503, "nobody is left who may"


async def _asked(session, path):
    try:
        async with session.get(path) as response:
            return await response.json() if response.status == 200 else None
    except aiohttp.ClientConnectionError:
        return None


async def _committed(session):
    body = {
        "entry_id": str(uuid4()),
        "transformation": {"kind": "SetExtension", "name": "a", "value": "b"},
    }
    async with session.post("/v1/commit", json=body) as response:
        return response.status


def run(*words, **environment):
    clean = {"RINGLOG_URL": None, "RINGLOG_POSTGRES_DSN": None, "RINGLOG_TOKEN": None}
    said = ["audit", "reproduce", *map(str, words)]
    return CliRunner().invoke(app, said, env={**clean, **environment})


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return archived(tmp_path_factory.mktemp("a") / "archive", ENTRIES, snapshots={100, 250})


async def test_the_command_keeps_its_result_for_every_cms(filled, archive):
    missing = run("--archive", archive, "--keep")
    told = await asyncio.to_thread(
        run, "--archive", archive, "--keep", "--json", RINGLOG_POSTGRES_DSN=filled
    )

    assert missing.exit_code == 2
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["epoch"] == 300
    assert await kept_in(filled) == tip_of(ENTRIES[-1])


async def test_a_lesser_proof_of_the_same_log_takes_nothing_back(filled, archive):
    whole = ("--archive", archive, "--keep")
    first = await asyncio.to_thread(run, *whole, RINGLOG_POSTGRES_DSN=filled)
    again = await asyncio.to_thread(run, *whole, "--up-to", 10, RINGLOG_POSTGRES_DSN=filled)

    assert (first.exit_code, again.exit_code) == (0, 0), again.output
    assert await kept_in(filled) == tip_of(ENTRIES[-1])


async def test_a_proof_of_another_log_is_replaced(filled, archive):
    sessions = Sessions(filled)
    alien = Tip(Epoch(299), bytes(32))
    await PostgresProofs(sessions).keep(installed_release(), alien, by="another")
    await sessions.close()
    words = ("--archive", archive, "--keep", "--up-to", 10)

    told = await asyncio.to_thread(run, *words, RINGLOG_POSTGRES_DSN=filled)

    assert told.exit_code == 0, told.output
    assert await kept_in(filled) == tip_of(ENTRIES[9])


async def test_nothing_is_kept_beside_another_log_or_of_a_part(database, filled, archive, tmp_path):
    other = archived(tmp_path / "other", entries_of(300, salt="x"), snapshots=set())

    alien = await asyncio.to_thread(
        run, "--archive", other, "--keep", RINGLOG_POSTGRES_DSN=database
    )
    part = run("--archive", archive, "--after", 100, "--keep", RINGLOG_POSTGRES_DSN=filled)

    assert (alien.exit_code, "it is another one" in alien.output) == (1, True), alien.output
    assert (part.exit_code, "begins at the first epoch" in part.output) == (2, True)
    assert await kept_in(filled) is None


def test_a_release_that_decides_otherwise_is_told_the_epoch(archive):
    space: dict[str, Any] = {}
    exec(compile(FORGED, "forged", "exec"), space)
    try:
        said = run("--archive", archive)
        plain = run("--archive", archive, "--json")
        later = run("--archive", archive, "--after", 250)
    finally:
        space["SetExtension"].execute = space["decides"]

    assert (said.exit_code, plain.exit_code, later.exit_code) == (1, 1, 0)
    assert "does not reproduce epoch 123" in said.output
    assert (json.loads(plain.stdout)["holds"], json.loads(plain.stdout)["epoch"]) == (False, 123)
