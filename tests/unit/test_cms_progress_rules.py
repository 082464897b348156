"""What is made of reports and of what drivers tell: estimates, rates, times."""

from __future__ import annotations

import msgspec
import pytest

from metadata.barriers import Level
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from metadata.plans import Handover, RangeChange
from metadata.tokens import Range, Token
from services.cms.progress.barriers import applied_by
from services.cms.progress.bodies import StepView
from services.cms.progress.estimates import sources_of
from services.cms.progress.movements import driven_in, driver_view, movement_view, usual_rate
from services.cms.progress.store import Known
from services.cms.progress.views import level_of
from services.cms.reports.lineage import Fault
from services.cms.reports.store import Heard
from services.http.progress import Driven, Moved

MOVED = Moved(
    phase="copying",
    rows_done=100,
    rows_total=400,
    bytes_done=1,
    bytes_total=4,
    rows_per_s=50.0,
)


def known(driven=b"{}", age_s=1.0):
    return Known(sequence=SequenceId(7), driver="d", driven=driven, age_s=age_s)


def heard(**more):
    plain = {"epoch": 9, "hash": b"", "digest": b"", "version": "1", "marks": b"", "age_s": 0.0}
    own = {"node": 1, "fault": None, "drained": None, "data": None}
    return Heard(**{**own, **plain, **more})


def test_what_another_release_wrote_is_nothing():
    assert driven_in(None) is None
    assert driven_in(known(b"{}")) is None
    assert driven_in(known(b"\xff")) is None


def test_a_driver_is_shown_with_the_time_that_has_passed_since():
    driven = Driven(sequence=Epoch(7), step="mid", doing="moving", for_s=2.0, moved=MOVED)
    found = known(msgspec.json.encode(driven), age_s=1.5)
    assert driven_in(found) == driven
    assert driver_view(found, driven).for_s == 3.5
    assert driver_view(found, driven).detail is None


@pytest.mark.parametrize(
    ("moved", "age_s", "expected"),
    [
        (MOVED, 1.0, 5.0),
        (MOVED, 100.0, 0.0),
        (msgspec.structs.replace(MOVED, left_s=9.0), 1.0, 8.0),
        (msgspec.structs.replace(MOVED, rows_per_s=0.0), 1.0, None),
        (msgspec.structs.replace(MOVED, rows_done=900), 0.0, 0.0),
    ],
)
def test_the_time_that_is_left_is_counted_from_now(moved, age_s, expected):
    assert movement_view(moved, age_s).eta_s == expected


def test_a_movement_is_stalled_from_when_it_last_came_further_until_now():
    moved = msgspec.structs.replace(MOVED, stalled_s=60.0)
    assert movement_view(moved, 1.5).stalled_s == 61.5


def test_the_level_is_the_drivers_or_that_of_the_last_step_before():
    driven = Driven(sequence=Epoch(7), step="mid", doing="moving", for_s=2.0, level=Level.ALL)
    taken = [
        StepView(step="prepare", epoch=Epoch(7)),
        StepView(step="start", epoch=Epoch(8), level=Level.QUORUM),
    ]

    assert level_of(driven, taken) is Level.ALL
    assert level_of(None, taken) is Level.QUORUM
    assert level_of(None, taken[:1]) is Level.EACH_QUORUM


def test_the_usual_rate_is_not_that_of_one_disturbed_movement():
    assert usual_rate([]) is None
    assert usual_rate([100.0, 1.0, 110.0]) == 100.0


def test_a_node_counts_by_what_it_has_drained():
    assert applied_by(None) is None
    assert applied_by(heard()) == 9
    assert applied_by(heard(drained=7)) == 7
    assert applied_by(heard(drained=0)) == 0
    assert applied_by(heard(fault=Fault.AHEAD)) is None


def test_the_one_whose_place_is_taken_is_the_source_unless_it_is_dead():
    nodes = [NodeId(number) for number in range(1, 5)]
    change = RangeChange(
        range=Range(Token(0), Token(9)),
        before=tuple(nodes[:3]),
        after=tuple(nodes[1:]),
        handovers=(Handover(nodes[3], nodes[0]),),
        wanted=3,
    )
    assert sources_of(change, nodes[3], ()) == (1,)
    assert sources_of(change, nodes[3], (nodes[0],)) == (2, 3)
