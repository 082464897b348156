"""Starting a sequence and seeing it through."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import typer

from client.errors import RequestError
from ringlog.commands.asking import Talk, talking
from ringlog.commands.ending import Exit, end
from ringlog.commands.figures import duration
from ringlog.commands.naming import Roster
from ringlog.commands.printing import print_json
from ringlog.commands.proposing import Asked, proposed
from ringlog.commands.saying import say
from ringlog.commands.telling import title
from ringlog.commands.watching import ended, prepared, show_for, wait_for_end

Where = tuple[Path | None, str | None, str | None]
"""State directory, address and token, as they were given."""

_KINDS = {
    "PrepareJoin": "join",
    "PrepareLeave": "leave",
    "PrepareMove": "move",
    "PrepareReplace": "replace",
}


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How a change is made."""

    wait: bool = True
    timeout_s: float | None = None
    actor: str | None = None
    reason: str | None = None
    as_json: bool = False


def change(asked: Asked, where: Where, manner: Manner) -> None:
    """Commit what prepares it, and wait for its end unless that is not wanted."""
    with talking(*where) as talk:
        names = talk.roster()
        transformation = proposed(talk, asked, names)
        committed = talk.commit(
            transformation, actor=manner.actor, reason=manner.reason, as_json=manner.as_json
        )
        sequence = committed.result.sequence
        assert sequence is not None, asked.kind
        view = _view(sequence, transformation) | {"warnings": list(committed.result.warnings)}
        warnings = [*committed.result.warnings, *awaited(names, transformation)]
        for warning in [*warnings, *undead(names, transformation.get("dead", ()))]:
            say(f"warning: {warning}", err=True)
        if not manner.wait:
            _say_started(view, names, as_json=manner.as_json)
            return
        see_through(talk, view, names, manner)


def awaited(names: Roster, transformation: Mapping[str, Any]) -> list[str]:
    """Of nodes that have to take part, and are not there."""
    named = {transformation["node"], transformation.get("replaced")} - {None}
    nodes = named - {*transformation.get("dead", ())}
    return [
        f"{item.label} is {item.liveness}: the sequence waits until it is up."
        for item in names.absent(nodes)
    ]


def undead(names: Roster, dead: Iterable[int]) -> list[str]:
    """Of nodes that nobody would wait for or read from, and that are there."""
    return [
        f"{item.label} reports to the CMS, and nobody waits for it any more: end its process."
        for item in names.present(dead)
    ]


def see_through(
    talk: Talk, view: Mapping[str, Any], names: Roster, manner: Manner, wanted: str = "finished"
) -> None:
    """Wait for the end and say it; another end than the wanted one is exit code 1."""
    started_s = time.monotonic()
    show = show_for(names, as_json=manner.as_json)
    ending = wait_for_end(talk, view["sequence"], show, timeout_s=manner.timeout_s)
    took = duration(time.monotonic() - started_s)
    say_end({**view, **ending}, names, as_json=manner.as_json, took=f", after {took}")
    if ending["outcome"] != wanted:
        if manner.as_json:
            raise typer.Exit(Exit.REFUSED)
        raise end(
            f"Sequence {view['sequence']} was {ending['outcome']}: `ringlog log` says by whom.",
            Exit.REFUSED,
        )


def say_end(ending: Mapping[str, Any], names: Roster, *, as_json: bool, took: str = "") -> None:
    if as_json:
        print_json(ending)
        return
    steps = ", ".join(f"{item['step']} {item['epoch']}" for item in ending["taken"])
    at = "" if ending["epoch"] is None else f" at epoch {ending['epoch']}"
    say(f"{ending['outcome']}: {title(ending, names)}{at}{took} ({steps})")


def past(talk: Talk, sequence: int) -> Mapping[str, Any] | None:
    """How a sequence that is over ended, as far as the log still has it."""
    try:
        transformation = talk.get(f"/v1/log/{sequence}")["transformation"]
        if transformation["kind"] not in _KINDS:
            return None
        ending = ended(talk, sequence, prepared(sequence))
    except RequestError:
        return None
    return {**_view(sequence, transformation), **ending}


def _view(sequence: int, transformation: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sequence": sequence,
        "kind": _KINDS[transformation["kind"]],
        "node": transformation["node"],
        "replaced": transformation.get("replaced"),
        "warnings": [],
    }


def _say_started(view: Mapping[str, Any], names: Roster, *, as_json: bool) -> None:
    if as_json:
        print_json({**view, "outcome": "started", "epoch": view["sequence"], "taken": []})
        return
    number = view["sequence"]
    say(
        f"started: {title(view, names)}, sequence {number}; `ringlog resume {number}` waits for it."
    )
