"""Entries are released in order, whatever order they come in."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.reorder import ReorderBuffer, Room
from metadata.epoch import EMPTY, Epoch


class Arrived(msgspec.Struct, frozen=True):
    epoch: Epoch
    road: str = ""
    payload: bytes = b""


HISTORY = [Arrived(Epoch(epoch)) for epoch in range(1, 9)]


def released(buffer, arrival):
    """Push it, then take all that are next in line."""
    buffer.push(arrival)
    taken = []
    while (entry := buffer.next_in_line) is not None:
        buffer.advance(entry.epoch)
        taken.append(entry)
    return taken


def released_by(buffer, *epochs):
    return [[entry.epoch for entry in released(buffer, HISTORY[epoch - 1])] for epoch in epochs]


@given(
    arrivals=st.lists(st.sampled_from(HISTORY), max_size=24) | st.permutations(HISTORY * 2),
    pending_max=st.integers(0, 8),
    applied=st.integers(0, 8),
)
def test_any_delivery_gives_one_history(arrivals, pending_max, applied):
    """Loss, shuffling, duplicates and a small buffer delay entries; they never change them."""
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(Epoch(applied), Room(entries_max=pending_max))

    history = [entry for arrival in arrivals for entry in released(buffer, arrival)]
    for entry in HISTORY:  # Catching up: the whole log once more, in order.
        history += released(buffer, entry)

    assert history == HISTORY[applied:]
    assert buffer.missing_from is None
    assert not buffer._pending


@given(st.permutations(HISTORY), st.integers(0, 8))
def test_never_holds_more_than_it_may(arrivals, pending_max):
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(EMPTY, Room(entries_max=pending_max))

    for arrival in arrivals:
        released(buffer, arrival)
        assert len(buffer._pending) <= pending_max


@given(
    arrivals=st.lists(
        st.builds(
            Arrived,
            epoch=st.integers(1, 8).map(Epoch),
            payload=st.binary(max_size=9),
        )
    ),
    bytes_max=st.integers(0, 40),
)
def test_never_holds_more_bytes_than_it_may(arrivals, bytes_max):
    """Beside the next in line, which always fits; and it knows how many it holds."""
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(EMPTY, Room(bytes_max=bytes_max))

    for arrival in arrivals:
        buffer.push(arrival)
        kept = buffer._pending.values()
        assert buffer._pending_bytes == sum(len(each.payload) for each in kept)
        later = sum(len(each.payload) for each in kept if each is not buffer.next_in_line)
        assert later <= bytes_max
        if arrival.epoch == 1:
            assert buffer.next_in_line is arrival

    buffer.settle(EMPTY)
    assert buffer._pending_bytes == 0


def test_room_comes_back_with_whatever_goes():
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(EMPTY, Room(bytes_max=20))
    large = [Arrived(Epoch(epoch), payload=bytes(10)) for epoch in range(1, 9)]
    for arrival in large[1:4]:
        buffer.push(arrival)
    assert [arrival.epoch for arrival in released(buffer, large[0])] == [1, 2, 3]
    assert buffer.missing_from == 4

    for arrival in large[4:]:
        buffer.push(arrival)
    assert [arrival.epoch for arrival in released(buffer, large[3])] == [4, 5, 6]


@given(st.permutations(HISTORY))
def test_with_room_for_all_nothing_is_asked_for_twice(arrivals):
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(EMPTY, Room(entries_max=len(HISTORY)))

    history = [entry for arrival in arrivals for entry in released(buffer, arrival)]

    assert history == HISTORY


def test_a_gap_is_named_until_it_is_closed():
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(EMPTY, Room(entries_max=4))

    assert released_by(buffer, 1, 3, 4) == [[1], [], []]
    assert buffer.missing_from == 2
    assert released_by(buffer, 2) == [[2, 3, 4]]
    assert buffer.missing_from is None


def test_a_full_buffer_forgets_and_asks_again():
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(EMPTY, Room(entries_max=1))

    assert released_by(buffer, 3, 4, 1) == [[], [], [1]]
    assert buffer.missing_from == 2
    assert released_by(buffer, 2, 4) == [[2, 3], [4]]


@pytest.mark.parametrize("pending_max", [1, 4])
def test_what_comes_again_takes_the_place_of_what_was_waiting(pending_max):
    """The log may correct what came by a less trusted road, also when the buffer is full."""
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(EMPTY, Room(entries_max=pending_max))
    buffer.push(Arrived(Epoch(2), "fan-out"))
    buffer.push(Arrived(Epoch(2), "log"))

    assert released(buffer, HISTORY[0])[1] == Arrived(Epoch(2), "log")


def test_what_is_refused_has_to_come_again():
    """A bad arrival holds up its epoch and no other one takes its place unseen."""
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(EMPTY, Room(entries_max=4))
    buffer.push(Arrived(Epoch(1), "forged"))
    buffer.push(HISTORY[1])

    buffer.refuse()

    assert buffer.next_in_line is None
    assert buffer.missing_from == 1
    assert released_by(buffer, 1) == [[1, 2]]


def test_a_jump_forgets_what_it_passes_over():
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(EMPTY, Room(entries_max=8))
    for epoch in (2, 3, 6):
        buffer.push(HISTORY[epoch - 1])

    buffer.advance(Epoch(5))

    assert buffer.next_in_line == HISTORY[5]


def test_what_claims_to_come_after_the_tip_is_forgotten():
    """A hint from the future would otherwise make a follower ask the log for ever."""
    buffer: ReorderBuffer[Arrived] = ReorderBuffer(EMPTY, Room(entries_max=8))
    released_by(buffer, 1)
    buffer.push(HISTORY[6])
    buffer.hear_of(Epoch(8))

    assert buffer.missing_from == 2
    assert buffer.settle(Epoch(1)) == 1
    assert buffer.missing_from is None
    assert buffer.settle(Epoch(1)) == 0
