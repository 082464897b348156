"""The crash matrix: what is killed in which moment of which sequence, and what came of it."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

KINDS = ("join", "move", "replace", "leave")
"""In this order each finds what the one before it leaves: a spare node comes, and goes again."""
STEPS = ("start", "mid", "finish", "retire")
VICTIMS = ("driver", "cms", "source", "target", "spark")
MOMENTS = ("before", "after")


class Cell(msgspec.Struct, frozen=True):
    """`before`: the step is due and everybody knows the one before it; of MID, rows are being
    copied. `after`: the moment in which the step is in the log."""

    kind: str
    step: str
    victim: str
    moment: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.victim} dies {self.moment} {self.step}"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """`ended` is forward or cancelled. `is_late`: the step was taken before the blow fell.

    `note` says more where there is more to say.
    """

    cell: Cell
    ended: str
    took_s: float
    is_late: bool = False
    note: str = ""


def all_cells() -> list[Cell]:
    return [Cell(*which) for which in itertools.product(KINDS, STEPS, VICTIMS, MOMENTS)]


def chosen(text: str, seed: int) -> list[Cell]:
    """`all`, so many by chance, or those that are named: `join-mid-spark-before,…`."""
    if text == "all":
        return all_cells()
    if text.isdigit():
        return sampled(seed, int(text))
    return [Cell(*name.split("-")) for name in text.split(",")]


def sampled(seed: int, count: int) -> list[Cell]:
    """So many cells by chance, of which no kind, step, victim or moment gets much more than its
    share."""
    left, chosen = all_cells(), list[Cell]()
    random.Random(seed).shuffle(left)
    shares: Counter[str] = Counter()
    for _ in range(min(count, len(left))):
        found = min(left, key=lambda cell: sum(shares[part] for part in _parts(cell)))
        left.remove(found)
        chosen.append(found)
        shares.update(_parts(found))
    return chosen


def _parts(cell: Cell) -> tuple[str, ...]:
    return cell.kind, cell.step, cell.victim, cell.moment


def in_turn(cells: Iterable[Cell]) -> Iterator[tuple[str, Cell | None]]:
    """Kinds in an order in which each is possible, with None where nothing is to be killed."""
    of = {kind: [cell for cell in cells if cell.kind == kind] for kind in KINDS}
    rounds = max(1, len(of["join"]), len(of["leave"]))
    for number in range(rounds):
        yield "join", next(iter(of["join"][number:]), None)
        for kind in ("move", "replace"):
            yield from ((kind, cell) for cell in of[kind][number::rounds])
        if number < len(of["leave"]) or number + 1 < rounds:
            yield "leave", next(iter(of["leave"][number:]), None)


def table(results: Iterable[Result]) -> str:
    """As Markdown: a row for each kind and step, a column for each victim."""
    found = {result.cell: result for result in results}
    head = ["sequence", "step", "", *VICTIMS]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for kind, step, moment in itertools.product(KINDS, STEPS, MOMENTS):
        cells = [found.get(Cell(kind, step, victim, moment)) for victim in VICTIMS]
        if any(cells):
            lines.append(f"| {' | '.join([kind, step, moment, *map(_shown, cells)])} |")
    return "\n".join(lines) + "\n"


def _shown(result: Result | None) -> str:
    if result is None:
        return ""
    notes = [*([result.note] if result.note else []), *(["late"] if result.is_late else [])]
    more = f" ({', '.join(notes)})" if notes else ""
    return f"{result.ended} {result.took_s:.0f} s{more}"
