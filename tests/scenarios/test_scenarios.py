"""Every script prints what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.script import replayed

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scenario(path):
    """If the change is meant: `python -m tests.scenarios --rewrite`, and read the difference."""
    written = path.read_text()

    assert replayed(written) == written


def test_there_are_scenarios():
    assert len(SCRIPTS) >= 10


def test_a_wrong_expectation_is_noticed():
    script = "> found demo\nepoch 2, Initialize\n"

    assert replayed(script) != script
