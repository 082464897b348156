"""`ringlog audit` on an archive: what each verb says, and with which exit code."""

from __future__ import annotations

import json

import msgspec
import pytest
from typer.testing import CliRunner

from audit.exporting import export
from audit.folder import folder
from log.chain import seal
from log.replay import replayed
from metadata.epoch import Epoch
from ringlog.commands.log import _row
from ringlog.main import app
from snapshots.store import Snapshot
from tests.e2e.command_schema import valid
from tests.golden.history import history as golden
from tests.histories import kept

VERBS = (
    "show",
    "diff",
    "owners",
    "blame",
    "why",
    "bisect",
    "replay",
    "whatif",
    "export",
    "verify",
    "import",
    "keygen",
    "prove",
    "check-proof",
)


def run(*words, **environment):
    clean = {"RINGLOG_URL": None, "RINGLOG_POSTGRES_DSN": None, "RINGLOG_TOKEN": None}
    words = ("audit", *map(str, words))
    return CliRunner().invoke(app, list(words), env={**clean, **environment})


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    place = tmp_path_factory.mktemp("audit") / "archive"
    memory = kept(golden().entries, every=20)
    hashes = {applied.metadata.epoch: applied for applied in replayed(golden().entries)}
    snapshots = [
        Snapshot(
            epoch=epoch,
            digest=hashes[epoch].metadata.digest,
            hash=hashes[epoch].hash,
            image=image,
        )
        for epoch, image in memory.images.items()
    ]
    export(memory.entries(Epoch(0), memory.tip.epoch), folder(place), snapshots=snapshots)
    return place


def asked(archive, *words):
    result = run(*words, "--archive", archive, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example_and_speaks_json(verb):
    result = run(verb, "--help", COLUMNS="100")

    assert result.exit_code == 0
    assert f"ringlog audit {verb}" in result.output.partition("Example:")[2]
    assert "--json" in result.output


def test_show(archive):
    assert len(asked(archive, "show", "directory", "--at", 20)["nodes"]) == 7
    assert asked(archive, "show")["epoch"] == 64
    assert run("show", "ring", "--archive", archive).exit_code == 0
    assert "== placements" in run("show", "--archive", archive).output


def test_diff(archive):
    found = asked(archive, "diff", 50, 51)

    assert found["components"]["extensions"]["added"][0]["name"] == "owner/team"
    assert "Nothing differs" in run("diff", 3, 3, "--archive", archive).output
    assert "owner/team" in run("diff", 50, 51, "--archive", archive).output


def test_owners(archive):
    found = asked(archive, "owners", "shop", "--key", "5")

    assert asked(archive, "owners", "shop", "--at-token", found["token"]) == found
    assert "readers" in run("owners", "shop", "--key", "5", "--archive", archive).output


@pytest.mark.parametrize(
    ("subject", "epoch"),
    [
        (("node", "1"), 40),
        (("token", "shop:42"), 64),
        (("range", "shop:-100:200"), 64),
        (("keyspace", "logs"), 56),
        (("table", "logs.clicks"), 55),
        (("extension", "note"), 52),
        (("member", "cms1"), 4),
    ],
)
def test_blame(archive, subject, epoch):
    found = asked(archive, "blame", *subject)

    assert found["epoch"] == epoch
    assert f"epoch: {epoch}" in run("blame", *subject, "--archive", archive).output


def test_why(archive):
    found = asked(archive, "why", "shop", "--at-token", 42, "--node", 5)

    kinds = [link["kind"] for link in found["chain"]]
    assert kinds[0] == "Register"
    assert "PrepareReplace" in kinds
    assert "node 2" in run("why", "shop", "--at-token", 42, "--archive", archive).output


def test_bisect(archive):
    question = 'count(n for n in nodes if n.state == "joined") >= 4'

    assert asked(archive, "bisect", question)["epoch"] == 25
    assert asked(archive, "bisect", "epoch >= 7", "--monotonic")["entry"]["epoch"] == 7
    assert run("bisect", question, "--archive", archive).output.startswith("epoch 25: FinishJoin")


def test_replay(archive):
    found = asked(archive, "replay")

    assert (found["holds"], found["entries"], found["errors"]) == (True, 64, 0)
    assert "the history holds" in run("replay", "--notes", "--archive", archive).output


def test_whatif(archive, tmp_path):
    (tmp_path / "in.json").write_text('[{"kind": "SetExtension", "name": "a", "value": "b"}]')

    found = asked(archive, "whatif", tmp_path / "in.json", "--batch", tmp_path / "out.json")

    assert (found["accepted"], found["base"], found["bytes"]) == (True, 64, None)
    assert json.loads((tmp_path / "out.json").read_text())["atomic"] is True
    (tmp_path / "in.json").write_text('[{"kind": "PrepareLeave", "node": 99}]')
    refused = run("whatif", tmp_path / "in.json", "--archive", archive)
    assert refused.exit_code == 1
    assert "node 99 is not registered" in refused.output


def test_from_an_archive_to_a_proof(archive, tmp_path):
    copy, key, proof = tmp_path / "copy", tmp_path / "ledger.key", tmp_path / "entry.proof"

    assert run("keygen", "ledger.example.org", "--out", key).exit_code == 0
    first = run("export", copy, "--archive", archive, "--up-to", 40, "--sign", key)
    assert first.exit_code == 0, first.output
    kept_from_before = tmp_path / "checkpoint"
    kept_from_before.write_bytes((copy / "checkpoint").read_bytes())
    assert "epoch 64" in run("export", copy, "--archive", archive, "--sign", key).output
    assert "anchored" in run("verify", copy, "--key", f"{key}.pub", "--recompute").output
    since = ("--since", kept_from_before)
    assert run("prove", 33, "--archive", copy, "--out", proof, *since).exit_code == 0
    checked = run("check-proof", proof, "--key", f"{key}.pub", *since)
    assert checked.exit_code == 0, checked.output
    assert "extends the one of 40 entries" in checked.output


def test_files_that_do_not_belong_to_an_archive_are_named(archive, tmp_path):
    copy = tmp_path / "copy"
    assert run("export", copy, "--archive", archive).exit_code == 0
    (copy / "segments" / "evil.avro").write_bytes(b"anything")

    found = run("verify", copy)

    assert found.exit_code == 0
    assert "not read: segments/evil.avro" in found.output
    assert "not recomputed" in found.output
    assert "digests recomputed" in run("verify", copy, "--recompute").output


def test_several_archives_are_verified_as_one_history(archive, tmp_path):
    first, second, key = tmp_path / "first", tmp_path / "second", tmp_path / "ledger.key"
    source = ("--archive", archive, "--sign", key)
    assert run("keygen", "ledger.example.org", "--out", key).exit_code == 0
    assert run("export", first, *source, "--up-to", 40).exit_code == 0
    assert run("export", second, *source, "--continuing", first).exit_code == 0
    signed = ("--key", f"{key}.pub", "--checkpoint", first / "checkpoint")

    sound = run("verify", second, first, *signed, "--json")
    said = run("verify", first, second, *signed, "--checkpoint", second / "checkpoint").output
    twice = run("verify", first, first, *signed)
    shorter = run("verify", first, "--key", f"{key}.pub", "--checkpoint", second / "checkpoint")
    seam = next((second / "seams").iterdir())
    seam.write_bytes(seam.read_bytes()[:-1])
    torn = run("verify", first, second)

    assert (sound.exit_code, json.loads(sound.stdout)["holds"]) == (0, True), sound.output
    parts = valid("audit verify", json.loads(sound.stdout))["archives"]
    assert [part["after"] for part in parts] == [40, 0]
    assert f"{first}: epochs 1 to 40: verified and anchored" in said
    assert f"{second}: epochs 41 to 64: verified and anchored" in said
    assert (twice.exit_code, "leave one of them out" in twice.output) == (2, True)
    assert (shorter.exit_code, "ends before" in shorter.output) == (1, True)
    assert (torn.exit_code, "seams/" in torn.output) == (1, True)


def test_an_odd_time_of_an_entry_is_told_as_it_is(tmp_path):
    scribe = golden()
    last = msgspec.structs.replace(scribe.entries[-1].entry, committed_at=2**62)
    entries = [*scribe.entries[:-1], seal(last, scribe.entries[-1].previous_hash)]
    export(entries, folder(tmp_path))

    blamed = run("bisect", "epoch >= 64", "--archive", tmp_path)

    assert blamed.exit_code == 0, blamed.output
    assert f"at {2**62} microseconds since 1970" in blamed.output
    assert _row(entries[-1])[1] == f"{2**62} microseconds since 1970"


def test_a_damaged_archive_does_not_hold(archive, tmp_path):
    copy = tmp_path / "copy"
    assert run("export", copy, "--archive", archive).exit_code == 0
    (segment,) = (copy / "segments").iterdir()
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)

    verdict = run("verify", copy, "--json")

    assert (verdict.exit_code, json.loads(verdict.stdout)["holds"]) == (1, False)
    assert run("show", "--at", 33, "--archive", copy).exit_code == 1
    replayed_ = run("replay", "--archive", copy, "--json")
    assert (replayed_.exit_code, json.loads(replayed_.stdout)["holds"]) == (1, False)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", "everything"), 2, "choose of cluster"),
        (("show", "--at", 65), 2, "it ends at 64"),
        (("diff", 1, 65), 2, "it ends at 64"),
        (("owners", "shop"), 2, "either --key or --at-token"),
        (("owners", "nowhere", "--key", "1"), 2, "no keyspace nowhere"),
        (("owners", "shop", "--key", "x"), 2, "The key is not valid"),
        (("blame", "cake", "1"), 2, "one of node"),
        (("blame", "node", "x"), 2, "write node 4"),
        (("blame", "token", "shop"), 2, "write token KEYSPACE:TOKEN"),
        (("blame", "token", f"shop:{2**63}"), 2, "write token KEYSPACE:TOKEN"),
        (("blame", "node", "99"), 1, "Nothing ever touched node 99"),
        (("why", "shop"), 2, "either --key or --at-token"),
        (("why", "shop", "--at-token", 1, "--node", 7), 2, "its owners are"),
        (("bisect", "nodes >"), 2, "Column 8: invalid syntax"),
        (("bisect", "len(nodes) > 100"), 1, "not true at any epoch from 1 to 64"),
        (("bisect", "nodes.x == 1"), 2, "Column 1"),
        (("replay", "--up-to", 65), 2, "it ends at 64"),
        (("whatif", "nothing.json"), 2, "cannot be read"),
    ],
)
def test_wrong_use_is_one_sentence_that_says_what_is_right(archive, words, code, said):
    result = run(*words, "--archive", archive)

    assert result.exit_code == code, result.output
    assert said in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", "--archive", "nowhere"), 1, "not an archive"),
        (("verify", "nowhere"), 1, "not an archive"),
        (("import", "nowhere"), 2, "RINGLOG_POSTGRES_DSN"),
        (("check-proof", "nothing", "--key", "x+y+z"), 2, "key"),
        (("keygen", "two words", "--out", "k"), 2, "leave out blanks"),
    ],
)
def test_what_is_not_there_is_said(tmp_path, monkeypatch, words, code, said):
    monkeypatch.chdir(tmp_path)

    result = run(*words)

    assert (result.exit_code, "Traceback" in result.output) == (code, False), result.output
    assert said in result.output


def test_without_an_archive_and_a_cluster_it_is_exit_code_3(tmp_path):
    assert run("replay", "--state-dir", tmp_path).exit_code == 3


def test_an_archive_that_goes_on_where_another_ends(archive, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    source = ("--archive", archive)
    assert run("export", first, *source, "--up-to", 40).exit_code == 0
    assert run("export", second, *source, "--continuing", first).exit_code == 0

    whole = run("replay", "--archive", second, "--archive", first, "--json")
    alone = run("replay", "--archive", second, "--up-to", 50)
    later = run("show", "ring", "--at", 61, "--archive", second)

    assert whole.exit_code == 0, whole.output
    assert json.loads(whole.stdout)["entries"] == 64
    # The snapshot at the seam lies in it, so that it can be replayed without the first.
    assert alone.exit_code == 0, alone.output
    assert later.exit_code == 0, later.output
