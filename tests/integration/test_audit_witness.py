"""A witness cosigns a log that grows and refuses one that forked; proofs of a running cluster."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from audit.anchors import Kept
from audit.bundle import check_bundle, decode_bundle
from audit.checkpoints import parse_checkpoint
from audit.exporting import export
from audit.folder import folder
from audit.keys import Algorithm, KeyFormatError, generate, load_private, load_public, save
from audit.verify import Given, Verified, verify
from audit.witnessing import ForkError, Witness, WitnessError
from tests.archives import KEY, OTHER_KEY, entries_of
from tests.integration.test_audit_proofs import go
from tests.integration.test_cms_proofs import ENTRIES, served
from tests.integration.trimmed import audit

FORKED = entries_of(720, salt="x")
GROWN = entries_of(720)


@pytest.fixture
def keys(tmp_path):
    """The key of the witness and the public one of the log, as files."""
    save(generate("witness.example", Algorithm.COSIGNATURE), tmp_path / "witness.key")
    (tmp_path / "log.pub").write_text(KEY.public.text)
    return tmp_path


async def looked(keys, client):
    return await looked_at(keys, str(client.session._base_url))


async def looked_at(keys, url):
    return await audit(
        *("witness", "--key", keys / "witness.key", "--log-key", keys / "log.pub"),
        *("--keep-in", keys / "seen", "--url", url, "--once"),
    )


async def test_a_log_that_grows_is_cosigned_and_counts_for_an_auditor(keys):
    async with served() as client:
        first = await looked(keys, client)
        assert first.exit_code == 0, first.output
        assert "700 entries" in first.output
    async with served(GROWN) as client:
        second = await looked(keys, client)
        again = await looked(keys, client)
    assert "720 entries" in second.output
    assert again.exit_code == 0
    export(GROWN, folder(keys / "archive"))
    seen = (keys / "seen" / "checkpoint").read_bytes()
    witness = load_public(str(keys / "witness.key.pub"))

    verdict = verify(keys / "archive", Given(keys=(witness,), checkpoints=(Kept("seen", seen),)))

    assert isinstance(verdict, Verified), verdict
    assert verdict.anchored_by == ("witness.example",)
    assert parse_checkpoint(seen).verified_by([KEY.public, witness]) == (KEY.public, witness)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (FORKED, "another history"),
        (FORKED[:700], "another history"),
        (GROWN[:650], "it has lost some"),
        (FORKED[:650], "it has lost some"),
    ],
)
async def test_a_forked_log_is_refused(keys, entries, said):
    async with served() as client:
        assert (await looked(keys, client)).exit_code == 0
    kept = (keys / "seen" / "checkpoint").read_bytes()

    async with served(entries) as client:
        refused = await looked(keys, client)

    assert refused.exit_code == 1, refused.output
    assert "REFUSED" in refused.output
    assert said in refused.output
    assert (keys / "seen" / "checkpoint").read_bytes() == kept
    evidence = parse_checkpoint((keys / "seen" / "refused").read_bytes())
    assert evidence.checkpoint.size == len(entries)
    async with served(GROWN) as client:
        assert (await looked(keys, client)).exit_code == 0


@asynccontextmanager
async def answering(note, response):
    """A log that shows a checkpoint, and something else instead of a proof."""

    async def checkpoint(_):
        return web.Response(text=note.decode())

    async def consistency(_):
        return response()

    app = web.Application()
    app.router.add_get("/v1/checkpoint", checkpoint)
    app.router.add_get("/v1/proofs/consistency", consistency)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


def problem(status):
    return web.json_response({"status": status, "code": "not_found", "title": "No"}, status=status)


NO_PROOFS = {
    "not found": lambda: problem(404),
    "failed": lambda: problem(500),
    "a page": lambda: web.Response(status=404, text="<h1>not here</h1>", content_type="text/html"),
    "garbage": lambda: web.Response(body=b"\xff{", content_type="application/json"),
    "no proof": lambda: web.json_response({"proof": []}),
    "no hashes": lambda: web.json_response({"proof": ["ab"]}),
    "too much": lambda: web.json_response({"proof": ["00" * 32] * 1000}),
}


@pytest.mark.parametrize("instead", NO_PROOFS)
async def test_a_forked_log_that_gives_no_proof_leaves_evidence(keys, instead):
    """What it signed is what convicts it, whatever it says when asked to explain."""
    async with served() as client:
        assert (await looked(keys, client)).exit_code == 0
    kept = (keys / "seen" / "checkpoint").read_bytes()
    forked, _ = await stated(FORKED)

    async with answering(forked.encode(), NO_PROOFS[instead]) as url:
        refused = await looked_at(keys, url)

    assert refused.exit_code == 1, refused.output
    assert (
        "REFUSED: The log of 720 entries was not proved to extend the one of 700" in refused.output
    )
    assert (keys / "seen" / "refused").read_bytes() == forked.encode()
    assert (keys / "seen" / "checkpoint").read_bytes() == kept


async def test_only_what_the_log_signed_is_looked_at(keys):
    async with served(keys=(OTHER_KEY,)) as client:
        refused = await looked(keys, client)
    assert refused.exit_code == 1
    assert not (keys / "seen" / "checkpoint").exists()
    async with served(keys=()) as client:
        unsigned = await looked(keys, client)
    assert unsigned.exit_code == 2
    assert "RINGLOG_LOG_KEY" in unsigned.output


def test_what_was_cosigned_is_never_taken_for_nothing(keys):
    key = load_private(keys / "witness.key")
    made = Witness(keys / "seen", key, [KEY.public])
    with made.alone(), pytest.raises(WitnessError, match="Another witness"), made.alone():
        pass
    (keys / "seen" / "checkpoint").write_bytes(b"cut sh")
    with pytest.raises(WitnessError, match="cannot be read"):
        made.last()
    with pytest.raises(KeyFormatError, match="keygen --witness"):
        Witness(keys / "seen", KEY, [KEY.public])


async def stated(entries):
    """What a log of these says of itself: a checkpoint, and that it extends some other one."""
    async with served(entries) as client:
        _, note = await client.get("/v1/checkpoint")
        _, found = await client.get("/v1/proofs/consistency?from=650")
    return parse_checkpoint(note), [bytes.fromhex(text) for text in found["proof"]]


async def test_a_forged_proof_does_not_help(keys):
    made = Witness(keys / "seen", load_private(keys / "witness.key"), [KEY.public])
    (keys / "seen").mkdir()
    made.cosign((await stated(ENTRIES))[0], (), at_s=1)
    forked, proof = await stated(FORKED)
    for forged in (proof, [], [bytes(32)] * 9):
        with pytest.raises(ForkError):
            made.cosign(forked, forged, at_s=2)


async def test_an_entry_is_proved_from_a_running_cluster(keys):
    async with served() as client:
        _, note = await client.get("/v1/checkpoint")
        (keys / "then").write_bytes(note)
    async with served(GROWN) as client:
        url = str(client.session._base_url)
        made = await audit(
            "prove", 321, "--url", url, "--since", keys / "then", "--out", keys / "p"
        )
        beyond = await audit("prove", 999, "--url", url, "--out", keys / "q")
    async with served(FORKED) as client:
        url = str(client.session._base_url)
        forked = await audit(
            "prove", 321, "--url", url, "--since", keys / "then", "--out", keys / "q"
        )
    assert made.exit_code == 0, made.output
    assert beyond.exit_code == 2
    assert forked.exit_code == 1
    assert not (keys / "q").exists()
    remembered = parse_checkpoint((keys / "then").read_bytes())
    proved = check_bundle(
        decode_bundle((keys / "p").read_bytes()), [KEY.public], remembered=remembered
    )
    assert (proved.entry.epoch, proved.size, proved.earlier_size) == (321, 720, 700)


@pytest.mark.skipif(shutil.which("go") is None, reason="needs the Go tools: go is not installed")
async def test_go_verifies_what_the_cluster_proves(keys):
    """Note and inclusion by golang.org/x/mod/sumdb; the tiles as the cluster serves them."""
    export(ENTRIES, folder(keys / "archive"))
    async with served() as client:
        url = str(client.session._base_url)
        made = await audit("prove", 321, "--url", url, "--out", keys / "p")
        assert made.exit_code == 0, made.output
        for path in (keys / "archive" / "tile").rglob("*"):
            if path.is_file():
                _, data = await client.get(f"/v1/{path.relative_to(keys / 'archive')}")
                path.write_bytes(data)
    said = await asyncio.to_thread(
        go, "check", str(keys / "p"), KEY.public.text, str(keys / "archive")
    )
    assert said == "ok 700\n"
