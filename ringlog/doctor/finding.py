"""A finding, and the limits by which something is one."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from snapshots.policy import ENTRIES_BETWEEN


class State(StrEnum):
    """How a check came out. What was not asked is neither good nor bad."""

    WELL = "well"
    FOUND = "found"
    NOT_ASKED = "not asked"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong in one sentence, and the command that mends it.

    `code` is stable; `subject` is a node, a process, a sequence or a file by its name.
    """

    code: str
    subject: str
    sentence: str
    command: str


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Beyond these something is a finding."""

    lag_epochs: int = 100
    stuck_s: float = 60.0
    stalled_s: float = 600.0
    session_s: float = 600.0
    snapshot_epochs: int = 2 * ENTRIES_BETWEEN
    skew_s: float = 5.0
    free_percent: float = 5.0


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    name: str
    state: State
    findings: tuple[Finding, ...] = ()


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    checks: tuple[Check, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(item for check in self.checks for item in check.findings)

    @property
    def is_healthy(self) -> bool:
        return not self.findings
