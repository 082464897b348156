"""From a running cluster into an archive, into another database, and on from there."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from uuid import UUID

import aiohttp
import asyncpg
import pytest

from audit.exporting import export
from audit.folder import folder
from audit.keys import save
from services.local.ports import HeldPorts
from tests.archives import KEY, archived, entries_of
from tests.integration.test_audit_reproduce import DEADLINE_S, HONEST, ended, started
from tests.integration.test_cms_reads import populated
from tests.integration.test_cms_serving import FOUNDING, Client
from tests.integration.trimmed import asked, audit

ENTRIES = entries_of(300)
ASKED = (
    "/v1/log?after=0&limit=100",
    "/v1/log/7",
    *(f"/v1/metadata?at={epoch}" for epoch in range(10)),
    "/v1/metadata",
    "/v1/owners?keyspace=k&token=700",
    "/v1/diff?from=2&to=9",
    "/v1/metadata/sequences",
    "/v1/proofs/inclusion?epoch=4&size=9",
)


@pytest.fixture
def ports():
    with HeldPorts() as held:
        yield held


@asynccontextmanager
async def cms(dsn, ports):
    """A process of its own, until it is no longer needed."""
    process, url = await started(dsn, HONEST, ports)
    try:
        async with aiohttp.ClientSession(url) as session:
            await until_ready(session, process)
            yield Client(session, None, None)
    finally:
        process.terminate()
        await ended(process)


async def until_ready(session, process):
    async with asyncio.timeout(DEADLINE_S):
        while not await is_ready(session):
            assert process.returncode is None, "it ended"
            await asyncio.sleep(0.05)


async def is_ready(session):
    try:
        async with session.get("/readyz") as response:
            return response.status == 200
    except aiohttp.ClientConnectionError:
        return False


async def answers(client):
    found = {}
    for path in ASKED:
        response, body = await client.get(path)
        found[path] = (response.status, body)
    return found


async def test_a_cluster_goes_on_in_another_database(database, blank_database, ports, tmp_path):
    """The same answers about every epoch, also to a retry, and then the next steps."""
    again = str(UUID(int=77))
    async with cms(database, ports) as client:
        assert (await client.commit(**FOUNDING))[0] == 200
        await populated(client)
        first = await client.commit("SetExtension", name="a", value="1", entry_id=again)
        status, refused = await client.commit("PrepareJoin", node=3, tokens=["600"])
        assert status == 409
        before = await answers(client)
        exported = await audit("export", tmp_path, "--url", client.session._base_url)
    assert exported.exit_code == 0, exported.output
    await asked(database, "DROP SCHEMA public CASCADE")

    imported = await audit("import", tmp_path, RINGLOG_POSTGRES_DSN=blank_database)
    assert imported.exit_code == 0, imported.output
    assert "epochs 1 to 10: consistent, not anchored" in imported.output
    async with cms(blank_database, ports) as client:
        assert await answers(client) == before
        assert await client.commit("SetExtension", name="a", value="1", entry_id=again) == first
        status, same = await client.commit("PrepareJoin", node=3, tokens=["600"])
        assert (status, same["code"]) == (409, refused["code"])
        status, next_one = await client.commit("SetExtension", name="b", value="2")
        assert (status, next_one["epoch"]) == (200, 11)
        grown = await audit("export", tmp_path, "--url", client.session._base_url, "--json")
    assert json.loads(grown.stdout)["hash"] == next_one["hash"]
    assert (await audit("verify", tmp_path, "--recompute")).exit_code == 0


@pytest.fixture
def half_signed(tmp_path):
    """Signed up to 200 of 300."""
    save(KEY, tmp_path / "log.key")
    archived(tmp_path / "archive", ENTRIES[:200], snapshots=set())
    export(ENTRIES[199:], folder(tmp_path / "archive"))
    return tmp_path / "archive", ("--key", tmp_path / "log.key.pub")


async def test_what_is_not_signed_is_not_imported_by_key(blank_database, half_signed):
    place, key = half_signed
    refused = await audit("import", place, *key, RINGLOG_POSTGRES_DSN=blank_database)
    assert refused.exit_code == 1
    assert "Nothing is imported" in refused.output
    assert "up to 200; consistent, not anchored, behind that" in refused.output
    with pytest.raises(asyncpg.UndefinedTableError):
        await asked(blank_database, "SELECT * FROM lineage")

    words = ("import", place, *key, "--unsigned", "--json")
    taken = await audit(*words, RINGLOG_POSTGRES_DSN=blank_database)

    assert taken.exit_code == 0, taken.output
    assert json.loads(taken.stdout)["anchored_by"] == []
    (row,) = await asked(blank_database, "SELECT anchored_by, epoch FROM lineage")
    assert (list(row["anchored_by"]), row["epoch"]) == ([], 300)


async def test_what_is_signed_is_imported_and_says_by_whom(blank_database, half_signed):
    place, key = half_signed
    export(ENTRIES[299:], folder(place), keys=[KEY])

    taken = await audit("import", place, *key, RINGLOG_POSTGRES_DSN=blank_database)

    assert taken.exit_code == 0, taken.output
    assert "epochs 1 to 300: verified and anchored by ringlog.example/log" in taken.output
    (row,) = await asked(blank_database, "SELECT anchored_by FROM lineage")
    assert list(row["anchored_by"]) == ["ringlog.example/log"]
