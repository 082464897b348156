"""Asking the supervisor of this machine for nodes, and waiting until it has done so."""

from __future__ import annotations

import math
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self
from uuid import uuid4

import typer

from ringlog.commands.ending import Exit, end
from ringlog.commands.naming import Roster, roster
from ringlog.commands.saying import say
from ringlog.commands.telling import now
from services.local.supervision import supervisor_of
from services.local.wishes import Answer, Standing, Wish, make_wish, read_answer, read_wish

if TYPE_CHECKING:
    from rich.status import Status

    from ringlog.commands.asking import Talk
    from services.local.state import StateDir

POLL_S = 0.1
LOOK_S = 1.0
TAKEN_TIMEOUT_S = 60.0
"""A supervisor takes wishes only once its cluster serves."""


def wished(
    state: StateDir, nodes: int, talk: Talk, *, timeout_s: float | None, as_json: bool
) -> Answer:
    """What became of it; ends the verb with a sentence if that cannot be waited for."""
    wish = Wish(id=uuid4(), nodes=nodes)
    make_wish(state, wish)
    deadline_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
    try:
        _wait_until_taken(state, wish)
        # Nothing is said inside: what changes on a terminal would wipe it away.
        with _Teller(state, talk, is_silent=as_json) as teller:
            _wait_while_working(state, wish, teller, deadline_s)
    except KeyboardInterrupt:
        raise end(f"Not waiting any more. {_goes_on(wish)}", Exit.REFUSED) from None
    return _final_answer(state, wish)


def _wait_while_working(state: StateDir, wish: Wish, teller: _Teller, deadline_s: float) -> None:
    while time.monotonic() <= deadline_s and supervisor_of(state.lock) is not None:
        answer = read_answer(state)
        if answer is None or answer.id != wish.id or answer.state is not Standing.WORKING:
            return
        teller.tell(answer.detail)
        time.sleep(POLL_S)


def _wait_until_taken(state: StateDir, wish: Wish) -> None:
    deadline_s = time.monotonic() + TAKEN_TIMEOUT_S
    while (answer := read_answer(state)) is None or answer.id != wish.id:
        if read_wish(state) != wish:
            raise _overtaken()
        _check_supervised(state)
        if time.monotonic() > deadline_s:
            raise end(
                f"The supervisor in {state.path} does not answer: see supervisor.log there, or "
                "start it again with `ringlog down` and `ringlog up`.",
                Exit.NOT_REACHABLE,
            )
        time.sleep(POLL_S)


def _final_answer(state: StateDir, wish: Wish) -> Answer:
    answer = read_answer(state)
    if answer is None or answer.id != wish.id:
        raise _overtaken()
    if answer.state is Standing.WORKING:
        _check_supervised(state)
        doing = f" ({answer.detail})" if answer.detail else ""
        raise end(f"Not done yet{doing}. {_goes_on(wish)}", Exit.REFUSED)
    return answer


def _check_supervised(state: StateDir) -> None:
    if supervisor_of(state.lock) is None:
        raise end(
            f"The cluster in {state.path} was stopped meanwhile: with the next `ringlog up` the "
            "nodes go on joining and leaving.",
            Exit.NOT_REACHABLE,
        )


def _overtaken() -> typer.Exit:
    return end("Somebody else asked for another number of nodes meanwhile.", Exit.REFUSED)


def _goes_on(wish: Wish) -> str:
    return (
        "Nodes go on joining and leaving without this command: "
        f"`ringlog scale --nodes {wish.nodes}` waits for them again."
    )


class _Teller:
    """One line that changes on a terminal, lines elsewhere, on the error stream."""

    def __init__(self, state: StateDir, talk: Talk, *, is_silent: bool) -> None:
        self._state = state
        self._talk = talk
        self._is_silent = is_silent
        self._said = ""
        self._status: Status | None = None
        self._looked_s = 0.0

    def __enter__(self) -> Self:
        if not self._is_silent and sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status("asking the supervisor")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def tell(self, detail: str) -> None:
        if self._is_silent or not detail:
            return
        if self._status is None:
            if detail != self._said:
                say(detail, err=True)
            self._said = detail
        elif time.monotonic() - self._looked_s > LOOK_S:
            from rich.text import Text

            self._looked_s = time.monotonic()
            self._status.update(Text(f"{detail}{self._movement()}"))

    def _movement(self) -> str:
        """How far the rows are; a CMS that is away for a moment is no reason to stop waiting."""
        from client.errors import ClientError

        with suppress(ClientError):
            views = self._talk.get("/v1/sequences")["sequences"]
            return f"; {now(views[0], self._names())}" if views else ""
        return ""

    def _names(self) -> Roster:
        # By the newest list: nodes came meanwhile.
        names = {process.url: process.name for process in self._state.read_processes()}
        return roster(self._talk.get("/v1/nodes")["nodes"], names)
