"""A plan in words and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ringlog.commands.figures import count, duration, percent, plural, size
from ringlog.commands.naming import Roster
from ringlog.commands.printing import print_table
from ringlog.commands.saying import say
from ringlog.commands.telling import title

CIRCLE = 2**64
TRANSFERS_SHOWN_MAX = 50
GROUPS_SHOWN_MAX = 20

Plan = Mapping[str, Any]


def print_plan(plan: Plan, names: Roster) -> None:
    say(f"{title(plan['sequence'], names)}: possible at epoch {plan['epoch']}")
    for line in told(plan, names):
        say(f"  {line}")
    transfers = plan["transfers"]
    if transfers:
        rows = [
            [
                names.label(item["source"]),
                names.label(item["target"]),
                count(item["ranges"]),
                count(item["rows"]),
                size(item["bytes"]),
            ]
            for item in transfers[:TRANSFERS_SHOWN_MAX]
        ]
        print_table(("from", "to", "ranges", "rows", "bytes"), rows)
        if len(transfers) > TRANSFERS_SHOWN_MAX:
            say(f"and {len(transfers) - TRANSFERS_SHOWN_MAX} more; --json has all of them.")


def told(plan: Plan, names: Roster) -> list[str]:
    """What an operator wants to know first."""
    lines = [_moves(plan), _locks(plan["locks"])]
    if plan["weakest"] is not None:
        lines.append(f"weakest moment: {plural(plan['weakest'], 'replica')} of a range")
    lines += _votes(plan["barrier"]["groups"], names)
    named = {plan["sequence"]["node"], plan["sequence"]["replaced"]}
    nodes = {*named, *(item["target"] for item in plan["transfers"])} - {
        None,
        *plan["sequence"]["dead"],
    }
    lines += [f"{item.label} is {item.liveness}, and waited for" for item in names.absent(nodes)]
    lines += [
        f"{item.label} is up, and would be taken for dead: end its process first"
        for item in names.present(plan["sequence"]["dead"])
    ]
    warnings = (plan["result"] or {}).get("warnings", ())
    return [*lines, *(f"warning: {warning}" for warning in warnings)]


def _moves(plan: Plan) -> str:
    if not plan["transfers"]:
        return "moves no rows"
    if plan["rows"] is None:
        return "moves rows, but no node has reported yet how many it holds"
    moved = f"moves about {plural(plan['rows'], 'row')}, {size(plan['bytes'])}"
    if plan["seconds"] is None:
        return f"{moved}; nothing was moved yet that tells how long it takes"
    rate = f"at {count(plan['rows_per_s'])} rows/s"
    return f"{moved}: about {duration(plan['seconds'])} {rate}"


def _locks(locks: Sequence[Plan]) -> str:
    placed = [item for lock in locks for item in lock["placements"]]
    if not any(item["ranges"] for item in placed):
        return "locks nothing"
    widest = max(sum(map(_width, item["ranges"])) for item in placed)
    ranges = sum(len(item["ranges"]) for item in placed)
    return f"locks {plural(ranges, 'range')}, {percent(widest / CIRCLE)} of the ring"


def _width(span: Mapping[str, str]) -> int:
    left, right = int(span["left"]), int(span["right"])
    return (right - left) % CIRCLE or CIRCLE


def _votes(groups: Sequence[Plan], names: Roster) -> list[str]:
    if not groups:
        return ["waits for nobody: no table is affected"]
    lines = [
        f"must vote: {item['needed']} of {names.labels(item['group'])}"
        for item in groups[:GROUPS_SHOWN_MAX]
    ]
    absent = {
        voter["node"]: voter["liveness"]
        for item in groups
        for voter in item["missing"]
        if voter["liveness"] != "up"
    }
    if len(groups) > GROUPS_SHOWN_MAX:
        lines.append(f"and {len(groups) - GROUPS_SHOWN_MAX} more groups; --json has all of them")
    if absent:
        said = ", ".join(f"{names.label(node)} ({how})" for node, how in sorted(absent.items()))
        lines.append(f"not up now: {said}")
    return lines
