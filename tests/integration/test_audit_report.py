"""`ringlog audit report` on archives that are sound, damaged or forged, and on a live cluster."""

from __future__ import annotations

import asyncio
import json
import shutil

import pytest
from typer.testing import CliRunner

from ringlog.main import app
from tests.archives import KEY, OTHER_KEY, archived
from tests.forging import Forger
from tests.golden.history import history as golden
from tests.integration.test_cms_reads import populated
from tests.integration.test_cms_serving import served


def run(*words):
    clean = {"RINGLOG_URL": None, "RINGLOG_POSTGRES_DSN": None, "RINGLOG_TOKEN": None}
    return CliRunner().invoke(app, ["audit", "report", *map(str, words)], env=clean)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    place = tmp_path_factory.mktemp("report") / "archive"
    return archived(place, golden().entries, signed_at=[40], snapshots={20, 40})


def reported(archive, folder, *words):
    page, plain = folder / "report.html", folder / "report.json"
    result = run("--archive", archive, "--out", page, "--json-out", plain, *words)
    assert "Traceback" not in result.output, result.output
    return result, page.read_text("utf-8"), json.loads(plain.read_text("utf-8"))


def test_a_signed_archive(archive, tmp_path):
    result, page, plain = reported(archive, tmp_path, "--key", KEY.public.text)

    assert result.exit_code == 0, result.output
    assert (plain["trust"], plain["holds"]) == ("anchored", True)
    assert "✓ Verified and anchored" in page
    assert [proof["signed_by"] for proof in plain["proofs"]] == [[KEY.name], [KEY.name]]
    assert plain["contents"]["root"] in page
    assert KEY.public.text in page


def test_without_a_key_nobody_vouches_for_it(archive, tmp_path):
    result, page, plain = reported(archive, tmp_path)

    assert (result.exit_code, plain["trust"]) == (0, "unanchored")
    assert "consistent, not anchored" in page


def test_a_key_that_did_not_sign_it_proves_nothing(archive, tmp_path):
    result, page, plain = reported(archive, tmp_path, "--key", OTHER_KEY.public.text)

    assert (result.exit_code, plain["trust"]) == (1, "tampered")
    assert "no checkpoint is signed by a key that was given" in page


@pytest.mark.parametrize("part", ["segments", "snapshots", "manifest.json", "checkpoint", "tile"])
def test_a_change_anywhere_is_said_on_top(archive, tmp_path, part):
    forger = Forger(archive, tmp_path / "copy", seed=1)
    path = next(file for file in forger.files if file.startswith(part))
    data = bytearray(forger.get(path))
    data[len(data) // 2] ^= 1
    forger.put(path, bytes(data))

    result, page, plain = reported(forger.archive, tmp_path, "--key", KEY.public.text)

    assert (result.exit_code, plain["trust"], plain["holds"]) == (1, "tampered", False)
    assert page.index("✗ Tampered or damaged") < page.index('id="proofs"')
    assert 'class="verdict tampered"' in page


def test_several_archives_are_one_history(archive, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for words in (
        ("export", first, "--archive", archive, "--up-to", 40),
        ("export", second, "--archive", archive, "--continuing", first),
    ):
        assert CliRunner().invoke(app, ["audit", *map(str, words)]).exit_code == 0

    whole, _, plain = reported(first, tmp_path, "--archive", second)
    alone, _, later = reported(second, tmp_path)
    shutil.rmtree(first / "segments")
    torn, _, bad = reported(first, tmp_path, "--archive", second)

    assert (whole.exit_code, plain["contents"]["replay"]["entries"]) == (0, 64)
    assert (alone.exit_code, later["contents"]["after"]) == (0, 40)
    assert (torn.exit_code, bad["trust"]) == (1, "tampered")


def test_archives_that_are_not_one_history(archive, tmp_path):
    result, page, plain = reported(archive, tmp_path, "--archive", archive)

    assert (result.exit_code, plain["contents"], plain["trust"]) == (2, None, "misused")
    assert "leave one of them out" in page
    assert "amaged" not in page
    assert "These archives do not follow one another" in page


def test_wrong_use(archive, tmp_path):
    nowhere = run("--archive", tmp_path / "nowhere", "--out", tmp_path / "a.html")
    unwritable = run("--archive", archive, "--out", tmp_path / "no" / "a.html")
    keyless = run("--url", "http://127.0.0.1:1", "--key", KEY.public.text, "--out", "a.html")

    assert (nowhere.exit_code, "✗" in (tmp_path / "a.html").read_text("utf-8")) == (1, True)
    assert (unwritable.exit_code, "cannot be written" in unwritable.output) == (2, True)
    assert (keyless.exit_code, "add --archive" in keyless.output) == (2, True)


def test_help_has_an_example():
    said = run("--help").output
    assert "ringlog audit report --archive" in " ".join(said.split())
    assert "--json" in said


async def test_a_running_cluster(tmp_path):
    async with served() as client:
        await populated(client)
        url = str(client.session._base_url)
        result = await asyncio.to_thread(run, "--url", url, "--out", tmp_path / "a.html", "--json")

    assert result.exit_code == 0, result.output
    plain = json.loads(result.stdout)
    assert (plain["trust"], plain["contents"]["tip"]) == ("unanchored", 9)
