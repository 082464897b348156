"""`ringlog cancel` and `ringlog resume`: turning back, and waiting for the end."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ringlog.commands.change_options import (
    ActorOption,
    DeadOption,
    NoWaitOption,
    ReasonOption,
    SequenceArgument,
    TimeoutOption,
    YesOption,
)
from ringlog.commands.ending import Exit, confirm, end
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.saying import say

if TYPE_CHECKING:
    # At run time they come when a verb runs, so that --help stays quick.
    import typer

    from ringlog.commands.asking import Talk
    from ringlog.commands.naming import Roster


def cancel(  # noqa: PLR0913 one parameter per option
    sequence: SequenceArgument,
    *,
    dead: DeadOption = None,
    yes: YesOption = False,
    no_wait: NoWaitOption = False,
    timeout_s: TimeoutOption = None,
    actor: ActorOption = None,
    reason: ReasonOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Turn a sequence back, which is possible until it has finished, and wait until it is gone.

    Example: ringlog cancel 42 --reason "wrong rack"
    """
    from ringlog.commands.asking import talking
    from ringlog.commands.changing import Manner, see_through, undead
    from ringlog.commands.printing import print_json
    from ringlog.commands.retiring import dead_options, is_finished
    from ringlog.commands.telling import gaining, title

    with talking(state_dir, url, token) as talk:
        names = talk.roster()
        view = _in_progress(talk, sequence)
        gone = _numbers(names, dead)
        if gone and is_finished(view):
            raise end(
                f"Sequence {sequence} has finished and cannot turn back: `ringlog resume "
                f"{sequence} {dead_options(gone)}` ends it without them.",
                Exit.REFUSED,
            )
        for member in names.absent(set(gaining(view)) - {*gone, *view["dead"]}):
            say(
                f"warning: {member.label} is {member.liveness} and will be waited for; if it does "
                "not come back, name it by --dead.",
                err=True,
            )
        for warning in undead(names, gone):
            say(f"warning: {warning}", err=True)
        if not (yes or as_json) and sys.stdin.isatty():
            _ask(view, names)
        transformation = {"kind": "CancelSequence", "sequence": sequence}
        if gone:
            transformation["dead"] = gone
        committed = talk.commit(transformation, actor=actor, reason=reason, as_json=as_json)
        known = _known(view)
        if no_wait and as_json:
            print_json({**known, "outcome": "cancelling", "epoch": committed.epoch, "taken": []})
        elif no_wait:
            say(f"cancelling: {title(view, names)} since epoch {committed.epoch}")
        else:
            manner = Manner(timeout_s=timeout_s, as_json=as_json)
            see_through(talk, known, names, manner, wanted="cancelled")


def resume(  # noqa: PLR0913 one parameter per option
    sequence: SequenceArgument,
    *,
    dead: DeadOption = None,
    timeout_s: TimeoutOption = None,
    actor: ActorOption = None,
    reason: ReasonOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say why a sequence waits, for whom and since when, and wait for its end.

    Drivers go on with every sequence by themselves; this shows what keeps them from it. Once
    retire is due, one that waits for nodes that died is ended without them by --dead.

    Example: ringlog resume 42 --dead node-3
    """
    from ringlog.commands.asking import talking
    from ringlog.commands.changing import Manner, past, say_end, see_through
    from ringlog.commands.retiring import refusal, retirement
    from ringlog.commands.telling import now, steps, title
    from ringlog.commands.watching import found

    with talking(state_dir, url, token) as talk:
        names = talk.roster()
        gone = _numbers(names, dead)
        view = found(talk, sequence)
        if view is None:
            # Who waits for a sequence that was quicker has waited for it.
            ending = past(talk, sequence)
            if ending is None or ending["outcome"] != "finished":
                raise _not_in_progress(sequence, ending)
            say_end(ending, names, as_json=as_json)
            return
        if not as_json:
            say(f"{title(view, names)}: {steps(view)}")
            say(f"now: {now(view, names)}")
        if gone:
            refused = refusal(view, names, gone)
            if refused is not None:
                raise end(refused, Exit.REFUSED)
            talk.commit(retirement(view, gone), actor=actor, reason=reason, as_json=as_json)
        manner = Manner(timeout_s=timeout_s, as_json=as_json)
        wanted = "cancelled" if view["cancelled"] else "finished"
        see_through(talk, _known(view), names, manner, wanted=wanted)


def _numbers(names: Roster, dead: list[str] | None) -> list[int]:
    from ringlog.commands.naming import NamingError

    try:
        return names.numbers(dead or ())
    except NamingError as error:
        raise end(str(error), Exit.WRONG_USE) from None


def _in_progress(talk: Talk, sequence: int) -> dict[str, Any]:
    from ringlog.commands.changing import past
    from ringlog.commands.watching import found

    view = found(talk, sequence)
    if view is None:
        raise _not_in_progress(sequence, past(talk, sequence))
    return dict(view)


def _not_in_progress(sequence: int, ending: Mapping[str, Any] | None) -> typer.Exit:
    fate = "`ringlog sequences` lists those that are"
    if ending is not None and ending["epoch"] is not None:
        ended = "finished" if ending["outcome"] == "finished" else "was cancelled"
        fate = f"it {ended} at epoch {ending['epoch']}"
    return end(f"No sequence {sequence} is in progress: {fate}.", Exit.REFUSED)


def _known(view: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: view[name] for name in ("kind", "node", "replaced")}
    return {"sequence": view["id"], **named, "warnings": []}


def _ask(view: dict[str, Any], names: Roster) -> None:
    from ringlog.commands.telling import consequences, steps, title

    say(f"{title(view, names)}: {steps(view)}", err=True)
    say(consequences(view, names), err=True)
    confirm(f"Cancel sequence {view['id']}?")
