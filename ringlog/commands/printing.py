"""Tables and JSON on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

from ringlog.commands.saying import say, tame

GAP = 2
"""Blanks between two columns."""
COLUMN_MIN = 4
COLUMN_MAX = 48
"""Of all columns but the last, which may be as wide as it likes where there is room."""


def print_json(value: object) -> None:
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_json_line(value: object) -> None:
    import msgspec

    typer.echo(msgspec.json.encode(value).decode())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """As wide as the terminal or COLUMNS says, where wide columns give way; else whole."""
    import os

    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[tame(short(cell)) for cell in row] for row in rows]
    widths = _widths(columns, cells)
    gaps = GAP * (len(columns) - 1)
    console = Console()
    if console.is_terminal or os.environ.get("COLUMNS"):
        widths = fitted(widths, console.width - gaps)
    # Edges and the space between columns are ours to count, so that the sum is exact.
    console = Console(width=sum(widths) + gaps)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        table.add_column(Text(tame(column)), no_wrap=True, width=width, overflow="ellipsis")
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def fitted(widths: Sequence[int], room: int) -> list[int]:
    """Widths that fit into `room`: the widest columns give way, and all of them to one measure."""
    for cap in range(max(widths), COLUMN_MIN, -1):
        found = [min(width, cap) for width in widths]
        if sum(found) <= room:
            return found
    return [min(width, COLUMN_MIN) for width in widths]


def _widths(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    longest = [
        max([len(column), *(len(row[index]) for row in cells)])
        for index, column in enumerate(columns)
    ]
    return [*(min(length, COLUMN_MAX) for length in longest[:-1]), longest[-1]]


def print_view(view: Mapping[str, Any]) -> None:
    """A component as any reader can follow it: values by name, and a table for each list."""
    for name, value in view.items():
        if not _is_rows(value):
            say(f"{name}: {short(value)}")
    for name, value in view.items():
        if _is_rows(value):
            say()
            say(name)
            columns = list(dict.fromkeys(column for row in value for column in row))
            print_table(columns, [[row.get(column) for column in columns] for row in value])


def short(value: object) -> str:
    """A value in one line."""
    import msgspec

    match value:
        case None:
            return "–"
        case str():
            return value
        case _:
            return msgspec.json.encode(value).decode()


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)
