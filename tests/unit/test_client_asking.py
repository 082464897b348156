"""The log is asked as rarely as fan-out allows and as often as its silence demands."""

from __future__ import annotations

import pytest

from client.asking import (
    CHECK_EVERY_S,
    GAP_PAUSE_S,
    IN_VAIN_PAUSE_S,
    JUMPS_TRIED_MAX,
    UNANSWERED,
    Asking,
    Jumping,
)
from metadata.epoch import EMPTY, Epoch

SEVEN, NINE = Epoch(7), Epoch(9)


def answered(asking, now_s, *, unannounced=False, in_vain=False):
    asking.answered(now_s, unannounced=unannounced, in_vain=in_vain)
    return asking


def test_without_fan_out_the_log_is_asked_all_the_time():
    asking = answered(Asking(is_fanned_out=False), 5.0)

    assert asking.is_silent
    assert asking.pause_s(None, 5.0) <= 0


def test_while_fan_out_brings_everything_there_is_only_a_check():
    asking = Asking(is_fanned_out=True)

    assert asking.pause_s(None, 5.0) <= 0  # The first time nobody knows where the log ends.
    assert answered(asking, 5.0).pause_s(None, 5.5) == CHECK_EVERY_S - 0.5


def test_a_gap_is_given_a_moment_to_close():
    asking = answered(Asking(is_fanned_out=True), 5.0)

    assert asking.pause_s(SEVEN, 5.1) == pytest.approx(GAP_PAUSE_S)
    assert asking.pause_s(SEVEN, 5.1 + GAP_PAUSE_S) <= 1e-9


def test_where_fan_out_brings_no_entries_nothing_is_waited_for():
    """NOTIFY tells of entries; only asking gets them."""
    asking = answered(Asking(is_fanned_out=True, gap_pause_s=0.0), 5.0)

    assert asking.pause_s(SEVEN, 5.1) <= 0


def test_more_arrivals_do_not_put_off_asking_about_the_same_gap():
    asking = answered(Asking(is_fanned_out=True), 5.0)

    pauses = [asking.pause_s(SEVEN, 5.1 + tick * GAP_PAUSE_S / 10) for tick in range(12)]

    assert pauses == sorted(pauses, reverse=True)
    assert pauses[-1] < 0


def test_the_next_gap_gets_a_moment_of_its_own():
    asking = answered(Asking(is_fanned_out=True), 5.0)
    asking.pause_s(SEVEN, 5.1)

    assert asking.pause_s(NINE, 6.0) == pytest.approx(GAP_PAUSE_S)


def test_fan_out_that_missed_something_is_not_relied_on_until_it_is_heard():
    asking = answered(Asking(is_fanned_out=True), 5.0, unannounced=True)
    assert asking.is_silent

    asking.heard()

    assert not asking.is_silent


def test_a_false_alarm_costs_few_questions():
    asking = answered(Asking(is_fanned_out=True), 5.0, in_vain=True)

    assert asking.pause_s(SEVEN, 5.0) == IN_VAIN_PAUSE_S


def test_a_log_that_does_not_answer_is_left_alone_for_longer_each_time():
    asking = Asking(is_fanned_out=False)
    pauses = []
    for _ in range(40):
        asking.failed(5.0, chance=1.0)
        pauses.append(asking.pause_s(None, 5.0))

    assert pauses[:3] == pytest.approx([UNANSWERED.first_s * factor for factor in (1, 2, 4)])
    assert pauses[-1] == UNANSWERED.last_s
    assert answered(asking, 9.0).pause_s(None, 9.0 + UNANSWERED.last_s) <= 0


def test_a_snapshot_that_does_not_come_is_given_up_for_the_entries():
    jumping = Jumping()
    for _ in range(JUMPS_TRIED_MAX - 1):
        jumping.failed(SEVEN, is_damaged=False)
    assert jumping.is_worthwhile(EMPTY)
    jumping.jumped()
    for _ in range(JUMPS_TRIED_MAX):
        assert jumping.is_worthwhile(EMPTY)
        jumping.failed(SEVEN, is_damaged=False)

    assert not jumping.is_worthwhile(EMPTY)
    assert jumping.is_worthwhile(SEVEN)


def test_a_damaged_snapshot_is_asked_for_again_only_where_nothing_else_leads_on():
    jumping = Jumping()
    jumping.failed(SEVEN, is_damaged=True)
    assert not jumping.is_worthwhile(EMPTY)

    jumping.trimmed()

    assert jumping.is_worthwhile(EMPTY)
