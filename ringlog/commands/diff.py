"""`ringlog diff`: what changed between two epochs."""

from __future__ import annotations

from typing import Annotated

import typer

from ringlog.commands.changed import changed_line
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say

ITEMS_SHOWN_MAX = 20
MARKS = {"added": "+", "removed": "-", "changed": "~"}


def diff(
    start: Annotated[int, typer.Argument(metavar="FROM", min=0, help="An epoch.")],
    to: Annotated[
        int | None,
        typer.Argument(min=0, help="A later one; the newest by default.", show_default=False),
    ] = None,
    *,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what changed between two epochs, by meaning.

    Example: ringlog diff 10 12
    """
    from ringlog.commands.asking import talking

    with talking(state_dir, url, token) as talk:
        end = talk.get("/v1/metadata/cluster")["epoch"] if to is None else to
        answer = talk.get("/v1/diff", {"from": start, "to": end})
    if as_json:
        print_json(answer)
        return
    if not answer["components"]:
        say(f"Nothing differs between epoch {start} and epoch {end}.")
    colours = {"+": typer.colors.GREEN, "-": typer.colors.RED, "~": typer.colors.YELLOW}
    for component, found in answer["components"].items():
        say(component, bold=True)
        for how, mark in MARKS.items():
            for item in found[how][:ITEMS_SHOWN_MAX]:
                say(fitting(f"  {mark} {changed_line(item)}"), fg=colours[mark])
            more = len(found[how]) - ITEMS_SHOWN_MAX
            if more > 0:
                say(f"  {mark} and {more} more; --json has all of them")


def fitting(line: str) -> str:
    """As long as a line of the terminal; whole where there is none."""
    import shutil
    import sys

    width = shutil.get_terminal_size().columns
    if not sys.stdout.isatty() or len(line) <= width:
        return line
    return f"{line[: width - 1]}…"
