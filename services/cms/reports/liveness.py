"""Whether a node is up, by the age of its last report."""

from __future__ import annotations

from enum import StrEnum

from services.http.reports import REPORT_EVERY_S

LATE_AFTER_S = 3 * REPORT_EVERY_S
"""Two reports were missed."""
DOWN_AFTER_S = 10 * REPORT_EVERY_S


class Liveness(StrEnum):
    UP = "up"
    LATE = "late"
    DOWN = "down"
    UNKNOWN = "unknown"


def liveness(age_s: float | None) -> Liveness:
    """None: it never reported, or that was forgotten."""
    if age_s is None:
        return Liveness.UNKNOWN
    if age_s < LATE_AFTER_S:
        return Liveness.UP
    return Liveness.LATE if age_s < DOWN_AFTER_S else Liveness.DOWN
