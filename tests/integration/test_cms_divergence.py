"""A Postgres that lost its tail is noticed and not followed, by every CMS process."""

from __future__ import annotations

from contextlib import asynccontextmanager
from urllib.parse import urlsplit
from uuid import uuid4

import aiohttp
import asyncpg
import pytest
from structlog.testing import capture_logs

from client.client import Client
from client.errors import DivergedError
from log import lease
from log.batch import Stamp
from log.postgres import PostgresLog
from log.postgres_sessions import Sessions
from services.cms.engine import running
from services.cms.forwarding import SEQUENCE_PATH, sequenced
from services.cms.http import serve
from services.cms.leading import Leading
from services.cms.reports.postgres import postgres_stores
from services.http.roles import Role, Tokens
from services.http.serving import Address
from snapshots.postgres import PostgresSnapshots
from tests.integration.test_cms_reports import cms, hash_at, nodes_of, populated, tell, until
from tests.integration.test_cms_serving import SECRETS, bearer, commit_body
from tests.integration.test_cms_serving import Client as Sender
from transformations.extensions import SetExtension


@asynccontextmanager
async def copy_of(dsn, postgres):
    """The database as it is now, under another name: a backup that will be restored."""
    name = f"ringlog_backup_{uuid4().hex}"
    original = urlsplit(dsn).path[1:]
    connection = await asyncpg.connect(postgres)
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE {original}")
    try:
        yield urlsplit(postgres)._replace(path=f"/{name}").geturl()
    finally:
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await connection.close()


@pytest.fixture
async def restored(database, postgres):
    """A database that ends at epoch 7, and the hash that a node has of its lost epoch 9."""
    async with cms(database) as client:
        await populated(client)
    async with copy_of(database, postgres) as backup:
        async with cms(database) as client:
            await client.set(2)
            lost = await hash_at(client, 9)
        yield backup, lost


async def is_stopped(client):
    response, _ = await client.get("/readyz")
    return response.status == 503


async def test_a_node_that_is_ahead_stops_all_commits(restored):
    dsn, lost = restored
    async with cms(dsn) as client:
        await client.get("/readyz")
        status, problem = await tell(client, 1, 9, hash=lost)
        assert (status, problem["code"], problem["tip"]) == (409, "diverged", 7)
        await until(lambda: is_stopped(client))
        for path, body in (
            ("/v1/commit", commit_body("TriggerSnapshot")),
            ("/v1/commit/batch", {"commits": [commit_body("TriggerSnapshot")]}),
        ):
            async with client.session.post(path, json=body) as response:
                problem = await response.json()
            assert (response.status, problem["code"]) == (503, "diverged_log")
            assert "Retry-After" not in response.headers
            assert "Node 1 has applied epoch 9 and the log ends at 7" in problem["detail"]
            assert "acknowledge" in problem["remedy"]
        _, problem = await client.get("/readyz")
        assert problem["code"] == "diverged_log"
        _, health = await client.get("/healthz")
        assert health["status"] == "diverged"
        assert "epoch 9" in health["detail"]
        _, text = await client.get("/metrics")
        assert "ringlog_diverged 1.0" in text.decode().splitlines()
        assert (await nodes_of(client))[1]["diverged"] is True
        assert client.engine.applied.metadata.epoch == 7


async def test_one_loud_line_names_node_and_epochs(restored):
    dsn, lost = restored
    with capture_logs() as lines:
        async with cms(dsn) as client:
            await tell(client, 1, 9, hash=lost)
            await until(lambda: is_stopped(client))
            await tell(client, 1, 9, hash=lost)
            await client.engine.reporting.watch.look()
    (line,) = [line for line in lines if line["event"] == "log_diverged"]
    assert (line["log_level"], line["node"], line["epoch"], line["tip"]) == ("critical", 1, 9, 7)
    assert line["hash"] == lost


async def test_another_hash_stops_it_too_and_reads_go_on(restored):
    dsn, _ = restored
    async with cms(dsn) as client:
        status, problem = await tell(client, 2, 5, hash="ab" * 32)
        assert (status, problem["code"]) == (409, "diverged")
        await until(lambda: is_stopped(client))
        response, _ = await client.get("/v1/metadata")
        assert response.status == 200


async def test_all_processes_stop_and_a_new_one_starts_stopped(restored):
    dsn, lost = restored
    async with cms(dsn, "a") as first, cms(dsn, "b") as second:
        await tell(first, 1, 9, hash=lost)
        await until(lambda: is_stopped(second))
        status, problem = await second.commit("TriggerSnapshot")
        assert (status, problem["code"]) == (503, "diverged_log")
    async with cms(dsn, "c") as third:
        status, problem = await third.commit("TriggerSnapshot")
        assert (status, problem["code"]) == (503, "diverged_log")


async def test_after_the_wipe_of_the_node_everything_goes_on(restored):
    dsn, lost = restored
    async with cms(dsn) as client:
        await tell(client, 1, 9, hash=lost)
        await until(lambda: is_stopped(client))
        status, _ = await tell(client, 1, 3)
        assert status == 200

        async def goes_on():
            return (await client.commit("TriggerSnapshot"))[0] == 200

        await until(goes_on)
        assert not await is_stopped(client)


async def test_an_admin_goes_on_without_what_was_lost(restored):
    dsn, lost = restored
    known = {"node": 1, "epoch": 9, "hash": lost, "reason": "restored from the backup of Monday"}
    async with cms(dsn, tokens=Tokens(SECRETS)) as client:
        client.session.headers.update(bearer(Role.ADMIN))
        await tell(client, 1, 9, hash=lost)
        await until(lambda: is_stopped(client))
        _, listed = await client.get("/v1/divergences")
        assert [(item["node"], item["fault"]) for item in listed["divergences"]] == [(1, "ahead")]

        path = "/v1/divergences/acknowledge"
        status, _ = await client.post(path, known, **bearer(Role.OPERATOR))
        assert status == 403
        status, problem = await client.post(path, {**known, "epoch": 8})
        assert (status, problem["code"]) == (404, "not_found")
        for reason in ("", "a\0b", "x" * 1025, 7):
            status, problem = await client.post(path, {**known, "reason": reason})
            assert (status, problem["code"]) == (400, "malformed"), reason
        status, answer = await client.post(path, known)
        assert (status, answer) == (200, {"divergences": []})
        await client.set(3)
        # Still another history, and still known to be.
        status, _ = await tell(client, 1, 9, hash=lost)
        assert status == 409
        assert not await is_stopped(client)
    async with cms(dsn) as client:
        await client.set(1)


async def test_what_was_lost_and_comes_back_needs_nobody(restored, database):
    """The node is gone, but the log has its entry after all."""
    dsn, lost = restored
    async with cms(dsn) as client:
        await tell(client, 1, 9, hash=lost)
        await until(lambda: is_stopped(client))
        source, target = await asyncpg.connect(database), await asyncpg.connect(dsn)
        rows = await source.fetch("SELECT * FROM log_entries WHERE epoch > 7")
        await target.copy_records_to_table("log_entries", records=[tuple(row) for row in rows])
        await source.close()
        await target.close()
        await until(lambda: _is_ready(client))
        assert client.engine.applied.metadata.epoch == 9


async def _is_ready(client):
    return not await is_stopped(client)


async def test_a_process_that_outlived_the_loss_notices_by_itself(database):
    async with cms(database) as client:
        await populated(client)
        assert not await is_stopped(client)
        connection = await asyncpg.connect(database)
        for table in ("log_entries", "log_entries_0"):
            await connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        await connection.execute("DELETE FROM log_entries WHERE epoch > 4")
        await connection.close()
        await until(lambda: is_stopped(client))
        _, health = await client.get("/healthz")
        assert "This process has applied epoch 7 and the log ends at 4" in health["detail"]


async def test_a_node_that_only_the_lost_entries_knew_counts(restored):
    dsn, lost = restored
    async with cms(dsn) as client:
        status, problem = await tell(client, 99, 9, hash=lost)
        assert (status, problem["code"]) == (409, "diverged")
        await until(lambda: is_stopped(client))


async def test_another_cluster_and_a_malformed_hash_stop_nobody(restored):
    dsn, lost = restored
    async with cms(dsn) as client:
        status, _ = await tell(client, 1, 9, hash=lost, headers={"Ringlog-Cluster": str(uuid4())})
        assert status == 409
        for wrong in ("ab", "zz" * 32, lost[:-1], 7):
            status, _ = await tell(client, 1, 9, hash=wrong)
            assert status == 400
        await client.engine.reporting.watch.look()
        await client.set(1)


async def test_a_node_that_is_merely_newer_than_this_process_stops_nobody(database):
    """It has what another process appended a moment ago."""
    async with cms(database, "a") as first:
        await populated(first)
        async with cms(database, "b") as second:
            for _ in range(20):
                _, answer = await first.commit("SetExtension", name="a", value="b")
                status, _ = await tell(second, 1, answer["epoch"], hash=answer["hash"])
                assert status == 200
            assert not await is_stopped(second)


@asynccontextmanager
async def leading(dsn, name):
    """A process that follows the lease and forwards to whoever holds it."""
    sessions = Sessions(dsn)
    async with aiohttp.ClientSession() as session:
        # Its own address is known only once it serves.
        route = Leading(sessions, session, name, "http://127.0.0.1:9")
        async with running(
            name,
            PostgresLog(sessions),
            PostgresSnapshots(sessions),
            lambda: Stamp(name, 1),
            route.around,
            stores=postgres_stores(sessions),
        ) as engine:

            async def sequence(body):
                return await sequenced(body, engine.sequence)

            internal = {SEQUENCE_PATH: sequence}
            async with serve(engine, tokens=None, where=Address(), internal=internal) as url:
                route._url = url
                yield engine, route
    await sessions.close()


async def test_what_the_sequencing_process_refuses_is_not_sequenced_here(restored):
    """The one that forwards has not looked yet; it must not append what the other refused."""
    dsn, lost = restored
    async with leading(dsn, "a") as (first, one), leading(dsn, "b") as (second, two):
        for route in (one, two):
            route._lease = await lease.take(route._sessions, holder=route._name, url=route._url)
        assert (first.is_sequencing, second.is_sequencing) == (True, False)
        # It would learn within a second; here it never does.
        second.reporting.watch._learn = lambda _found: None
        async with aiohttp.ClientSession(one._url) as session:
            assert (await tell(Sender(session, first, None), 1, 9, hash=lost))[0] == 409
        await first.reporting.watch.look()
        async with Client(two._url) as client:
            with pytest.raises(DivergedError, match="epoch 9"):
                await client.commit(SetExtension(name="a", value="b"))
        assert second.applied.metadata.epoch == 7
