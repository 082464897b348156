"""The pieces that the HTML of a report is made of; all text that they are given is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

MICROSECONDS = 1_000_000
METER_WIDTH = 160
NUMBER = ' class="number"'
NUMBERS = ("Entries", "Epoch", "Sequence")
SHARE_SHOWN_MIN = 0.0005


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(
        f'<th scope="col"{NUMBER if name in NUMBERS else ""}>{name}</th>' for name in heads
    )
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def legend(items: Iterable[tuple[str, str]]) -> str:
    listed = "".join(
        f'<li><svg viewBox="0 0 12 12" aria-hidden="true"><rect class="{style}" width="12" '
        f'height="12" rx="2"/></svg>{escape(text)}</li>'
        for style, text in items
    )
    return f'<ul class="legend">{listed}</ul>'


def meter(part: float) -> str:
    width = max(1.0, METER_WIDTH * part)
    return (
        f'<svg viewBox="0 0 {METER_WIDTH} 10" style="max-width:{METER_WIDTH}px" '
        f'aria-hidden="true"><rect class="meter" width="{width:.1f}" height="10" rx="2"/></svg>'
    )


def cell(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def number(value: int) -> str:
    return f"<td{NUMBER}>{value:,}</td>"


def hashed(text: str) -> str:
    return f'<td class="hash">{escape(text)}</td>'


def percent(share: float) -> str:
    return f"{share:.1%}" if share >= SHARE_SHOWN_MIN else "nothing"


def moment(at: int | None) -> str:
    if at is None:
        return "–"
    try:
        return datetime.fromtimestamp(at / MICROSECONDS, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{at} microseconds since 1970"
