"""No reason for a rejection goes untested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from metadata.cluster import NOTHING_YET
from tests.builders import founded, rejected
from transformations.extensions import SetExtension
from transformations.initialize import TriggerSnapshot
from transformations.kinds import KINDS, execute, kind_of
from transformations.outcome import Reason

EXEMPT = {
    # The commit service gives it, where `execute` itself breaks down: no transformation does.
    Reason.INTERNAL,
}
SOURCES = sorted(Path(__file__).parent.glob("test_transformations_*.py"))


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason not in EXEMPT])
def test_every_reason_is_named_by_a_test(reason):
    mention = re.compile(rf"\bReason\.{reason.name}\b")

    named = [path.name for path in SOURCES if mention.search(path.read_text("utf-8"))]

    assert named


@pytest.mark.parametrize("transformation", [TriggerSnapshot(), SetExtension(name="a", value="b")])
def test_nothing_is_possible_before_the_founding_entry(transformation):
    refused = rejected(execute(transformation, NOTHING_YET), Reason.NOT_INITIALIZED)

    assert refused.remedy == "commit Initialize first"


def test_everything_is_possible_after_it():
    outcome = execute(TriggerSnapshot(), founded())

    assert outcome == TriggerSnapshot().execute(founded())


def test_a_kind_is_named_after_its_class():
    assert all(kind.__name__ == name for name, kind in KINDS.items())
    assert kind_of(TriggerSnapshot()) == "TriggerSnapshot"
    assert len(KINDS) == 40
