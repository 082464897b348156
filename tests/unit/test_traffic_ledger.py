"""What live traffic holds a read to: everything acknowledged before it, nothing never tried."""

from __future__ import annotations

import pytest

from tests.e2e.traffic import NOT_THERE, Ledger


@pytest.fixture
def ledger():
    """Version 1 is acknowledged; version 2 was tried, and nobody knows what came of it."""
    made = Ledger()
    made.acknowledge("k", made.try_("k", 1))
    made.try_("k", 2)
    return made


@pytest.mark.parametrize(
    ("found", "is_right"), [(1, True), (2, True), (NOT_THERE, False), (3, False)]
)
def test_a_read_finds_what_was_acknowledged_or_tried_after_it(ledger, found, is_right):
    violation = ledger.end_read("k", ledger.begin_read("k"), found)

    assert (violation is None) == is_right


def test_what_is_acknowledged_hides_what_was_before(ledger):
    ledger.acknowledge("k", ledger.try_("k", NOT_THERE))

    violation = ledger.end_read("k", ledger.begin_read("k"), 1)

    assert violation.allowed == (NOT_THERE,)
    assert ledger.end_read("k", ledger.begin_read("k"), NOT_THERE) is None


def test_a_read_may_find_what_was_acknowledged_when_it_began(ledger):
    since = ledger.begin_read("k")
    ledger.acknowledge("k", ledger.try_("k", 3))

    assert ledger.end_read("k", since, 1) is None
    assert ledger.end_read("k", since, 3) is None


def test_a_key_that_nobody_wrote_is_not_there(ledger):
    assert ledger.end_read("other", ledger.begin_read("other"), NOT_THERE) is None
    assert ledger.end_read("other", ledger.begin_read("other"), 1) is not None
    assert ledger.keys() == ["k"]
