"""A sign on the terminal that something goes on, where that takes more than a moment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # At run time it comes when there is somebody to look at it.
    from rich.progress import Progress

BAR_WIDTH = 24

Watch = Callable[[int, int], None]
"""Told how much is done, and of how much."""


@contextmanager
def spinning(text: str) -> Iterator[None]:
    """On the error stream, so that the result stays alone on the other; gone in the end.

    Whoever prints should do so afterwards.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    progress = Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    progress.add_task(text, total=None)
    with _shown(progress):
        yield


@contextmanager
def counting(text: str) -> Iterator[Watch]:
    """The same as a bar, for what knows how much there is; it pulses until that is told."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=BAR_WIDTH),
        MofNCompleteColumn(),
    )
    task = progress.add_task(text, total=None)
    with _shown(progress):
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def _shown(progress: Progress) -> Iterator[None]:
    from rich.console import Console
    from rich.live import Live

    # What others write is not caught: it would be taken from their stream to ours.
    with Live(
        progress.get_renderable(),
        get_renderable=progress.get_renderable,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield
