"""How the demo is seen: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ringlog.commands.bars import Bars
from ringlog.commands.figures import count
from ringlog.commands.naming import Roster
from ringlog.commands.telling import is_driven, now, title

REPEAT_S = 10.0
"""Without a terminal the same is said again only so often."""
WIDTH_ELSEWHERE = 110
BAR_WIDTH = 30

View = Mapping[str, Any]
Tell = Callable[[int], None]
"""Told how many are done."""
Watch = Callable[[View], None]
"""Told how a sequence stands."""


def console() -> Console:
    """As wide as the terminal; elsewhere as wide as the tables need."""
    found = Console()
    return found if found.is_terminal else Console(width=WIDTH_ELSEWHERE)


class Show:
    def __init__(self, console: Console) -> None:
        self._console = console

    def section(self, text: str) -> None:
        self._console.print()
        self._console.rule(f"[bold]{text}[/bold]", align="left")

    def say(self, text: str, *, style: str = "") -> None:
        self._console.print(text, highlight=False, markup=False, style=style, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        table = Table(*columns)
        for row in rows:
            table.add_row(*row)
        self._console.print(table)

    @contextmanager
    def counting(self, what: str, total: int) -> Iterator[Tell]:
        if not self._console.is_terminal:
            yield _Lines(self.say, what, total).tell
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=BAR_WIDTH),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self._console, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.update(task, completed=done)

    @contextmanager
    def watching(self, names: Roster) -> Iterator[Watch]:
        if not self._console.is_terminal:
            yield _SequenceLines(self.say, names).tell
            return
        with Bars(names, self._console) as bars:
            yield lambda view: bars.update([view])


class _Lines:
    def __init__(self, say: Callable[[str], None], what: str, total: int) -> None:
        self._say = say
        self._what = what
        self._total = total
        self._said_s = time.monotonic()

    def tell(self, done: int) -> None:
        if time.monotonic() - self._said_s < REPEAT_S:
            return
        self._said_s = time.monotonic()
        self._say(f"  {self._what}: {count(done)} of {count(self._total)}")


class _SequenceLines:
    """A line for each step, and for a step that lasts."""

    def __init__(self, say: Callable[[str], None], names: Roster) -> None:
        self._say = say
        self._names = names
        self._said: tuple[object, ...] = ()
        self._said_s = 0.0

    def tell(self, view: View) -> None:
        essence = (view["due"], is_driven(view), (view.get("driver") or {}).get("doing"))
        if essence == self._said and time.monotonic() - self._said_s < REPEAT_S:
            return
        self._said, self._said_s = essence, time.monotonic()
        what = f"{title(view, self._names)}, {view['due']} is due"
        self._say(f"  {what}: {now(view, self._names)}")
