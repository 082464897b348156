"""What a report may say, how old is down, which marks stay, whose history is another."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.chain import NO_ENTRIES, NO_HASH, Tip
from metadata.directory import NodeId
from metadata.epoch import EMPTY, Epoch
from services.cms.reports.lineage import Fault, Lineage, divergence
from services.cms.reports.liveness import DOWN_AFTER_S, LATE_AFTER_S, Liveness, liveness
from services.cms.reports.marks import SKEW_MAX_US, AppliedTimes, aligned, packed, thinned, unpacked
from services.http.reports import MARKS_MAX, Report, fault_in

REPORT = {
    "node": 1,
    "epoch": 7,
    "hash": "ab" * 32,
    "digest": "cd" * 32,
    "sent_at_us": 1,
    "version": "1",
}


def report(**changed):
    return msgspec.convert({**REPORT, **changed}, Report)


def test_a_report_is_what_a_node_sends():
    found = report(applied=[[5, 10], [7, 20]], data={"k.t": {"rows": 3}}, drained=6)

    assert found.applied == ((5, 10), (7, 20))
    assert fault_in(found) is None
    assert msgspec.json.decode(msgspec.json.encode(found), type=Report) == found


@pytest.mark.parametrize(
    "changed",
    [
        {"node": 0},
        {"epoch": -1},
        {"epoch": 2**60},
        {"hash": "ab"},
        {"hash": "AB" * 32},
        {"hash": None},
        {"digest": "zz" * 32},
        {"sent_at_us": -1},
        {"version": ""},
        {"version": "a\x00b"},
        {"applied": [[1]]},
        {"applied": [[1, -1]]},
        {"applied": [[epoch, 1] for epoch in range(MARKS_MAX + 1)]},
        {"data": {"k.t": {"rows": -1}}},
        {"data": {"k.t": 3}},
        {"unheard_of": 1},
    ],
)
def test_what_is_no_report_is_noticed(changed):
    with pytest.raises(msgspec.ValidationError):
        report(**changed)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"applied": [[5, 1], [5, 2]]}, "applied"),
        ({"applied": [[6, 1], [5, 2]]}, "applied"),
        ({"applied": [[8, 1]]}, "applied"),
        ({"drained": 8}, "drained"),
        ({"epoch": 0}, "hash"),
    ],
)
def test_what_contradicts_itself_is_named(changed, field):
    found = fault_in(report(**changed))

    assert found is not None
    assert found[0] == field


@pytest.mark.parametrize(
    ("age_s", "expected"),
    [
        (None, Liveness.UNKNOWN),
        (0.0, Liveness.UP),
        (LATE_AFTER_S - 0.1, Liveness.UP),
        (LATE_AFTER_S, Liveness.LATE),
        (DOWN_AFTER_S, Liveness.DOWN),
        (1e9, Liveness.DOWN),
    ],
)
def test_liveness_goes_by_age(age_s, expected):
    assert liveness(age_s) is expected


def applied(*marks):
    return AppliedTimes(marks)


def test_a_mark_speaks_for_all_epochs_since_the_one_before():
    times = applied((3, 100), (6, 200), (7, 300))

    assert [times.at(epoch) for epoch in range(2, 9)] == [None, 100, 200, 200, 200, 300, None]
    assert times.newest == 7


def test_a_node_that_begins_anew_keeps_its_first_time():
    times = applied((3, 100), (6, 200), (2, 900), (6, 950), (7, 960))

    assert [times.at(epoch) for epoch in (3, 5, 6, 7)] == [100, 200, 200, 960]


MARKS = st.lists(st.integers(1, 10_000), max_size=MARKS_MAX, unique=True).map(
    lambda epochs: [(epoch, 10 * epoch) for epoch in sorted(epochs)]
)


@given(MARKS)
def test_packing_keeps_every_mark(marks):
    assert unpacked(packed(marks)) == marks


@given(MARKS, st.integers(2, 20))
def test_few_marks_stay_and_the_last_is_one_of_them(marks, marks_max):
    kept = thinned(marks, marks_max)

    assert len(kept) <= marks_max
    assert kept[-1:] == marks[-1:]
    assert [mark for mark in marks if mark in kept] == kept


@given(MARKS)
def test_some_power_of_two_stays_exact(marks):
    """Multiples of a large enough one are told as if no mark had been left out."""
    before, after = AppliedTimes(marks), AppliedTimes(thinned(marks))
    first = marks[0][0] if marks else 1
    exact = [
        all(before.at(epoch) == after.at(epoch) for epoch in _multiples(first, before.newest, step))
        for step in (2**power for power in range(15))
    ]

    assert exact == sorted(exact)
    assert exact[-1]


def _multiples(first, last, step):
    # From the second mark on: what the first one covers is not known in either case.
    return [epoch for epoch in range(step, last + 1, step) if epoch > first]


def test_a_clock_that_is_plainly_wrong_is_set_right():
    marks = [(Epoch(1), 50), (Epoch(2), 60)]

    assert aligned(marks, sent_at_us=100, received_at_us=100 + SKEW_MAX_US) == marks
    late = 100 + 10 * SKEW_MAX_US
    assert aligned(marks, sent_at_us=100, received_at_us=late) == [
        (1, late - 50),
        (2, late - 40),
    ]


A, B = b"a" * 32, b"b" * 32
LINEAGE = Lineage(Tip(Epoch(5), A), {Epoch(5): A, Epoch(3): B})


@pytest.mark.parametrize(
    ("epoch", "found", "fault"),
    [
        (5, A, None),
        (3, B, None),
        (0, NO_HASH, None),
        (0, A, Fault.OTHER_HASH),
        (5, B, Fault.OTHER_HASH),
        (3, A, Fault.OTHER_HASH),
        (6, A, Fault.AHEAD),
        # No longer kept, so nobody can tell.
        (2, A, None),
    ],
)
def test_another_history_is_noticed(epoch, found, fault):
    assert LINEAGE.fault(Epoch(epoch), found) is fault
    named = divergence(LINEAGE, NodeId(9), Epoch(epoch), found)
    assert (named is None) == (fault is None)
    if named is not None:
        assert "Node 9" in named.sentence
        assert f"epoch {epoch}" in named.sentence
        assert "acknowledge" in named.remedy


def test_an_empty_log_is_behind_everybody():
    assert Lineage(NO_ENTRIES, {}).fault(Epoch(1), A) is Fault.AHEAD
    assert Lineage(NO_ENTRIES, {}).fault(EMPTY, NO_HASH) is None
