"""An archive does not go on with a log that ends before it."""

import pytest
from typer.testing import CliRunner

from ringlog.main import app
from tests.archives import archived
from tests.golden.history import history as golden


@pytest.fixture
def archives(tmp_path):
    entries = golden().entries
    whole = archived(tmp_path / "whole", entries, snapshots=set())
    return whole, archived(tmp_path / "shorter", entries[:40], snapshots=set())


def export(out, source, *words):
    return CliRunner().invoke(app, ["audit", "export", str(out), "--archive", str(source), *words])


def test_a_log_that_lost_its_tail_is_noticed_by_the_next_export(archives):
    whole, shorter = archives
    refused = export(whole, shorter)
    assert refused.exit_code == 1
    assert "ends at epoch 64 and this log at 40: it has lost entries" in refused.stderr
    assert export(whole, whole).exit_code == 0


def test_whoever_asks_for_less_is_not_warned(archives):
    whole, _ = archives
    assert export(whole, whole, "--up-to", "50").exit_code == 0
