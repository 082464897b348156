"""Marks: when a node had applied up to which epoch, few enough to keep and yet exact.

A mark (E, t) says that everything up to E was applied, the last of it at t.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from struct import Struct

from metadata.epoch import EMPTY, Epoch

MARKS_PER_REPORT_MAX = 8
MARKS_KEPT_MAX = 64
"""Per node: a minute at a commit a second, and never less than eight reports."""

SKEW_MAX_US = 2_000_000
"""Less may as well be the time that a report was under way."""

Mark = tuple[Epoch, int]

_packed = Struct(">qq")
MARK_BYTES = _packed.size
STRIDES = [2**power for power in range(54)]


def packed(marks: Iterable[Mark]) -> bytes:
    return b"".join(_packed.pack(*mark) for mark in marks)


def unpacked(data: bytes) -> list[Mark]:
    return [(Epoch(epoch), at_us) for epoch, at_us in _packed.iter_unpack(data)]


def thinned(marks: Sequence[Mark], marks_max: int = MARKS_PER_REPORT_MAX) -> list[Mark]:
    """At most so many: those that tell of epochs which all processes pick alike.

    Leaving a mark out makes epochs look late. The ones that are first to cover a multiple of
    some power of two stay, so for these multiples every node's time remains exact.
    """
    if len(marks) <= marks_max:
        return list(marks)
    for stride in STRIDES:
        kept = _covering(marks, stride)
        if len(kept) < marks_max:
            break
    # The last one says how far the node is.
    return kept if kept and kept[-1] == marks[-1] else [*kept, marks[-1]]


def _covering(marks: Sequence[Mark], stride: int) -> list[Mark]:
    """Marks that are the first to cover a multiple of `stride`."""
    # What the first one covers began before it; it is taken to cover its own epoch alone.
    before = [marks[0][0] - 1, *(epoch for epoch, _ in marks)]
    pairs = zip(before, marks, strict=False)
    return [mark for floor, mark in pairs if floor // stride < mark[0] // stride]


def aligned(marks: Iterable[Mark], *, sent_at_us: int, received_at_us: int) -> list[Mark]:
    """By our clock, where the sender's is plainly another."""
    skew_us = received_at_us - sent_at_us
    if abs(skew_us) <= SKEW_MAX_US:
        return list(marks)
    return [(epoch, at_us + skew_us) for epoch, at_us in marks]


class AppliedTimes:
    """When one node applied what. Marks may repeat or begin anew, as after a restart."""

    def __init__(self, marks: Sequence[Mark]) -> None:
        self._marks = marks
        self._reached = list(accumulate((epoch for epoch, _ in marks), max))

    @property
    def newest(self) -> Epoch:
        return self._reached[-1] if self._reached else EMPTY

    def at(self, epoch: Epoch) -> int | None:
        """In microseconds; None where it has not, or where that is no longer known."""
        index = bisect_left(self._reached, epoch)
        if index == len(self._reached):
            return None
        found, at_us = self._marks[index]
        return None if index == 0 and found != epoch else at_us
