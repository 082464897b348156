"""Putting entries back in order after an unordered journey."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from metadata.epoch import Epoch, following


class Arrival(Protocol):
    """An entry in whatever form a road brings it: from a store sealed, by Kafka not yet."""

    @property
    def epoch(self) -> Epoch: ...


A = TypeVar("A", bound=Arrival)


class ReorderBuffer(Generic[A]):
    """Releases entries in epoch order, whatever order they arrive in.

    Entries reach a follower by several roads at once (fan-out, catch-up, its own commits), so
    duplicates and gaps are normal. The buffer does no I/O: when a gap lasts, `missing_from` says
    where the caller should resume reading the log.
    """

    def __init__(self, applied: Epoch, *, pending_max: int) -> None:
        self._applied = applied
        self._newest = applied
        self._pending: dict[Epoch, A] = {}
        self._pending_max = pending_max

    def push(self, entry: A) -> list[A]:
        """Take one entry in; return those that are now next in line."""
        if entry.epoch <= self._applied:
            return []
        self._newest = max(self._newest, entry.epoch)
        is_next = entry.epoch == following(self._applied)
        # A full buffer still takes the next in line, or it could never drain. Anything
        # else may be let go: the log has it, and `missing_from` will ask for it again.
        known = entry.epoch in self._pending
        if is_next or known or len(self._pending) < self._pending_max:
            self._pending[entry.epoch] = entry
        return self._release()

    @property
    def missing_from(self) -> Epoch | None:
        return following(self._applied) if self._applied < self._newest else None

    def _release(self) -> list[A]:
        ready = []
        while (entry := self._pending.pop(following(self._applied), None)) is not None:
            self._applied = entry.epoch
            ready.append(entry)
        return ready
