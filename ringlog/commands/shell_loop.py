"""Reading lines for the shell: from a terminal with completion, from a script, from options."""

from __future__ import annotations

import cmd
from collections.abc import Callable, Iterable
from typing import Any

from audit.errors import ArchiveError
from client.errors import ClientError
from log.replay import ReplayError
from ringlog.commands.saying import tame
from ringlog.commands.shell_session import USAGES, Answer, Session, ShellError

Print = Callable[[Answer], None]
Complain = Callable[[str], None]

LEAVING = frozenset({"exit", "quit", "EOF"})


def run_lines(session: Session, lines: Iterable[str], show: Print) -> None:
    """A script: the first line that cannot be answered ends it, by a `ShellError`."""
    for line in lines:
        if line.strip() in LEAVING:
            return
        show(session.answer(line))


class Prompt(cmd.Cmd):
    """A person: what cannot be answered is said, and the next line is read."""

    intro = "Walk the metadata like folders: ls, cd, cat, tree, find, diff, at. help says more."

    def __init__(self, session: Session, show: Print, complain: Complain) -> None:
        super().__init__()
        self._session = session
        self._show = show
        self._complain = complain

    def run(self) -> None:
        while True:
            try:
                self.cmdloop()
            except KeyboardInterrupt:
                # As in other shells it ends the line and not the session.
                self.intro = "\n"
            else:
                return

    @property
    def prompt(self) -> str:  # type: ignore[override] # it changes with where the session is
        return tame(self._session.prompt)

    def onecmd(self, line: str) -> bool:
        if line.strip() in LEAVING:
            return True
        try:
            self._show(self._session.answer(line))
        except (ArchiveError, ClientError, ReplayError, ShellError) as error:
            self._complain(str(error))
        return False

    def completenames(self, text: str, *_ignored: object) -> list[str]:
        return [name for name in USAGES if name.startswith(text)]

    def completedefault(self, *given: Any) -> list[str]:  # noqa: ANN401 as the library has it
        """Readline cuts words at more than blanks; only what follows the cut is to be given."""
        text, line, _, end = given
        word = line[:end].rpartition(" ")[2]
        cut = len(word) - len(text)
        return [found[cut:] for found in self._session.completions(word)]
