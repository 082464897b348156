"""Archives in a row: what one of them lacks the others have, and no sound one is called broken."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from audit.exporting import export
from audit.folder import folder
from audit.reading import join, open_archive
from log.replay import replay
from metadata.epoch import Epoch
from ringlog.main import app
from tests.archives import entries_of, snapshots_at

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
