"""What a log has signed binds it: several processes on one database, and one that was imported."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from uuid import UUID

import aiohttp
import pytest

from audit.anchors import Kept
from audit.bundle import check_bundle, decode_bundle
from audit.checkpoints import Checkpoint, origin_of, parse_checkpoint
from audit.exporting import export
from audit.folder import folder
from audit.importing import Importer, Target, import_archive
from audit.keys import Algorithm, generate, save
from audit.lineage import PostgresLineages
from audit.merkle import leaf_hash, root_of
from audit.reading import open_archive
from audit.verify import Given, Verified, verify
from log.batch import Stamp
from log.chain import NO_ENTRIES
from log.postgres import PostgresLog
from log.postgres_sessions import Sessions
from metadata.cluster import ClusterId
from migrations.apply import apply
from services.cms.engine import Proofs, running
from services.cms.http import serve
from services.cms.proofs.signed import PostgresSigned
from services.cms.proofs.tiles import PostgresTiles
from services.http.serving import Address
from snapshots.postgres import PostgresSnapshots
from tests.archives import KEY, entries_of
from tests.integration.test_audit_witness import looked
from tests.integration.test_cms_serving import QUICK, Client
from tests.integration.trimmed import audit

ENTRIES = entries_of(210)
CLUSTER = ENTRIES[0].entry.cluster
LINEAGE = UUID(int=7)
ARCHIVED = 200


@asynccontextmanager
async def cms(dsn, name="cms-1"):
    sessions = Sessions(dsn)
    proofs = Proofs(PostgresTiles(sessions), PostgresSigned(sessions), (KEY,))
    log, snapshots, stamp = PostgresLog(sessions), PostgresSnapshots(sessions), Stamp(name, 1)
    async with (
        running(name, log, snapshots, lambda: stamp, proofs=proofs) as engine,
        serve(engine, tokens=None, where=Address(), limits=QUICK) as url,
        aiohttp.ClientSession(url) as session,
    ):
        yield Client(session, engine, None)
    await sessions.close()


async def signed_by(client):
    response, note = await client.get("/v1/checkpoint")
    assert response.status == 200, note
    return parse_checkpoint(note)


async def appended(dsn, entries):
    sessions = Sessions(dsn)
    await PostgresLog(sessions).append(entries, onto=NO_ENTRIES)
    await sessions.close()


async def imported(place, dsn):
    await apply(dsn)
    sessions = Sessions(dsn)
    target = Target(
        log=PostgresLog(sessions),
        snapshots=PostgresSnapshots(sessions),
        lineages=PostgresLineages(sessions),
    )
    await import_archive(open_archive(place), target, Importer(name="operator", lineage=LINEAGE))
    await sessions.close()


@pytest.fixture
def keys(tmp_path):
    """The key of a witness and the public one of the log, as files."""
    save(generate("witness.example", Algorithm.COSIGNATURE), tmp_path / "witness.key")
    (tmp_path / "log.pub").write_text(KEY.public.text)
    return tmp_path


@pytest.fixture
def archive(tmp_path):
    """It lacks the last entries of the log."""
    export(ENTRIES[:ARCHIVED], folder(tmp_path / "archive"))
    return tmp_path / "archive"


async def test_two_processes_sign_one_history(database):
    await appended(database, ENTRIES)
    async with cms(database) as one, cms(database, "cms-2") as two:

        async def committed(number):
            assert (await one.commit("SetExtension", name="n", value=str(number)))[0] == 200

        asked = [signed_by(client) for client in (one, two) for _ in range(20)]
        found = await asyncio.gather(*asked, *(committed(number) for number in range(20)))
        last = await signed_by(two)
        _, page = await one.get("/v1/log?after=0&limit=1000")
    leaves = [leaf_hash(bytes.fromhex(entry["hash"])) for entry in page["entries"]]
    assert last.checkpoint.size == len(leaves) == len(ENTRIES) + 20
    for signed in filter(None, found):
        assert signed.checkpoint.root == root_of(leaves[: signed.checkpoint.size])


async def test_a_log_that_lost_entries_is_not_signed(database, blank_database):
    """What was signed outlived them, as where only the tables of the log were restored."""
    await appended(database, ENTRIES)
    async with cms(database) as client:
        signed = (await signed_by(client)).checkpoint
    await apply(blank_database)
    await appended(blank_database, ENTRIES[:ARCHIVED])
    sessions = Sessions(blank_database)
    assert await PostgresSigned(sessions).advance(signed, None, by="cms-1")
    await sessions.close()

    async with cms(blank_database) as client:
        response, problem = await client.get("/v1/checkpoint")

    assert (response.status, problem["code"]) == (409, "signed_otherwise")
    assert "has 200 entries, and 210 were signed" in problem["detail"]


async def test_an_imported_log_signs_as_another(database, blank_database, archive, keys):
    """An older archive; what the log signed behind its end is contradicted in nobody's name."""
    await appended(database, ENTRIES)
    async with cms(database) as client:
        before = (await signed_by(client)).checkpoint
        assert (await looked(keys, client)).exit_code == 0
    await imported(archive, blank_database)

    async with cms(blank_database) as client:
        for number in range(before.size - ARCHIVED):
            assert (await client.commit("SetExtension", name="n", value=str(number)))[0] == 200
        after = (await signed_by(client)).checkpoint
        refused = await looked(keys, client)

    assert before.origin == origin_of(CLUSTER)
    assert after.origin == origin_of(CLUSTER, LINEAGE) != before.origin
    assert after.size == before.size
    assert after.root != before.root
    # A witness that saw what was lost is not put off with another name.
    assert refused.exit_code == 1
    assert "another history" in refused.output


async def test_an_imported_log_that_lost_nothing_goes_on(database, blank_database, archive, keys):
    """For a witness, a proof since an earlier checkpoint, and the archive."""
    await appended(database, ENTRIES[:ARCHIVED])
    async with cms(database) as client:
        (keys / "kept").write_bytes((await signed_by(client)).encode())
        assert (await looked(keys, client)).exit_code == 0
    await imported(archive, blank_database)

    async with cms(blank_database) as client:
        assert (await client.commit("SetExtension", name="n", value="1"))[0] == 200
        cosigned = await looked(keys, client)
        url = str(client.session._base_url)
        options = ("--since", keys / "kept", "--out", keys / "proof", "--url", url)
        proved = await audit("prove", "7", *options)
        exported = await audit("export", archive, "--url", url)
    assert cosigned.exit_code == 0, cosigned.output
    assert f"cosigned {origin_of(CLUSTER, LINEAGE)} with 201 entries" in cosigned.output
    assert proved.exit_code == 0, proved.output
    found = check_bundle(decode_bundle((keys / "proof").read_bytes()), [KEY.public])
    assert (found.size, found.earlier_size) == (201, ARCHIVED)
    assert exported.exit_code == 0, exported.output
    seen = Kept("seen", (keys / "seen" / "checkpoint").read_bytes())
    verdict = verify(archive, Given(keys=(KEY.public,), checkpoints=(seen,)))
    assert isinstance(verdict, Verified), verdict
    assert verdict.anchored_by == (KEY.name,)


def test_lineages_are_told_from_other_names():
    def is_of_one_log(origin, other):
        return Checkpoint(origin, 1, bytes(32)).is_of_log(other)

    ours, other = origin_of(CLUSTER), origin_of(CLUSTER, LINEAGE)
    assert is_of_one_log(ours, ours)
    assert is_of_one_log(ours, other)
    assert is_of_one_log(other, origin_of(CLUSTER, UUID(int=8)))
    for name in (
        origin_of(ClusterId(str(UUID(int=99))), LINEAGE),
        f"{ours}/",
        f"{ours}/{LINEAGE}/{LINEAGE}",
        f"{other}\n",
        f"other/{CLUSTER}/{LINEAGE}",
    ):
        assert not is_of_one_log(ours, name)
