"""What a driver is doing about each sequence, for people who wonder why it takes so long."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

import msgspec

from metadata.directory import NodeId
from metadata.locks import SequenceId
from metadata.plans import Step
from metadata.sessions import Purpose, SessionId
from sequences.barrier import Waiting


class Doing(StrEnum):
    WAITING = "waiting"
    """At the barrier, for the nodes that are named."""
    MOVING = "moving"
    COMMITTING = "committing"
    CLEANING = "cleaning"
    REPAIRING = "repairing"
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


class SessionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is being done under a session that was opened by itself: cleanup or repair.

    `nodes` are those that keep it from going on.
    """

    session: SessionId
    purpose: Purpose
    doing: Doing
    since_s: float
    detail: str = ""
    nodes: tuple[NodeId, ...] = ()
    failures: int = 0


class ReconfigurationStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is being done about a change of the members of the CMS."""

    sequence: SequenceId
    doing: Doing
    since_s: float
    detail: str = ""
    failures: int = 0


class Board:
    """The newest status of each sequence, of each session that stands alone, and of the CMS.

    `since_s` stays while the same thing is being done, and from the first failure of a step on:
    what is tried again and again has been stuck all the while.
    """

    def __init__(self) -> None:
        self._found: dict[SequenceId, Status] = {}
        self._sessions: dict[SessionId, SessionStatus] = {}
        self.reconfiguration: ReconfigurationStatus | None = None

    def put(self, status: Status) -> None:
        before = self._found.get(status.sequence)
        if before is not None and _goes_on(before, status):
            status = msgspec.structs.replace(status, since_s=before.since_s)
        self._found[status.sequence] = status

    def put_session(self, status: SessionStatus) -> None:
        before = self._sessions.get(status.session)
        if before is not None and before.doing is status.doing:
            status = msgspec.structs.replace(status, since_s=before.since_s)
        self._sessions[status.session] = status

    def put_reconfiguration(self, status: ReconfigurationStatus) -> None:
        before = self.reconfiguration
        if before is not None and before.doing is status.doing:
            status = msgspec.structs.replace(status, since_s=before.since_s)
        self.reconfiguration = status

    def keep_sessions(self, still_open: Collection[SessionId]) -> None:
        """Of those that are closed there is nothing to say."""
        for session in self._sessions.keys() - set(still_open):
            del self._sessions[session]

    def sessions(self) -> list[SessionStatus]:
        return [self._sessions[session] for session in sorted(self._sessions)]

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
