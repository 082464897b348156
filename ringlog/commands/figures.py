"""Numbers as people read them."""

from __future__ import annotations

KIB = 1024
MINUTE_S = 60
HOUR_S = 3600
EXACT_BELOW_S = 10


def count(number: float | None) -> str:
    return "–" if number is None else f"{number:,.0f}"


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: float | None) -> str:
    if number is None:
        return "–"
    if number < KIB:
        return f"{number:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        number /= KIB
        if number < KIB:
            return f"{number:.1f} {unit}"
    return f"{number / KIB:,.1f} TiB"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds < EXACT_BELOW_S:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S} min {whole % MINUTE_S} s"
    return f"{whole // HOUR_S:,} h {whole % HOUR_S // MINUTE_S} min"


def percent(part: float) -> str:
    return f"{100 * part:.1f} %"
