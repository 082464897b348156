"""Ending a sequence without nodes that died, once only RETIRE is left of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ringlog.commands.naming import ABSENT, Roster
from ringlog.commands.telling import View, is_driven, now

RETIRE = "retire"


def is_finished(view: View) -> bool:
    """Nothing can turn it back any more."""
    return view["due"] == RETIRE and not view["cancelled"]


def dead_options(nodes: Iterable[int]) -> str:
    return " ".join(f"--dead {node}" for node in nodes)


def refusal(view: View, names: Roster, dead: Iterable[int]) -> str | None:
    """Why these nodes may not be declared dead now, and what to do instead."""
    listed, number = list(dead), view["id"]
    if view["due"] != RETIRE:
        return (
            f"Only what has finished or turned back goes on without a node: `ringlog cancel "
            f"{number} {dead_options(listed)}` turns it back."
        )
    alive = [item for item in names.members if item.id in listed and item.liveness not in ABSENT]
    if alive:
        return f"{names.labels(item.id for item in alive)} reports to the CMS, and is not dead."
    if not is_driven(view):
        # A driver has noted what is to be cleaned up before it waits; nobody else does.
        return f"Sequence {number}: {now(view, names)}."
    return None


def retirement(view: View, dead: Iterable[int]) -> dict[str, Any]:
    """RETIRE with the evidence of those that live, as they report it to the CMS."""
    listed, barrier = list(dead), view["barrier"]
    applied = {node for group in barrier["groups"] for node in group["applied"]} - {*listed}
    retire = {"kind": "RetireSequence", "sequence": view["id"], "dead": listed}
    if barrier["groups"]:
        retire["barrier"] = {"level": barrier["level"], "applied": sorted(applied)}
    return retire
