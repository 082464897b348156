"""Waiting for sequences, with something to look at meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from ringlog.commands.ending import Exit, end
from ringlog.commands.saying import say
from ringlog.commands.telling import is_driven, now, title

if TYPE_CHECKING:
    # At run time they come when a verb runs, so that --help stays quick.
    from types import TracebackType

    from ringlog.commands.asking import Talk
    from ringlog.commands.bars import Bars
    from ringlog.commands.naming import Roster

POLL_S = 0.5
REPEAT_S = 10.0
"""Without a terminal the same thing is said again only so often."""
ABSENT_MAX_S = 60.0
"""Nobody answers for so long: then there is no use in waiting."""
PAGES_MAX = 1_000
PAGE_ENTRIES = 1_000
GONE = 404

T = TypeVar("T")
View = Mapping[str, Any]


class Show(Protocol):
    """Something that is told how sequences stand, whenever that is known anew."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def update(self, views: Sequence[View]) -> None: ...


def wait_for_end(talk: Talk, sequence: int, show: Show, *, timeout_s: float | None) -> View:
    """How it ended: outcome, epoch, steps. Whoever stops waiting leaves it running."""
    last: View = {"id": sequence, "due": "", "taken": prepared(sequence)}
    try:
        # Nothing is said inside: the bars of a terminal would wipe it away.
        with show:
            for last in _standings(talk, sequence, timeout_s):
                show.update([last])
    except _LateError:
        raise end(f"Sequence {sequence} is not over yet. {_goes_on(last)}", Exit.REFUSED) from None
    except KeyboardInterrupt:
        raise end(f"Not waiting any more. {_goes_on(last)}", Exit.REFUSED) from None
    return ended(talk, sequence, last["taken"])


class _LateError(Exception):
    """The time is up, and it is not over."""


def _standings(talk: Talk, sequence: int, timeout_s: float | None) -> Iterator[View]:
    """How it stands, every now and then until it is over."""
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    while (view := _found_soon(talk, sequence)) is not None:
        yield view
        if deadline_s is not None and time.monotonic() > deadline_s:
            raise _LateError
        time.sleep(POLL_S)


def found(talk: Talk, sequence: int) -> View | None:
    """The sequence, or None if it is over or never was."""
    from client.errors import RequestError

    try:
        return talk.get(f"/v1/sequences/{sequence}")
    except RequestError as error:
        if error.problem.status == GONE:
            return None
        raise


def _found_soon(talk: Talk, sequence: int) -> View | None:
    """As `found`, while every CMS may be away for a while."""
    from client.errors import UnreachableError

    try:
        return patiently(lambda: found(talk, sequence))
    except UnreachableError as error:
        raise UnreachableError(
            f"{error} The sequence goes on: `ringlog resume {sequence}` waits for it."
        ) from error


def patiently(ask: Callable[[], T]) -> T:
    """The answer of a cluster that was there a moment ago, and may be away for a while."""
    from client.errors import UnreachableError

    deadline_s = time.monotonic() + ABSENT_MAX_S
    while True:
        try:
            return ask()
        except UnreachableError:
            if time.monotonic() > deadline_s:
                raise


def prepared(sequence: int) -> list[View]:
    """The step that every sequence has taken: it is named by its epoch."""
    return [{"step": "prepare", "epoch": sequence}]


def ended(talk: Talk, sequence: int, known: Sequence[View]) -> View:
    """What the log says of the steps that it took after those that are known."""
    seen = [(item["step"], item["epoch"]) for item in known]
    after = seen[-1][1]
    for _ in range(PAGES_MAX):
        page = talk.get("/v1/log", {"after": after, "limit": PAGE_ENTRIES})["entries"]
        seen += [
            (step, entry["epoch"])
            for entry in page
            if (step := step_of(entry["transformation"], sequence)) is not None
        ]
        if not page or seen[-1][0] == "retire":
            break
        after = page[-1]["epoch"]
    taken = dict(seen)
    outcome = "cancelled" if "cancel" in taken else "finished"
    listed = [{"step": step, "epoch": epoch} for step, epoch in seen]
    return {
        "sequence": sequence,
        "outcome": outcome if "retire" in taken else "unknown",
        "epoch": taken.get("retire"),
        "taken": listed,
    }


def step_of(transformation: Mapping[str, Any], sequence: int) -> str | None:
    """Which step of the sequence an entry takes, if any."""
    if transformation.get("sequence") != sequence:
        return None
    kind = transformation["kind"]
    known = ("Start", "Mid", "Finish", "CancelSequence", "RetireSequence")
    for name in known:
        if kind.startswith(name):
            return name.removesuffix("Sequence").lower()
    return None


class Silent:
    """For programs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def update(self, views: Sequence[View]) -> None:
        """Say nothing."""


class Lines:
    """One line for each sequence, whenever it is another one."""

    def __init__(self, names: Roster, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._names = names
        self._clock_s = clock_s
        self._said: dict[int, tuple[tuple[object, ...], float]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def update(self, views: Sequence[View]) -> None:
        for view in views:
            essence, now_s = _essence(view), self._clock_s()
            before, said_s = self._said.get(view["id"], (None, 0.0))
            if essence == before and now_s - said_s < REPEAT_S:
                continue
            self._said[view["id"]] = essence, now_s
            last = view["taken"][-1]
            where = f"{title(view, self._names)}, {last['step']} at epoch {last['epoch']}"
            say(f"sequence {view['id']}: {where}: {now(view, self._names)}", err=True)


def show_for(names: Roster, *, as_json: bool) -> Silent | Lines | Bars:
    """Bars on a terminal, lines elsewhere, on the error stream: the other has the result."""
    import sys

    if as_json:
        return Silent()
    if not sys.stderr.isatty():
        return Lines(names)
    from ringlog.commands.bars import Bars

    return Bars(names)


def _essence(view: View) -> tuple[object, ...]:
    """What makes another line of it; seconds and rows alone do not."""
    driver = view.get("driver") or {}
    lagging = [item["node"] for item in view.get("laggards") or () if item["blocking"]]
    driven = is_driven(view)
    return (
        view["due"],
        view["cancelled"],
        driven,
        driver.get("doing"),
        driver.get("detail"),
        lagging,
    )


def _goes_on(view: View) -> str:
    waits = f"It goes on without this command: `ringlog resume {view['id']}` waits for it"
    return (
        f"{waits}."
        if view["due"] == "retire"
        else f"{waits}, `ringlog cancel {view['id']}` turns back."
    )
