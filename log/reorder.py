"""Putting entries back in order after an unordered journey."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import msgspec

from metadata.epoch import Epoch, following


class Arrival(Protocol):
    """An entry in whatever form a road brings it: from a store sealed, by Kafka not yet."""

    @property
    def epoch(self) -> Epoch: ...

    @property
    def payload(self) -> bytes: ...


A = TypeVar("A", bound=Arrival)


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """How much may wait: what claims to come later may be forged, and anybody can forge much."""

    entries_max: int = 4096
    bytes_max: int = 64 * 1024 * 1024


DEFAULT_ROOM = Room()


class ReorderBuffer(Generic[A]):
    """Holds entries until they are next in line, whatever order they arrive in.

    Entries reach a follower by several roads at once (fan-out, catch-up, its own commits), so
    duplicates and gaps are normal. The buffer does no I/O and believes nothing: whoever takes
    the next in line says whether it was good (`advance`) or not (`refuse`), and when a gap lasts,
    `missing_from` says where to resume reading the log.
    """

    def __init__(self, applied: Epoch, room: Room = DEFAULT_ROOM) -> None:
        self._applied = applied
        self.newest = applied
        self._pending: dict[Epoch, A] = {}
        self._pending_bytes = 0
        self._room = room

    def push(self, arrival: A) -> None:
        """Keep it, if it may still be needed and there is room."""
        epoch = arrival.epoch
        if epoch <= self._applied:
            return
        self.newest = max(self.newest, epoch)
        # A full buffer still takes the next in line, or it could never drain. Anything
        # else may be let go: the log has it, and `missing_from` will ask for it again.
        if epoch == following(self._applied) or self._has_room(arrival):
            self._drop(epoch)
            self._pending[epoch] = arrival
            self._pending_bytes += len(arrival.payload)

    def hear_of(self, epoch: Epoch) -> None:
        """There is an entry at this epoch, or so somebody says."""
        self.newest = max(self.newest, epoch)

    @property
    def next_in_line(self) -> A | None:
        return self._pending.get(following(self._applied))

    @property
    def missing_from(self) -> Epoch | None:
        """The first epoch to read from the log: it exists, and no arrival of it is at hand."""
        due = following(self._applied)
        return due if self._applied < self.newest and due not in self._pending else None

    def refuse(self) -> None:
        """The next in line is not what it says; its epoch has to come by another road."""
        self._drop(following(self._applied))

    def advance(self, applied: Epoch) -> None:
        """Everything up to here is applied, by whichever road it came."""
        is_step = applied == following(self._applied)
        for epoch in [applied] if is_step else [key for key in self._pending if key <= applied]:
            self._drop(epoch)
        self._applied = applied
        self.newest = max(self.newest, applied)

    def settle(self, tip: Epoch) -> int:
        """The log ends at `tip`: forget what claimed to come after it, and say how many did."""
        beyond = [epoch for epoch in self._pending if epoch > tip]
        for epoch in beyond:
            self._drop(epoch)
        heard = self.newest > max(tip, self._applied)
        self.newest = max(tip, self._applied)
        return max(len(beyond), int(heard))

    def _has_room(self, arrival: A) -> bool:
        kept = self._pending.get(arrival.epoch)
        freed_bytes = 0 if kept is None else len(kept.payload)
        size_bytes = self._pending_bytes - freed_bytes + len(arrival.payload)
        has_place = kept is not None or len(self._pending) < self._room.entries_max
        return has_place and size_bytes <= self._room.bytes_max

    def _drop(self, epoch: Epoch) -> None:
        dropped = self._pending.pop(epoch, None)
        if dropped is not None:
            self._pending_bytes -= len(dropped.payload)
