"""`ringlog sequences`: what is being moved, and what it waits for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ringlog.commands.completing import sequence_numbers
from ringlog.commands.ending import Exit, end, endless
from ringlog.commands.options import (
    EpochOption,
    JsonOption,
    StateDirOption,
    TokenOption,
    UrlOption,
)
from ringlog.commands.printing import print_json, print_json_line, print_table
from ringlog.commands.saying import say

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from ringlog.commands.asking import Talk
    from ringlog.commands.naming import Roster

COLUMNS = ("sequence", "what", "due", "since epoch", "now")
SESSION_COLUMNS = ("session", "for", "nodes", "now")
View = dict[str, Any]


def sequences(  # noqa: PLR0913 one parameter per option
    sequence: Annotated[
        int | None,
        typer.Argument(
            min=1,
            help="One of them, in detail.",
            show_default=False,
            autocompletion=sequence_numbers,
        ),
    ] = None,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on showing them until interrupted.")
    ] = False,
    at: EpochOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the sequences in progress: their steps, whom they wait for, how far the rows are.

    Below are the sessions for cleanup and repair that are open, and what keeps them from their end.

    Example: ringlog sequences --watch
    """
    from ringlog.commands.asking import talking

    if watch and at is not None:
        raise end("--at shows a past epoch, --watch what goes on: give one.", Exit.WRONG_USE)
    with talking(state_dir, url, token) as talk:
        if watch:
            with endless():
                _watch(talk, sequence, as_json=as_json)
            return
        names = talk.roster()
        if sequence is not None:
            view = talk.get(f"/v1/sequences/{sequence}", {"at": at})
            _print_one(view, names, as_json=as_json)
            return
        answer = talk.get("/v1/sequences", {"at": at})
    if as_json:
        print_json(answer)
    else:
        _print_all(answer, names)


def _print_all(answer: View, names: Roster) -> None:
    from ringlog.commands.telling import now, title

    if not answer["sequences"]:
        say(f"No sequence is in progress at epoch {answer['epoch']}.")
    else:
        print_table(
            COLUMNS,
            [
                [
                    view["id"],
                    title(view, names),
                    view["due"],
                    view["taken"][-1]["epoch"],
                    None if view["barrier"] is None else now(view, names),
                ]
                for view in answer["sequences"]
            ],
        )
    _print_sessions(answer.get("sessions") or (), names)
    # A CMS of the release before does not say it.
    if answer.get("reconfiguration"):
        _print_reconfiguration(answer["reconfiguration"], names)


def _print_reconfiguration(view: View, names: Roster) -> None:
    from ringlog.commands.telling import session_now

    left = [f"add {name}" for name in view["adding"]]
    left += [f"remove {name}" for name in view["removing"]]
    said = session_now(view, names)
    say(f"The members of the CMS change ({view['id']}): {', '.join(left)}. {said}.")


def _print_sessions(found: Sequence[View], names: Roster) -> None:
    from ringlog.commands.telling import session_now

    if found:
        rows = [
            [view["id"], view["purpose"], names.labels(view["nodes"]), session_now(view, names)]
            for view in found
        ]
        print_table(SESSION_COLUMNS, rows)


def _print_one(view: View, names: Roster, *, as_json: bool) -> None:
    from ringlog.commands.telling import moved, now, steps, title

    if as_json:
        print_json(view)
        return
    say(f"sequence {view['id']}: {title(view, names)}")
    say(f"steps: {steps(view)}")
    if view["barrier"] is not None:
        say(f"now: {now(view, names)}")
        if view["progress"] is not None:
            say(f"movement: {moved(view['progress'])}")
        _print_barrier(view["barrier"], names)


def _print_barrier(barrier: View, names: Roster) -> None:
    said = "has passed" if barrier["passed"] else "has not passed"
    say(f"barrier at epoch {barrier['epoch']} ({barrier['level']}) {said}")
    if not barrier["groups"]:
        return
    rows = [
        [
            names.labels(item["group"]),
            len(item["applied"]),
            item["needed"],
            names.labels(voter["node"] for voter in item["missing"]) or None,
        ]
        for item in barrier["groups"]
    ]
    print_table(("group", "have applied it", "needed", "missing"), rows)


def _watch(talk: Talk, sequence: int | None, *, as_json: bool) -> None:
    """Until interrupted, or until the one that is watched is over."""
    from ringlog.commands.watching import POLL_S, patiently, show_for

    if sequence is not None:
        # One that is not there is no end of it.
        talk.get(f"/v1/sequences/{sequence}")
    said: Sequence[View] = ()
    with show_for(talk.roster(), as_json=as_json) as show:
        while True:
            answer = patiently(lambda: talk.get("/v1/sequences"))
            views = [
                view for view in answer["sequences"] if sequence is None or view["id"] == sequence
            ]
            if as_json and views != said:
                sessions = answer.get("sessions", [])
                print_json_line(
                    {"epoch": answer["epoch"], "sequences": views, "sessions": sessions}
                )
            said = views
            show.update(views)
            if sequence is not None and not views:
                return
            time.sleep(POLL_S)
