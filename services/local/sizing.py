"""What to do next so that as many nodes of this machine are in the cluster as are wanted.

Decided anew each time, from what the cluster says and what runs here: whoever comes after a crash
goes on without knowing what was done before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from metadata.directory import NodeState
from metadata.sequences import SequenceKind
from services.local.first_tokens import Seat
from services.local.looking import Look, UnderWay

_COMING_AND_GOING = (SequenceKind.JOIN, SequenceKind.LEAVE, SequenceKind.REPLACE)


class Start(msgspec.Struct, frozen=True):
    """Another process."""


class Join(msgspec.Struct, frozen=True):
    name: str
    seat: Seat


class Leave(msgspec.Struct, frozen=True):
    name: str
    seat: Seat


class Dismiss(msgspec.Struct, frozen=True):
    """End the process of a node that owns nothing: it has left, or never joined."""

    name: str
    seat: Seat | None = None

    @property
    def has_left(self) -> bool:
        return self.seat is not None and self.seat.state is NodeState.LEFT

    @property
    def label(self) -> str:
        """What its folder is called by from then on."""
        return "unknown" if self.seat is None else f"left-{self.seat.id}"


class Watch(msgspec.Struct, frozen=True):
    """Others are at it; `sequence` is None while a process has yet to make itself known."""

    name: str
    sequence: UnderWay | None = None


class Rest(msgspec.Struct, frozen=True):
    """All is as it is wanted."""


Action = Start | Join | Leave | Dismiss | Watch | Rest


def next_action(
    found: Look,
    ours: Mapping[str, str],
    wanted: int,
    *,
    driven: bool,
    refused: Collection[str] = (),
) -> Action:
    """One thing at a time, and the next when it is done.

    `ours` are the nodes that run here and where each answers; whoever came last goes first.
    Nobody joins or leaves where nothing is `driven`. Those who are `refused` stay as they are.
    """
    gone = departed(found, ours)
    if gone:
        return gone[0]
    seats = {name: found.seats.get(url) for name, url in ours.items()}
    if len(ours) < wanted:
        return Start()
    if not driven:
        return Rest()
    under_way = next(_under_way(found, seats), None)
    if under_way is not None:
        return under_way
    if len(ours) > wanted:
        return _one_less(seats)
    return _next_join(seats, refused)


def departed(found: Look, ours: Mapping[str, str]) -> list[Dismiss]:
    """Who has left for good; until its sequence is over somebody may still read from it."""
    seats = ((name, found.seats.get(url)) for name, url in ours.items())
    return [
        Dismiss(name, seat)
        for name, seat in seats
        if seat is not None and seat.state is NodeState.LEFT and found.sequence_of(seat.id) is None
    ]


def _under_way(found: Look, seats: Mapping[str, Seat | None]) -> Iterator[Watch]:
    for name, seat in seats.items():
        sequence = None if seat is None else found.sequence_of(seat.id)
        if sequence is not None and sequence.kind in _COMING_AND_GOING:
            yield Watch(name, sequence)


def _one_less(seats: Mapping[str, Seat | None]) -> Action:
    last_first = list(seats.items())[::-1]
    for name, seat in last_first:
        if seat is None or seat.state is NodeState.REGISTERED:
            return Dismiss(name, seat)
    for name, seat in last_first:
        if seat is not None and seat.state is NodeState.JOINED:
            return Leave(name, seat)
    return Watch(last_first[0][0])


def _next_join(seats: Mapping[str, Seat | None], refused: Collection[str]) -> Action:
    for name, seat in seats.items():
        if seat is None:
            return Watch(name)
        if seat.state is NodeState.REGISTERED and name not in refused:
            return Join(name, seat)
    return Rest()
