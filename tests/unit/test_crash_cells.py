"""The crash matrix itself: its sample is fair, its order possible, and its table complete."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.e2e.matrix import (
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
    table,
)


def test_every_combination_is_a_cell():
    assert len(set(all_cells())) == len(KINDS) * len(STEPS) * len(VICTIMS) * len(MOMENTS) == 160


@pytest.mark.parametrize("seed", range(5))
def test_a_sample_gives_everything_its_share(seed):
    cells = sampled(seed, 20)

    assert cells == sampled(seed, 20)
    assert len(set(cells)) == 20
    for part, names in (("kind", KINDS), ("step", STEPS), ("victim", VICTIMS)):
        counts = Counter(getattr(cell, part) for cell in cells)
        assert set(counts) == set(names)
        assert max(counts.values()) - min(counts.values()) <= 3


def test_cells_are_chosen_by_name_number_or_all():
    assert chosen("join-mid-spark-before,leave-start-cms-after", 1) == [
        Cell("join", "mid", "spark", "before"),
        Cell("leave", "start", "cms", "after"),
    ]
    assert len(chosen("7", 1)) == 7
    assert chosen("all", 1) == all_cells()


@pytest.mark.parametrize("count", [1, 2, 6, 25, 160])
@pytest.mark.parametrize("seed", range(5))
def test_a_spare_node_is_there_for_whatever_needs_one(seed, count):
    cells, is_there = sampled(seed, count), False
    turns = list(in_turn(cells))

    for kind, _ in turns:
        assert is_there == (kind != "join")
        is_there = kind != "leave"
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
