"""The crash matrix: what is killed in which moment of which sequence, and what came of it."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

KINDS = ("join", "move", "replace", "leave", "remove", "replace_dead", "cancel")
"""Of `remove` and `replace_dead` the node is dead before they begin, and stays so. `cancel` is a
join that is turned back while rows are copied."""
STEPS = ("start", "mid", "finish", "retire")
BACK = ("cancel", "retire")
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


def steps_of(kind: str) -> tuple[str, ...]:
    """Those around which something dies."""
    return BACK if kind == "cancel" else STEPS


def all_cells() -> list[Cell]:
    return [cell for kind in KINDS for cell in _cells_of(kind)]


def _cells_of(kind: str) -> list[Cell]:
    return [Cell(kind, *which) for which in itertools.product(steps_of(kind), VICTIMS, MOMENTS)]


def chosen(text: str, seed: int) -> list[Cell]:
    """`all`, so many by chance, or those that are named: `join-mid-spark-before,…`; the name of a
    kind stands for all of its cells."""
    if text == "all":
        return all_cells()
    if text.isdigit():
        return sampled(seed, int(text))
    return [cell for name in text.split(",") for cell in _named(name)]


def _named(name: str) -> list[Cell]:
    found = [cell for cell in all_cells() if name in (cell.kind, "-".join(_parts(cell)))]
    assert found, f"{name} is neither a cell nor a kind: {', '.join(KINDS)}"
    return found


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
    """Kinds in an order in which each is possible, with None where nothing is to be killed.

    A spare node comes by a join, and goes by a leave or as a dead one; what else there is needs
    it, but for a join that comes to nothing.
    """
    of = {kind: [cell for cell in cells if cell.kind == kind] for kind in KINDS}
    yield from (("cancel", cell) for cell in of["cancel"])
    going = of["leave"] + of["remove"]
    staying = [*of["move"], *of["replace"], *of["replace_dead"]]
    rounds = max(len(of["join"]), len(going), min(1, len(staying)))
    for number in range(rounds):
        yield "join", next(iter(of["join"][number:]), None)
        yield from ((cell.kind, cell) for cell in staying[number::rounds])
        if number < len(going):
            yield going[number].kind, going[number]
        elif number + 1 < rounds:
            yield "leave", None


def table(results: Iterable[Result]) -> str:
    """As Markdown: a row for each kind and step, a column for each victim."""
    found = {result.cell: result for result in results}
    head = ["sequence", "step", "", *VICTIMS]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    rows = [(kind, step) for kind in KINDS for step in steps_of(kind)]
    for (kind, step), moment in itertools.product(rows, MOMENTS):
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
