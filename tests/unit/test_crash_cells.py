"""The crash matrix itself: its sample is fair, its order possible, and its table complete."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.e2e.matrix import (
    BACK,
    KINDS,
    MOMENTS,
    STEPS,
    VICTIMS,
    Cell,
    Result,
    all_cells,
    chosen,
    in_turn,
    sampled,
    steps_of,
    table,
)


def test_every_combination_is_a_cell():
    steps = sum(len(steps_of(kind)) for kind in KINDS)
    assert len(set(all_cells())) == steps * len(VICTIMS) * len(MOMENTS) == 260


@pytest.mark.parametrize("seed", range(5))
def test_a_sample_gives_everything_its_share(seed):
    cells = sampled(seed, 20)

    assert cells == sampled(seed, 20)
    assert len(set(cells)) == 20
    # Of the seven kinds one alone has a cancel among its steps.
    assert {cell.step for cell in cells} == {*STEPS, *BACK}
    for part, names in (("kind", KINDS), ("step", STEPS), ("victim", VICTIMS)):
        counts = Counter(getattr(cell, part) for cell in cells)
        shares = [counts[name] for name in names]
        assert min(shares) > 0
        assert max(shares) - min(shares) <= 3


def test_cells_are_chosen_by_name_number_or_all():
    assert chosen("join-mid-spark-before,leave-start-cms-after", 1) == [
        Cell("join", "mid", "spark", "before"),
        Cell("leave", "start", "cms", "after"),
    ]
    assert len(chosen("7", 1)) == 7
    dead = chosen("remove,replace_dead", 1)
    assert len(dead) == 80
    assert {cell.kind for cell in dead} == {"remove", "replace_dead"}
    assert {cell.step for cell in chosen("cancel", 1)} == {"cancel", "retire"}
    with pytest.raises(AssertionError, match="remov is neither a cell nor a kind"):
        chosen("remov", 1)
    assert chosen("all", 1) == all_cells()


@pytest.mark.parametrize("count", ["1", "2", "6", "25", "all", "cancel", "remove,cancel"])
@pytest.mark.parametrize("seed", range(5))
def test_a_spare_node_is_there_for_whatever_needs_one(seed, count):
    cells, is_there = chosen(count, seed), False
    turns = list(in_turn(cells))

    for kind, _ in turns:
        assert is_there == (kind not in ("join", "cancel"))
        is_there = kind not in ("leave", "remove", "cancel")
    assert sorted(map(str, filter(None, (cell for _, cell in turns)))) == sorted(map(str, cells))


def test_the_table_tells_of_each_cell_how_it_ended():
    first, second = Cell("join", "mid", "cms", "before"), Cell("join", "mid", "spark", "before")

    told = table(
        [
            Result(cell=first, ended="forward", took_s=4.2, is_late=True),
            Result(cell=second, ended="cancelled", took_s=61.0, note="none ran"),
        ]
    )

    assert told.splitlines() == [
        "| sequence | step |  | driver | cms | source | target | spark |",
        "|---|---|---|---|---|---|---|---|",
        "| join | mid | before |  | forward 4 s (late) |  |  | cancelled 61 s (none ran) |",
    ]
