"""Bars for sequences, on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from ringlog.commands.naming import Roster
from ringlog.commands.saying import tame
from ringlog.commands.telling import now, title

REFRESHES_PER_S = 4
BAR_WIDTH = 24

View = Mapping[str, Any]


class Bars:
    """For each sequence a bar, and below it what is being done or waited for."""

    def __init__(self, names: Roster, console: Console | None = None) -> None:
        self._names = names
        self._bars: dict[int, Progress] = {}
        self._live = Live(
            Group(),
            console=console or Console(stderr=True),
            refresh_per_second=REFRESHES_PER_S,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def update(self, views: Sequence[View]) -> None:
        self._bars = {view["id"]: self._bars.get(view["id"]) or _bar() for view in views}
        lines = [part for view in views for part in (self._bar_of(view), self._said_of(view))]
        if not views:
            lines = [Text("No sequence is in progress.")]
        self._live.update(Group(*lines), refresh=True)

    def _bar_of(self, view: View) -> Progress:
        bar = self._bars[view["id"]]
        moving = view.get("progress") or {}
        bar.update(
            bar.task_ids[0],
            description=tame(f"{title(view, self._names)}: {view['due']} is due"),
            total=moving.get("rows_total") or None,
            completed=moving.get("rows_done", 0),
        )
        return bar

    def _said_of(self, view: View) -> Text:
        said = tame(f"  {now(view, self._names)}")
        return Text(said, no_wrap=True, overflow="ellipsis", style="dim")


def _bar() -> Progress:
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=BAR_WIDTH),
        TimeElapsedColumn(),
    )
    bar.add_task("", total=None)
    return bar
