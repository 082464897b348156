"""A sign on the terminal that something goes on, where that takes more than a moment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def spinning(text: str) -> Iterator[None]:
    """On the error stream, so that the result stays alone on the other; gone in the end.

    Whoever prints should do so afterwards.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.live import Live
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    progress = Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    progress.add_task(text, total=None)
    # What others write is not caught: it would be taken from their stream to ours.
    with Live(
        progress.get_renderable(),
        get_renderable=progress.get_renderable,
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield
