"""The auditor's walk-through does what it says: its commands run, and print what stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from audit.archive import CHECKPOINT
from tests.archives import KEY, archived
from tests.golden.history import history as golden

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "auditor.md"
TIMEOUT_S = 120
_BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks():
    """Each block of commands with what the next block says that it prints."""
    found = _BLOCK.findall(GUIDE.read_text("utf-8"))
    assert found[0][0] == "sh"
    steps: list[tuple[str, list[str]]] = []
    for kind, body in found:
        if kind == "sh":
            steps.append((body, []))
        else:
            steps[-1][1].extend(body.splitlines())
    return steps


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
    others = {k: v for k, v in os.environ.items() if not k.startswith("RINGLOG_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for script, expected in blocks():
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder,
            env={**others, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        assert "Traceback" not in done.stdout
        printed = " ".join(done.stdout.split())
        for line in expected:
            assert " ".join(line.split()) in printed, f"{script}\n{done.stdout}"
    # And every file that it speaks of is there in the end.
    for name in ("report.html", "report.json", "entry-25.proof", "checkpoint-of-april"):
        assert (folder / name).stat().st_size > 100
    assert "✗ Tampered or damaged" in (folder / "altered.html").read_text("utf-8")
