"""`ringlog shell`: walk the metadata of any epoch like a file tree."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ringlog.commands.audit_source import ArchiveOption, epoch_or_tip, history
from ringlog.commands.ending import Exit, end
from ringlog.commands.options import (
    EpochOption,
    JsonOption,
    StateDirOption,
    TokenOption,
    UrlOption,
)
from ringlog.commands.printing import print_json_line
from ringlog.commands.saying import say
from ringlog.commands.spinning import spinning

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from collections.abc import Iterable

    from ringlog.commands.shell_session import Answer, Session

LINE_CHARS_MAX = 100_000


def shell(  # noqa: PLR0913 one parameter per option
    *,
    command: Annotated[
        list[str] | None,
        typer.Option("--command", "-c", help="Answer this line and end.", show_default=False),
    ] = None,
    at: EpochOption = None,
    archive: ArchiveOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Walk the metadata of any epoch like a file tree: ls, cd, cat, tree, find, diff.

    Lines come from the terminal, from the standard input, or from -c. A script ends at the first
    line that cannot be answered, with exit code 2.

    Example: ringlog shell --archive backup/ --at 42 -c "ls /nodes"
    """
    from audit.history import metadata_at
    from ringlog.commands.shell_session import Session

    with history(archive, state_dir, url, token) as found:
        with spinning("reading the metadata"):
            session = Session(found, metadata_at(found, epoch_or_tip(found, at)))
        if command:
            _run(session, command, as_json=as_json)
        elif sys.stdin.isatty():
            _converse(session, as_json=as_json)
        else:
            _run(session, iter(lambda: sys.stdin.readline(LINE_CHARS_MAX), ""), as_json=as_json)


def _run(session: Session, lines: Iterable[str], *, as_json: bool) -> None:
    from ringlog.commands.shell_loop import run_lines
    from ringlog.commands.shell_session import ShellError

    try:
        run_lines(session, lines, lambda answer: _show(answer, as_json=as_json))
    except ShellError as error:
        raise end(str(error), Exit.WRONG_USE) from None


def _converse(session: Session, *, as_json: bool) -> None:
    from ringlog.commands.shell_loop import Prompt

    Prompt(
        session,
        lambda answer: _show(answer, as_json=as_json),
        lambda sentence: say(sentence, err=True, fg=typer.colors.RED),
    ).run()


def _show(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        print_json_line(answer.plain)
        return
    for line in answer.lines:
        say(line)
