"""A CMS whose log was trimmed: with its archive as if nothing had gone, without it says where."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

import aiohttp
import fastavro
import pytest

from audit.merkle import consistency_holds, inclusion_holds, leaf_hash, root_of
from audit.reproduce import PostgresProofs, installed_release
from log.batch import Stamp
from log.chain import tip_of
from log.postgres import PostgresLog
from log.postgres_room import make_room
from log.postgres_sessions import Sessions
from log.replay import replay
from metadata.epoch import EMPTY, Epoch
from services.cms.engine import running
from services.cms.http import serve
from services.cms.proving import Evidence, Proving
from services.cms.relaying import WhileSequencing
from services.cms.reports.postgres import postgres_stores
from services.cms.seam import ThroughArchive
from services.http.serving import Address
from snapshots.postgres import PostgresSnapshots
from tests.archives import entries_of, snapshot_of
from tests.integration.test_cms_serving import QUICK, Client
from tests.integration.trimmed import asked, filled, signed_archive, trimmed

ENTRIES = entries_of(2300)
SEAM = 1999
LIMITS = {"entries_max": 10, "bytes_max": 1_000_000}


@pytest.fixture
async def live(database, tmp_path):
    """2,300 entries, of which 301 are left in the database."""
    await filled(database, ENTRIES)
    signed_archive(tmp_path / "archive", ENTRIES[:2100])
    done = await trimmed(database, tmp_path / "archive", 2100, "--yes")
    assert done.exit_code == 0, done.output
    return database


@asynccontextmanager
async def engine_on(dsn, archives=()):
    sessions = Sessions(dsn)
    log = PostgresLog(sessions)
    store = ThroughArchive(log, [str(place) for place in archives]) if archives else log
    snapshots = PostgresSnapshots(sessions)
    stamp = Stamp("cms-1", 1)
    try:
        async with running(
            "cms-1", store, snapshots, lambda: stamp, stores=postgres_stores(sessions)
        ) as engine:
            yield engine, snapshots
    finally:
        await sessions.close()


@asynccontextmanager
async def served(dsn, archives=()):
    async with (
        engine_on(dsn, archives) as (engine, snapshots),
        serve(engine, tokens=None, where=Address(), limits=QUICK) as url,
        aiohttp.ClientSession(url) as session,
    ):
        yield Client(session, engine, snapshots)


OLD = (
    "/v1/log?after=0",
    "/v1/log/500",
    "/v1/metadata?at=500",
    "/v1/diff?from=500&to=2100",
    "/v1/nodes?at=500",
    "/v1/log/stream?after=7",
    "/v1/metadata/extensions?at=1998",
)


async def test_without_the_archive_it_says_where_to_look(live, tmp_path):
    async with served(live) as client:
        assert client.engine.applied == replay(ENTRIES)
        for path in OLD:
            response, problem = await client.get(path)
            assert (response.status, problem["code"]) == (410, "trimmed"), (path, problem)
            assert problem["archive"] == str(tmp_path / "archive")
            assert problem["epoch"] == SEAM
        for path in ("/v1/log?after=1998&limit=3", "/v1/log/1999", "/v1/metadata?at=1999"):
            response, _ = await client.get(path)
            assert response.status == 200, path

        known = f"after=500&hash={ENTRIES[499].hash.hex()}&digest={ENTRIES[499].entry.digest.hex()}"
        response, state = await client.get(f"/v1/log?{known}&snapshot=true")
        assert (response.status, state["snapshot"]["epoch"]) == (200, SEAM)
        assert [entry["epoch"] for entry in state["entries"]] == list(range(2000, 2301))
        response, problem = await client.get(f"/v1/log?after=500&hash={'00' * 32}&snapshot=true")
        assert (response.status, problem["code"]) == (409, "diverged")


async def test_what_went_can_still_be_proved_to_have_been_there(live):
    """Hashes stay when entries go: whoever has the archive holds them against the live log."""
    leaves = [leaf_hash(sealed.hash) for sealed in ENTRIES]
    async with served(live) as client:
        for epoch in (1, 777, SEAM, 2300):
            _, found = await client.get(f"/v1/proofs/inclusion?epoch={epoch}")
            assert found["leaf"] == ENTRIES[epoch - 1].hash.hex()
            proof = [bytes.fromhex(text) for text in found["proof"]]
            assert inclusion_holds(leaves[epoch - 1], epoch - 1, 2300, root_of(leaves), proof)
        _, found = await client.get("/v1/proofs/consistency?from=500&to=2300")
        roots = root_of(leaves[:500]), root_of(leaves)
        assert (found["from_root"], found["root"]) == tuple(root.hex() for root in roots)
        proof = [bytes.fromhex(text) for text in found["proof"]]
        assert consistency_holds(500, roots[0], 2300, roots[1], proof)


async def test_a_retry_is_answered_alike_after_its_entry_went(live):
    async with served(live) as client:
        for epoch in (2, 777, SEAM, 2200):
            sealed = ENTRIES[epoch - 1]
            wanted: Any = sealed.entry.transformation
            status, answer = await client.commit(
                "SetExtension", entry_id=str(sealed.entry_id), name=wanted.name, value=wanted.value
            )
            assert (status, answer["epoch"], answer["hash"]) == (200, epoch, sealed.hash.hex())
            status, problem = await client.commit(
                "SetExtension", entry_id=str(sealed.entry_id), name=wanted.name, value="other"
            )
            assert (status, problem["code"]) == (409, "entry_id_reused")
        status, answer = await client.commit("SetExtension", name="new", value="1")
        assert (status, answer["epoch"]) == (200, 2301)


async def test_with_the_archive_nobody_notices(live, tmp_path):
    async with served(live, [tmp_path / "archive"]) as client:
        after = 0
        found: list[Any] = []
        while after < 2300:
            response, body = await client.get(
                f"/v1/log?after={after}&limit=700", Accept="application/avro"
            )
            assert response.status == 200
            records: Any = fastavro.reader(BytesIO(body))
            found += [(item["epoch"], item["payload"]) for item in records]
            after = found[-1][0]
        assert found == [(sealed.epoch, sealed.payload) for sealed in ENTRIES]

        for path in OLD[:-2]:
            response, _ = await client.get(path)
            assert response.status == 200, path
        _, state = await client.get("/v1/log/500")
        assert state["hash"] == ENTRIES[499].hash.hex()
        _, view = await client.get("/v1/metadata?at=1200")
        assert view["digest"] == replay(ENTRIES[:1200]).metadata.digest.hex()
        _, problem = await client.get(f"/v1/log?after=500&digest={'00' * 32}")
        assert problem["code"] == "diverged"


async def test_an_archive_that_cannot_be_trusted_is_not_served(live, tmp_path):
    signed_archive(tmp_path / "other", entries_of(2100, salt="x"))
    async with served(live, [tmp_path / "other"]) as client:
        response, problem = await client.get("/v1/log?after=5")
        assert (response.status, problem["code"]) == (410, "trimmed")
        assert "another history" in problem["detail"]
    signed_archive(tmp_path / "short", ENTRIES[:50])
    async with served(live, [tmp_path / "short"]) as client:
        response, problem = await client.get("/v1/log?after=5&limit=100")
        assert (response.status, problem["code"]) == (410, "trimmed")
    async with served(live, [tmp_path / "nowhere"]) as client:
        response, problem = await client.get("/v1/log?after=5")
        assert (response.status, problem["code"]) == (503, "unavailable")
        response, state = await client.get("/v1/log?after=5&snapshot=true")
        assert (response.status, state["snapshot"]["epoch"]) == (200, SEAM)


async def test_an_archive_that_grew_is_read_on(live, tmp_path):
    """Its last segment has another name by then."""
    archive = tmp_path / "archive"
    async with served(live, [archive]) as client:
        assert (await client.get("/v1/log/1500"))[0].status == 200
        signed_archive(archive, ENTRIES[2099:])
        response, entry = await client.get("/v1/log/1600")
        assert (response.status, entry["hash"]) == (200, ENTRIES[1599].hash.hex())


async def test_a_cms_that_slept_goes_on_behind_the_seam(database, tmp_path):
    """Its next entry is gone, so it takes the snapshot, and then decides as everybody does."""
    await filled(database, ENTRIES[:400])
    async with served(database) as client:
        sessions = Sessions(database)
        log = PostgresLog(sessions)
        for start in range(400, 2300, 500):
            await make_room(sessions, Epoch(start))
            batch = ENTRIES[start : start + 500]
            await log.append(batch, onto=tip_of(ENTRIES[start - 1]))
        await sessions.close()
        signed_archive(tmp_path / "archive", ENTRIES)
        assert (await trimmed(database, tmp_path / "archive", 2300, "--yes")).exit_code == 0
        assert client.engine.applied.metadata.epoch == 400

        status, answer = await client.commit("SetExtension", name="new", value="1")

        assert (status, answer["epoch"]) == (200, 2301)
        _, state = await client.get("/v1/log?after=2299")
        assert state["entries"][0]["hash"] == ENTRIES[-1].hash.hex()


async def test_a_release_is_proved_from_the_seam_on(live, tmp_path):
    sessions = Sessions(live)
    snapshots = PostgresSnapshots(sessions)
    await snapshots.save(snapshot_of(replay(ENTRIES[:2200])), created_by="test")
    release, proofs = installed_release(), PostgresProofs(sessions)
    for log in (
        PostgresLog(sessions),
        ThroughArchive(PostgresLog(sessions), [str(tmp_path / "archive")]),
    ):
        proving = Proving(Evidence(log, snapshots, proofs), release, "cms-1", lambda: None)
        await proving.begin(replay(ENTRIES))
        assert not proving.is_proved
        task = asyncio.create_task(proving.run(lambda: replay(ENTRIES[:30])))
        async with asyncio.timeout(60):
            while not proving.is_proved:
                assert not task.done(), task
                await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asked(live, "DELETE FROM reproduced")
    # What is known of an epoch that went still counts.
    await proofs.keep(release, tip_of(ENTRIES[699]), by="test")
    assert await Proving(
        Evidence(PostgresLog(sessions), snapshots, proofs), release, "cms-1", lambda: None
    )._known() == tip_of(ENTRIES[699])
    await sessions.close()


async def test_a_topic_that_stood_still_is_published_from_the_seam_on(live):
    sessions = Sessions(live)
    outbox = WhileSequencing(PostgresLog(sessions), lambda *_, **__: None, lambda: True)

    page = await outbox.read_after(EMPTY, **LIMITS)

    assert [sealed.epoch for sealed in page] == list(range(2000, 2010))
    await sessions.close()
