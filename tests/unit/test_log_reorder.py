"""Entries are released in order, whatever order they come in."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.reorder import ReorderBuffer
from metadata.epoch import EMPTY, Epoch


class Arrived(msgspec.Struct, frozen=True):
    epoch: Epoch
    road: str = ""


HISTORY = [Arrived(Epoch(epoch)) for epoch in range(1, 9)]


def at(*epochs):
    return [HISTORY[epoch - 1] for epoch in epochs]


def released_by(buffer, *epochs):
    return [[entry.epoch for entry in buffer.push(HISTORY[epoch - 1])] for epoch in epochs]


@given(
    arrivals=st.lists(st.sampled_from(HISTORY), max_size=24) | st.permutations(HISTORY * 2),
    pending_max=st.integers(0, 8),
    applied=st.integers(0, 8),
)
def test_any_delivery_gives_one_history(arrivals, pending_max, applied):
    """Loss, shuffling, duplicates and a small buffer delay entries; they never change them."""
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(Epoch(applied), pending_max=pending_max)

    released = [entry for arrival in arrivals for entry in buffer.push(arrival)]
    for entry in HISTORY:  # Catching up: the whole log once more, in order.
        released += buffer.push(entry)

    assert released == HISTORY[applied:]
    assert buffer.missing_from is None
    assert not buffer._pending


@given(st.permutations(HISTORY), st.integers(0, 8))
def test_never_holds_more_than_it_may(arrivals, pending_max):
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(EMPTY, pending_max=pending_max)

    for arrival in arrivals:
        buffer.push(arrival)
        assert len(buffer._pending) <= pending_max


@given(st.permutations(HISTORY))
def test_with_room_for_all_nothing_is_asked_for_twice(arrivals):
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(EMPTY, pending_max=len(HISTORY))

    released = [entry for arrival in arrivals for entry in buffer.push(arrival)]

    assert released == HISTORY


def test_a_gap_is_named_until_it_is_closed():
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(EMPTY, pending_max=4)

    assert released_by(buffer, 1, 3, 4) == [[1], [], []]
    assert buffer.missing_from == 2
    assert released_by(buffer, 2) == [[2, 3, 4]]
    assert buffer.missing_from is None


def test_a_full_buffer_forgets_and_asks_again():
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(EMPTY, pending_max=1)

    assert released_by(buffer, 3, 4, 1) == [[], [], [1]]
    assert buffer.missing_from == 2
    assert released_by(buffer, 2, 4) == [[2, 3], [4]]


@pytest.mark.parametrize("pending_max", [1, 4])
def test_what_comes_again_takes_the_place_of_what_was_waiting(pending_max):
    """The log may correct what came by a less trusted road, also when the buffer is full."""
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(EMPTY, pending_max=pending_max)
    buffer.push(Arrived(Epoch(2), "fan-out"))
    buffer.push(Arrived(Epoch(2), "log"))

    assert buffer.push(HISTORY[0])[1] == Arrived(Epoch(2), "log")
