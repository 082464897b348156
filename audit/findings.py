"""What an audit found, with a bound on how much of it is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from metadata.epoch import Epoch

FINDINGS_KEPT_MAX = 1_000
FINDINGS_PER_RULE_MAX = 100
"""One rule that is broken everywhere must not hide the others."""


class Grade(StrEnum):
    """An error cannot have come about honestly, a warning needs an explanation, a note none."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """`rule` is a stable code; `explanation` is a sentence for people."""

    epoch: Epoch
    rule: str
    grade: Grade
    explanation: str


class Findings:
    """The first of each rule are kept, all are counted."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.counts: Counter[str] = Counter()
        self.grades: Counter[Grade] = Counter()

    def take(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.counts[finding.rule] += 1
            self.grades[finding.grade] += 1
            room = len(self.kept) < FINDINGS_KEPT_MAX
            if room and self.counts[finding.rule] <= FINDINGS_PER_RULE_MAX:
                self.kept.append(finding)

    @property
    def dropped(self) -> int:
        return sum(self.counts.values()) - len(self.kept)

    @property
    def errors(self) -> int:
        return self.grades[Grade.ERROR]
