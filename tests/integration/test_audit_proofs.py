"""A proof bundle convinces somebody who has only the public key, and Go's own code, too."""

from __future__ import annotations

import json
import shutil
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audit.archive import CHECKPOINT
from audit.bundle import BundleError, check_bundle, decode_bundle, encode_bundle, prove
from audit.checkpoints import parse_checkpoint
from audit.errors import ArchiveError
from audit.exporting import export
from audit.folder import folder
from audit.reading import open_archive
from audit.signing import sign_archive
from metadata.epoch import Epoch
from ringlog.main import app
from tests.archives import KEY, OTHER_KEY, archived, entries_of

ENTRIES = entries_of(1500)
GO = Path(__file__).parents[1] / "vectors" / "tlog"
GO_TIMEOUT_S = 100


@pytest.mark.skipif(shutil.which("go") is None, reason="needs the Go tools: go is not installed")
def test_go_verifies_what_is_proved_here(tmp_path):
    """Note, inclusion, consistency and every tile, by golang.org/x/mod/sumdb."""
    archived(tmp_path, entries_of(70_000), signed_at=[700], snapshots=set())
    archive = open_archive(tmp_path)
    since = parse_checkpoint((tmp_path / archive.manifest.checkpoints[0].path).read_bytes())
    bundle = tmp_path / "bundle.json"

    for epoch in (1, 256, 700, 65_536, 69_999, 70_000):
        bundle.write_bytes(encode_bundle(prove(archive, Epoch(epoch), since=since)))
        assert go("check", str(bundle), KEY.public.text, str(tmp_path)) == "ok 70000\n"
    bundle.write_bytes(bundle.read_bytes().replace(b'"epoch": 70000', b'"epoch": 69999'))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        go("check", str(bundle), KEY.public.text, str(tmp_path))
    assert "inclusion: invalid transparency proof" in refused.value.stderr


@pytest.mark.skipif(shutil.which("go") is None, reason="needs the Go tools: go is not installed")
def test_the_vectors_are_those_that_go_writes():
    assert go("vectors") == (GO / "vectors.json").read_text()


def go(*arguments):
    done = subprocess.run(
        ["go", "run", ".", *arguments],
        cwd=GO,
        capture_output=True,
        check=True,
        text=True,
        timeout=GO_TIMEOUT_S,
    )
    return done.stdout


def test_a_bundle_proves_an_entry_and_that_the_log_only_grew(tmp_path):
    archived(tmp_path, ENTRIES, signed_at=[700], snapshots=set())
    archive = open_archive(tmp_path)
    last_month = parse_checkpoint((tmp_path / archive.manifest.checkpoints[0].path).read_bytes())

    data = encode_bundle(prove(archive, Epoch(321), since=last_month))

    proved = check_bundle(decode_bundle(data), [KEY.public], remembered=last_month)
    assert proved.entry == ENTRIES[320].entry
    assert (proved.size, proved.earlier_size) == (1500, 700)
    with pytest.raises(BundleError, match="signed by none of the keys"):
        check_bundle(decode_bundle(data), [OTHER_KEY.public])
    kept = parse_checkpoint(sign_elsewhere(tmp_path))
    with pytest.raises(BundleError, match="not shown to extend the checkpoint that you kept"):
        check_bundle(decode_bundle(data), [KEY.public], remembered=kept)


def sign_elsewhere(tmp_path):
    place = tmp_path / "elsewhere"
    export(entries_of(700, salt="other"), folder(place), keys=[KEY])
    return (place / CHECKPOINT).read_bytes()


def test_a_bundle_of_anything_else_proves_nothing(tmp_path):
    archived(tmp_path, ENTRIES, signed_at=[700], snapshots=set())
    archive = open_archive(tmp_path)
    since = parse_checkpoint((tmp_path / archive.manifest.checkpoints[0].path).read_bytes())
    bundle = prove(archive, Epoch(321), since=since)
    plain = json.loads(encode_bundle(bundle))
    other = ENTRIES[400].payload

    changes: list[dict] = [
        {"epoch": 322},
        {"payload": b64encode(other).decode()},
        {"payload": b64encode(other).decode(), "epoch": 401},
        {"previous_hash": "00" * 32},
        {"inclusion": plain["inclusion"][1:]},
        {"inclusion": ["00" * 32] * 65},
        {"checkpoint": plain["checkpoint"].replace("1500", "1501")},
        {"checkpoint": "nothing"},
        {"schema": {}},
        {"earlier": {**plain["earlier"], "consistency": []}},
        {"earlier": {**plain["earlier"], "checkpoint": plain["checkpoint"]}},
        {"more": 1},
        {"epoch": -1},
    ]
    for change in changes:
        with pytest.raises(BundleError):
            check_bundle(decode_bundle(json.dumps({**plain, **change}).encode()), [KEY.public])
    with pytest.raises(BundleError, match="not a proof bundle"):
        decode_bundle(b"{")


def test_only_what_was_signed_is_proved(tmp_path):
    export(ENTRIES[:700], folder(tmp_path))
    with pytest.raises(ArchiveError, match="sign it first"):
        prove(open_archive(tmp_path), Epoch(5))
    sign_archive(folder(tmp_path), [KEY])
    export(ENTRIES[699:800], folder(tmp_path))

    assert check_bundle(prove(open_archive(tmp_path), Epoch(700)), [KEY.public]).size == 700
    with pytest.raises(ArchiveError, match="epoch 701 is not among what was signed"):
        prove(open_archive(tmp_path), Epoch(701))
    with pytest.raises(ArchiveError, match="not those of the earlier checkpoint"):
        prove(
            open_archive(tmp_path), Epoch(5), since=parse_checkpoint(sign_elsewhere(tmp_path / "x"))
        )


def test_an_archive_that_was_changed_proves_nothing_and_says_so(tmp_path):
    """One hash in one tile, below those that the root is made of."""
    archive, out = tmp_path / "archive", tmp_path / "proof"
    archived(archive, ENTRIES[:800], signed_at=[100], snapshots=set())
    shutil.copy(archive / open_archive(archive).manifest.checkpoints[0].path, tmp_path / "then")
    tile = archive / "tile/0/000"
    data = bytearray(tile.read_bytes())
    data[32 * 150] ^= 1
    tile.write_bytes(data)

    def proved(epoch, *more):
        words = ["prove", str(epoch), "--archive", str(archive), "--out", str(out), *more]
        return CliRunner().invoke(app, ["audit", *words])

    included = proved(150)
    assert included.exit_code == 1, included.output
    assert "epoch 150: its tiles do not prove that the entry is in what was signed" in (
        included.stderr
    )
    grown = proved(700, "--since", str(tmp_path / "then"))
    assert grown.exit_code == 1, grown.output
    assert "do not prove that it extends the earlier checkpoint" in grown.stderr
    assert not out.exists()
    assert proved(700).exit_code == 0
