"""Archives in a row: what one of them lacks the others have, and no sound one is called broken."""

from __future__ import annotations

import json

import msgspec
from typer.testing import CliRunner

from audit.exporting import export
from audit.folder import folder
from audit.reading import join, open_archive
from audit.verify import Fault, Given, Verified, verify_all
from log.chain import seal
from log.replay import replay
from metadata.epoch import Epoch
from ringlog.main import app
from tests.archives import entries_of, snapshots_at
from tests.forging import without_snapshots

ENTRIES = entries_of(900)


def audit(*words):
    return CliRunner().invoke(app, ["audit", *map(str, words)])


def in_a_row(tmp_path, *, snapshots=()):
    """Two archives with a seam at 700; the snapshots are kept in the second."""
    first, second = tmp_path / "first", tmp_path / "second"
    export(ENTRIES[:700], folder(first))
    export(
        ENTRIES[700:],
        folder(second),
        snapshots=snapshots_at(ENTRIES, set(snapshots)),
        continuing=open_archive(first),
    )
    return first, second


def test_a_snapshot_at_a_seam_is_found_in_whichever_archive_has_it(tmp_path):
    first, second = in_a_row(tmp_path, snapshots=[700, 800])
    row = join([open_archive(first), open_archive(second)])
    assert row.snapshots() == [700, 800]

    assert row.restored(Epoch(700)) == replay(ENTRIES[:700])
    assert row.snapshot(Epoch(700)).epoch == 700
    both = ("--archive", first, "--archive", second)
    replayed = audit("replay", *both, "--json")
    assert replayed.exit_code == 0, replayed.output
    assert json.loads(replayed.stdout)["errors"] == 0
    report = audit("report", *both, "--out", tmp_path / "report.html", "--json")
    assert json.loads(report.stdout)["trust"] == "unanchored"


def test_an_archive_behind_another_can_be_replayed_alone(tmp_path):
    """It keeps the metadata with which it begins, though nobody took a snapshot there."""
    _, second = in_a_row(tmp_path)

    assert open_archive(second).snapshots() == [700]
    assert audit("verify", second, "--recompute").exit_code == 0
    assert audit("replay", "--archive", second).exit_code == 0
    report = audit("report", "--archive", second, "--out", tmp_path / "report.html")
    assert report.exit_code == 0, report.output


def test_one_without_that_gets_it_from_the_archive_before(tmp_path):
    """Whatever their order, and through more than one of them."""
    first, second = in_a_row(tmp_path)
    export([], folder(tmp_path / "third"), continuing=open_archive(second))
    row = [without_snapshots(tmp_path / "third"), first, without_snapshots(second)]

    for verdict in verify_all(row, Given(recompute=True)):
        assert isinstance(verdict, Verified), verdict
        assert verdict.recomputed

    forged = entry_with_another_digest(tmp_path, first)
    _, fault = verify_all([first, forged], Given(recompute=True))
    assert isinstance(fault, Fault)
    assert fault.epoch == 710
    assert fault.fault == "the metadata has another digest than the entry says"


def entry_with_another_digest(tmp_path, first):
    tip, forged = ENTRIES[699].hash, []
    for sealed in ENTRIES[700:720]:
        digest = bytes(32) if sealed.epoch == 710 else sealed.entry.digest
        forged.append(seal(msgspec.structs.replace(sealed.entry, digest=digest), tip))
        tip = forged[-1].hash
    export(forged, folder(tmp_path / "forged"), continuing=open_archive(first))
    return without_snapshots(tmp_path / "forged")


def test_one_that_was_not_recomputed_is_not_called_broken(tmp_path):
    """Alone, and without what it begins with: nothing is wrong with it, and nothing was shown."""
    first, second = in_a_row(tmp_path)
    without_snapshots(second)
    page = tmp_path / "report.html"

    alone = audit("report", "--archive", second, "--out", page, "--json")

    said = json.loads(alone.stdout)
    assert (alone.exit_code, said["trust"], said["holds"]) == (2, "unrecomputed", False)
    assert "not recomputed: the history begins without a snapshot" in said["headline"]
    assert "does not hold" not in page.read_text()
    assert f"ringlog audit verify {second} --key THE_PUBLIC_KEY\n" in page.read_text()
    both = audit("report", "--archive", first, "--archive", second, "--out", page)
    assert both.exit_code == 0, both.output
    command = f"ringlog audit verify {first} {second} --key THE_PUBLIC_KEY --recompute"
    assert command in page.read_text()
    assert audit("verify", second, "--recompute").exit_code == 2
    assert audit("verify", first, second, "--recompute").exit_code == 0


def test_an_archive_is_not_begun_behind_one_of_another_history(tmp_path):
    """Also where the log has nothing new: its entry at the seam is looked at."""
    export(ENTRIES[:700], folder(tmp_path / "first"))
    export(entries_of(700, salt="x"), folder(tmp_path / "forked"))
    export(ENTRIES[:700], folder(tmp_path / "same"))
    behind = ("--continuing", tmp_path / "first")

    forked = audit("export", tmp_path / "second", "--archive", tmp_path / "forked", *behind)
    same = audit("export", tmp_path / "third", "--archive", tmp_path / "same", *behind)

    assert forked.exit_code == 1, forked.output
    assert "epoch 700: it holds another history than the log" in forked.output
    assert not (tmp_path / "second" / "manifest.json").exists()
    assert same.exit_code == 0, same.output
