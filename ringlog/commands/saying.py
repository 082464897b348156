"""Lines on the terminal. What stands in the log was written by others, and must not steer it."""

from __future__ import annotations

import typer


def say(
    text: str = "",
    *,
    err: bool = False,
    fg: str | None = None,
    bold: bool | None = None,
    dim: bool | None = None,
) -> None:
    """One line, whatever is in it."""
    typer.secho(tame(text), err=err, fg=fg, bold=bold, dim=dim)


def tame(text: str) -> str:
    """Without line breaks, and without anything that moves the cursor or turns the text around."""
    return "".join(mark if mark.isprintable() else "\ufffd" for mark in text)
