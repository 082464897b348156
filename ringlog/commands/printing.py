"""Tables and JSON on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

PADDING = 3
COLUMN_MIN = 12
COLUMN_MAX = 48
WIDTH_MIN = 40


def print_json(value: object) -> None:
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_json_line(value: object) -> None:
    import msgspec

    typer.echo(msgspec.json.encode(value).decode())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """As wide as the terminal, where the last column gives way; whole where there is none."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[short(cell) for cell in row] for row in rows]
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(WIDTH_MIN, _width(columns, cells)))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    # The first columns keep their width, so the last one has what is left of the line.
    used = _width(columns[:-1], cells) + PADDING
    for column in columns[:-1]:
        table.add_column(column, no_wrap=True, max_width=COLUMN_MAX, overflow="ellipsis")
    left = max(COLUMN_MIN, console.width - used)
    table.add_column(columns[-1], no_wrap=True, max_width=left, overflow="ellipsis")
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def _width(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    """What a table of these columns needs, their padding included."""
    longest = (
        max([len(column), *(len(row[index]) for row in cells)])
        for index, column in enumerate(columns)
    )
    return sum(length + PADDING for length in longest)


def print_view(view: Mapping[str, Any]) -> None:
    """A component as any reader can follow it: values by name, and a table for each list."""
    for name, value in view.items():
        if not _is_rows(value):
            typer.echo(f"{name}: {short(value)}")
    for name, value in view.items():
        if _is_rows(value):
            typer.echo(f"\n{name}")
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
