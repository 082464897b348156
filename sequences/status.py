"""What a driver is doing about each sequence, for people who wonder why it takes so long."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from metadata.locks import SequenceId
from metadata.plans import Step
from sequences.barrier import Waiting


class Doing(StrEnum):
    WAITING = "waiting"
    """At the barrier, for the nodes that are named."""
    MOVING = "moving"
    COMMITTING = "committing"
    CLEANING = "cleaning"
    STUCK = "stuck"
    """It failed and will be tried again."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    sequence: SequenceId
    step: Step
    doing: Doing
    since_s: float
    detail: str = ""
    waiting: tuple[Waiting, ...] = ()
    failures: int = 0


class Board:
    """The newest status of each sequence.

    `since_s` stays while the same thing is being done, and from the first failure of a step on:
    what is tried again and again has been stuck all the while.
    """

    def __init__(self) -> None:
        self._found: dict[SequenceId, Status] = {}

    def put(self, status: Status) -> None:
        before = self._found.get(status.sequence)
        if before is not None and _goes_on(before, status):
            status = msgspec.structs.replace(status, since_s=before.since_s)
        self._found[status.sequence] = status

    def drop(self, sequence: SequenceId) -> None:
        self._found.pop(sequence, None)

    def find(self, sequence: SequenceId) -> Status | None:
        return self._found.get(sequence)

    def all(self) -> list[Status]:
        return [self._found[sequence] for sequence in sorted(self._found)]


def _goes_on(before: Status, now: Status) -> bool:
    if before.step is not now.step:
        return False
    return before.doing is now.doing or min(before.failures, now.failures) > 0
