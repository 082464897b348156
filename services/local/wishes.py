"""How somebody asks the supervisor of a state directory for more nodes, or fewer: by files.

The one who asks replaces `scale.json`; the supervisor, which looks there several times a second,
replaces `scaled.json`. The newest wish counts. Either may die: the other sees what there was.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from uuid import UUID

import msgspec

from services.local.failure import LocalServerError
from services.local.state import StateDir, read, replace


class Standing(StrEnum):
    WORKING = "working"
    DONE = "done"
    REFUSED = "refused"


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    nodes: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What has become of a wish so far; `detail` says what is being done, or why it is not."""

    id: UUID
    nodes: int
    state: Standing = Standing.WORKING
    detail: str = ""
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def make_wish(state: StateDir, wish: Wish) -> None:
    try:
        replace(state.wish, msgspec.json.encode(wish))
    except OSError as error:
        raise LocalServerError(
            f"{state.wish} cannot be written ({error.strerror}): scale as the user who runs the "
            "cluster."
        ) from error


def read_wish(state: StateDir) -> Wish | None:
    """A wish that cannot be read is none: whoever made it gets no answer and says so."""
    try:
        return read(state.wish, Wish)
    except LocalServerError:
        return None


def read_answer(state: StateDir) -> Answer | None:
    return read(state.answer, Answer)


class Desk:
    """Where the supervisor takes wishes, and answers them. Those made before it began are past."""

    def __init__(self, state: StateDir) -> None:
        self._state = state
        self._last = read_wish(state)
        self._answer: Answer | None = None
        self._before: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        return self._answer is not None and self._answer.state is Standing.WORKING

    def new_wish(self) -> Wish | None:
        found = read_wish(self._state)
        return None if found == self._last else found

    def take(self, wish: Wish, names: Iterable[str], fault: str | None = None) -> None:
        """`names` are the nodes that there are. With a `fault` it is refused at once.

        What cannot be answered is not taken: it stays a new wish.
        """
        self._before = frozenset(names)
        state, detail = (Standing.WORKING, "") if fault is None else (Standing.REFUSED, fault)
        self._write(Answer(id=wish.id, nodes=wish.nodes, state=state, detail=detail))
        self._last = wish

    def say(self, detail: str) -> None:
        """What is being done, for whoever waits."""
        if self._answer is not None and self.is_open:
            self._write(msgspec.structs.replace(self._answer, detail=detail))

    def done(self, names: Iterable[str]) -> None:
        self._end(Standing.DONE, "", names)

    def refuse(self, detail: str, names: Iterable[str]) -> None:
        self._end(Standing.REFUSED, detail, names)

    def _end(self, state: Standing, detail: str, names: Iterable[str]) -> None:
        if self._answer is None or not self.is_open:
            return
        after = frozenset(names)
        self._write(
            msgspec.structs.replace(
                self._answer,
                state=state,
                detail=detail,
                joined=tuple(sorted(after - self._before)),
                left=tuple(sorted(self._before - after)),
            )
        )

    def _write(self, answer: Answer) -> None:
        if answer != self._answer:
            replace(self._state.answer, msgspec.json.format(msgspec.json.encode(answer)))
        self._answer = answer
