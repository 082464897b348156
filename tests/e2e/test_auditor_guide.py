"""The auditor's walk-through does what it says: its commands run, and print what stands there."""

from __future__ import annotations

import pytest

from audit.archive import CHECKPOINT
from tests.archives import KEY, archived
from tests.e2e.guides import walk
from tests.golden.history import history as golden


@pytest.fixture
def folder(tmp_path):
    """What an auditor is given."""
    entries = golden().entries
    backup = archived(tmp_path / "backup", entries[:40], snapshots={20})
    (tmp_path / "checkpoint-of-march").write_bytes((backup / CHECKPOINT).read_bytes())
    archived(backup, entries, signed_at=[40], snapshots={20, 40})
    (tmp_path / "ledger.key.pub").write_text(KEY.public.text + "\n")
    return tmp_path


def test_the_walk_through(folder):
    walk("auditor", folder)
    # And every file that it speaks of is there in the end.
    for name in ("report.html", "report.json", "entry-25.proof", "checkpoint-of-april"):
        assert (folder / name).stat().st_size > 100
    assert "✗ Tampered or damaged" in (folder / "altered.html").read_text("utf-8")
