"""When entries were committed, as people read it; an entry may say anything."""

from __future__ import annotations

from datetime import UTC, datetime

MICROSECONDS = 1_000_000


def dated(committed_at: int) -> str:
    """By ISO 8601, to the second."""
    found = _moment(committed_at)
    return _odd(committed_at) if found is None else found.isoformat(timespec="seconds")


def clocked(committed_at: int) -> str:
    """Shorter, for lines of a log."""
    found = _moment(committed_at)
    return _odd(committed_at) if found is None else f"{found:%Y-%m-%d %H:%M:%S}"


def _moment(committed_at: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(committed_at / MICROSECONDS, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _odd(committed_at: int) -> str:
    return f"{committed_at} microseconds since 1970"
