"""Audits of a running cluster: the same history over HTTP, and the way back into Postgres."""

from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner

from audit.history import SnapshotUnusableError, metadata_at
from audit.replay import audited
from client.connection import Connection
from client.errors import AnswerError
from client.patience import Patience
from log.batch import Stamp
from log.chain import NO_ENTRIES
from log.memory import MemoryLog
from metadata.epoch import Epoch
from ringlog.live_history import live_history
from ringlog.main import app
from services.cms.engine import running
from services.cms.http import serve
from services.http.serving import Address
from snapshots.memory import MemorySnapshots
from snapshots.restore import taken
from snapshots.store import SNAPSHOTS_PER_PAGE
from tests.archives import long_log, snapshot_of
from tests.integration.test_cms_reads import populated
from tests.integration.test_cms_serving import QUICK, served

PATIENCE = Patience(deadline_s=10.0)


def connecting(url):
    return lambda: Connection([url], token=None, cluster=None, patience=PATIENCE)


async def run(*words, **environment):
    """In a thread: the verbs run event loops of their own."""
    clean = {"RINGLOG_URL": None, "RINGLOG_POSTGRES_DSN": None, "RINGLOG_TOKEN": None}
    return await asyncio.to_thread(
        CliRunner().invoke, app, ["audit", *map(str, words)], env={**clean, **environment}
    )


async def test_a_live_log_is_a_history():
    async with served() as client:
        await populated(client)
        snapshot = await taken(await client.engine.metadata_at(Epoch(5)))
        await client.snapshots.save(snapshot, created_by="test")
        url = str(client.session._base_url)
        tip = client.engine.applied

        def look():
            with live_history(connecting(url)) as history:
                assert history.tip == tip.tip
                assert list(history.snapshots()) == [5]
                assert [item.epoch for item in history.entries(Epoch(3), Epoch(6))] == [4, 5, 6]
                assert history.restored(Epoch(5)).metadata.epoch == 5
                assert metadata_at(history, tip.metadata.epoch) == tip
                with pytest.raises(SnapshotUnusableError):
                    history.restored(Epoch(6))
                return audited(history)

        report = await asyncio.to_thread(look)

        assert report.holds, report.findings
        assert report.entries == 9


async def test_an_empty_log_is_an_empty_history():
    async with served(founded=False) as client:
        url = str(client.session._base_url)

        def look():
            with live_history(connecting(url)) as history:
                return history.tip.epoch, list(history.entries(Epoch(0), Epoch(0)))

        assert await asyncio.to_thread(look) == (0, [])


async def test_every_snapshot_of_a_live_log_is_found():
    """Also where there are more of them than one answer tells."""
    length = 2 * SNAPSHOTS_PER_PAGE + 100
    steps = list(long_log(length))
    log, snapshots = MemoryLog(), MemorySnapshots()
    await log.append([step.sealed for step in steps], onto=NO_ENTRIES)
    for step in steps:
        await snapshots.save(snapshot_of(step.applied), created_by="test")
    read = []

    def look(url):
        with live_history(connecting(url)) as history:
            read.append(list(history.snapshots()))
            return metadata_at(history, Epoch(7))

    async with (
        running("cms-1", log, snapshots, lambda: Stamp("cms-1", 1)) as engine,
        serve(engine, tokens=None, where=Address(), limits=QUICK) as url,
    ):
        found = await asyncio.to_thread(look, url)

    assert read == [list(range(1, length + 1))]
    assert found == steps[6].applied


async def test_snapshots_that_are_listed_over_and_over_are_refused():
    async with served() as client:
        (step,) = long_log(1)
        await client.snapshots.save(snapshot_of(step.applied), created_by="test")
        (info,) = await client.engine.snapshot_epochs()

        async def forever(_up_to):
            return [info] * SNAPSHOTS_PER_PAGE

        client.engine.snapshot_epochs = forever
        url = str(client.session._base_url)

        def look():
            with live_history(connecting(url)):
                pytest.fail("it was believed")

        with pytest.raises(AnswerError, match="over and over"):
            await asyncio.to_thread(look)


async def test_verbs_ask_a_cluster_by_its_address():
    async with served() as client:
        await populated(client)
        url = str(client.session._base_url)

        shown = await run("show", "directory", "--at", 4, "--url", url, "--json")
        blamed = await run("blame", "table", "k.t", "--url", url, "--json")
        replayed = await run("replay", "--url", url, "--json")
        gone = await run("show", "--at", 99, "--url", url)

    assert len(json.loads(shown.stdout)["nodes"]) == 3
    assert json.loads(blamed.stdout)["kind"] == "CreateTable"
    assert json.loads(replayed.stdout)["holds"]
    assert gone.exit_code == 2


async def test_questions_about_the_past_are_put_to_a_running_cluster(tmp_path):
    wanted = tmp_path / "wanted.json"
    wanted.write_text('[{"kind": "SetExtension", "name": "a", "value": "b"}]')
    async with served() as client:
        await populated(client)
        url = str(client.session._base_url)

        async def asked(*words):
            result = await run(*words, "--url", url, "--json")
            assert result.exit_code == 0, result.output
            return json.loads(result.stdout)

        chain = (await asked("why", "k", "--at-token", 700, "--node", 2))["chain"]
        first = await asked("bisect", 'len(readers("k", 700)) > 0')
        steady = await asked("bisect", "len(nodes) >= 2", "--monotonic")
        imagined = await asked("whatif", wanted, "--at", 7)
        differing = (await asked("diff", 6, 8))["components"]
        owners = await asked("owners", "k", "--at-token", 700, "--at", 7)
        never = await run("bisect", "len(nodes) > 100", "--url", url)
        unowned = await run("why", "k", "--at-token", 700, "--at", 2, "--url", url)

    assert [link["kind"] for link in chain] == ["Register", "UnsafeJoin", "CreateKeyspace"]
    assert (first["epoch"], first["entry"]["kind"]) == (7, "CreateKeyspace")
    assert (steady["epoch"], steady["entry"]["kind"]) == (3, "Register")
    assert (imagined["base"], imagined["accepted"]) == (7, True)
    assert imagined["entries"][0]["epoch"] == 8
    assert sorted(differing) == ["placements", "schema"]
    assert (owners["readers"], owners["writers"]) == ([2], [2])
    assert (never.exit_code, unowned.exit_code) == (1, 2)


async def test_a_log_goes_into_an_archive_and_back_into_a_database(blank_database, tmp_path):
    async with served() as client:
        await populated(client)
        url = str(client.session._base_url)
        exported = await run("export", tmp_path / "archive", "--url", url, "--json")

    verified = await run("verify", tmp_path / "archive", "--recompute")
    imported = await run(
        "import", tmp_path / "archive", "--json", RINGLOG_POSTGRES_DSN=blank_database
    )
    again = await run("import", tmp_path / "archive", RINGLOG_POSTGRES_DSN=blank_database)

    assert verified.exit_code == 0, verified.output
    assert imported.exit_code == 0, imported.output
    assert json.loads(imported.stdout)["hash"] == json.loads(exported.stdout)["hash"]
    assert again.exit_code == 0, again.output
    assert "The log is restored up to epoch 9" in again.output
