"""How far a movement is: in rows, in bytes, and how long it will take."""

from __future__ import annotations

from typing import cast

from client.connection import Connection
from metadata.barriers import Level
from metadata.locks import SequenceId
from metadata.plans import Step
from movement.asking import Tasks
from sequences.status import Board, Doing, Status
from services.driver.progress import Meters
from services.driver.telling import Telling

FIRST = SequenceId(12)


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def begun():
    clock = Clock()
    meters = Meters(clock)
    return clock, meters, meters.begin(FIRST)


def test_nothing_is_told_of_what_does_not_run():
    _, meters, _ = begun()

    assert meters.moved(SequenceId(13)) is None
    meters.end(FIRST)
    meters.end(FIRST)
    assert meters.moved(FIRST) is None


def test_rows_and_bytes_grow_with_the_share_that_is_done():
    _, meters, meter = begun()
    meter.expect("a", 1000, 5000)
    meter.expect("b", 500, 500)
    meter.say("copying")

    meter.advance("a", 0.5)

    found = meters.moved(FIRST)
    assert (found.rows_done, found.rows_total) == (500, 1500)
    assert (found.bytes_done, found.bytes_total) == (2500, 5500)
    assert found.phase == "copying"


def test_the_time_that_is_left_follows_from_the_rate():
    clock, meters, meter = begun()
    meter.expect("a", 1000, 5000)
    assert meters.moved(FIRST).left_s is None

    clock.now_s += 10
    meter.advance("a", 0.25)

    found = meters.moved(FIRST)
    assert found.rows_per_s == 25.0
    assert found.left_s == 30.0


def test_a_share_never_shrinks_or_exceeds_the_whole():
    _, meters, meter = begun()
    meter.expect("a", 100, 100)

    for share in (0.6, 0.2, 7.0):
        meter.advance("a", share)

    assert meters.moved(FIRST).rows_done == 100


def test_what_is_done_counts_by_what_it_was():
    """However far off the guess was, it ends at what was moved."""
    clock, meters, meter = begun()
    meter.expect("a", 1600, 16_000)
    meter.expect("b", 100, 1000)
    clock.now_s += 10
    meter.advance("a", 0.5)

    meter.settle("a", 1000, 9000)

    found = meters.moved(FIRST)
    assert (found.rows_done, found.rows_total) == (1000, 1100)
    assert (found.bytes_done, found.bytes_total) == (9000, 10_000)
    assert found.rows_per_s == 100.0


def test_what_was_found_done_does_not_count_for_the_rate():
    clock, meters, meter = begun()
    meter.find_done("old", 900, 900)
    meter.expect("new", 100, 100)
    clock.now_s += 5
    meter.advance("new", 0.5)

    found = meters.moved(FIRST)

    assert (found.rows_done, found.rows_total) == (950, 1000)
    assert found.rows_per_s == 10.0
    assert found.left_s == 5.0


def test_a_movement_that_comes_no_further_is_stalled_since_it_last_did():
    clock, meters, meter = begun()
    clock.now_s += 5
    assert meters.moved(FIRST).stalled_s == 5.0
    meter.expect("a", 1000, 5000)
    meter.say("copying")
    assert meters.moved(FIRST).stalled_s == 0.0
    clock.now_s += 7
    meter.advance("a", 0.5)
    clock.now_s += 9
    # A job that is run again brings nothing that was not there before.
    meter.advance("a", 0.25)
    assert meters.moved(FIRST).stalled_s == 9.0
    meter.settle("a", 900, 4000)
    assert meters.moved(FIRST).stalled_s == 0.0


def test_a_movement_whose_tasks_end_is_not_stalled():
    """Also where they bring no row of their own, as those that merge or count."""
    clock, meters, meter = begun()
    meter.see(Tasks(1, 8, executors=1))
    clock.now_s += 5
    meter.see(Tasks(1, 8, executors=2))
    assert meters.moved(FIRST).stalled_s == 5.0
    meter.see(Tasks(2, 8, executors=2))

    assert meters.moved(FIRST).stalled_s == 0.0


def test_the_longest_stall_of_all_movements_is_what_is_measured():
    clock, meters, _ = begun()
    board, nobody = Board(), cast("Connection", None)
    telling = Telling("driver-1", Level.QUORUM, board, nobody, meters.moved)
    assert telling.stalled_s == 0.0
    for number in (12, 13, 14):
        status = Status(sequence=SequenceId(number), step=Step.MID, doing=Doing.MOVING, since_s=0.0)
        board.put(status)
    clock.now_s += 30
    meters.begin(SequenceId(13))
    clock.now_s += 1
    assert telling.stalled_s == 31.0
