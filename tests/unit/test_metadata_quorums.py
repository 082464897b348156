"""Reads and writes always meet: the formula against every possible quorum."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata.directory import NodeId
from metadata.plans import RangeChange, Step
from metadata.quorums import (
    FORWARD,
    Version,
    disjoint_quorums,
    majority,
    quorums_meet,
    version_at,
    version_cancelled,
)
from metadata.tokens import FULL

GROUPS = st.sets(st.integers(1, 7), max_size=5).map(lambda nodes: tuple(sorted(nodes)))


def majorities(group):
    return [set(nodes) for nodes in combinations(group, len(group) // 2 + 1)]


def meet_by_trying(readers, write_groups):
    """Every majority of the readers against every way to have a majority of each group."""
    if not readers:
        return True
    writes = [set().union(*chosen) for chosen in product(*map(majorities, write_groups)) if chosen]
    return all(read & write for read in majorities(readers) for write in writes)


@settings(max_examples=200)
@given(GROUPS, st.lists(GROUPS.filter(bool), max_size=2))
def test_the_formula_agrees_with_trying_all_of_them(readers, write_groups):
    assert quorums_meet(readers, write_groups) == meet_by_trying(readers, write_groups)


def change(before, after):
    return RangeChange(
        range=FULL, before=tuple(map(NodeId, before)), after=tuple(map(NodeId, after))
    )


def versions_beside(item):
    """Pairs of versions that may be in use at the same time."""
    steps = [version_at(item, step) for step in FORWARD]
    yield from zip(steps, steps, strict=True)
    yield from pairwise(steps)
    for step, version in zip(FORWARD[:3], steps, strict=False):
        cancelled = version_cancelled(item, step)
        yield version, cancelled
        yield cancelled, steps[0]


@settings(max_examples=100)
@given(GROUPS, GROUPS)
def test_a_change_is_safe_if_all_versions_in_use_together_meet(before, after):
    item = change(before, after)

    safe = all(
        meet_by_trying(ours.readers, theirs.write_groups)
        and meet_by_trying(theirs.readers, ours.write_groups)
        for ours, theirs in versions_beside(item)
    )

    assert (disjoint_quorums(item) is None) == safe


@pytest.mark.parametrize("kept", range(6))
@pytest.mark.parametrize(("lost", "gained"), [(0, 0), (1, 1), (2, 2), (1, 0), (0, 1), (3, 3)])
def test_what_single_nodes_can_cause_is_safe(kept, lost, gained):
    """One for one in any number, one more or one fewer."""
    before = range(lost + kept)
    after = range(lost, lost + kept + gained)

    assert disjoint_quorums(change(before, after)) is None


def test_shrinking_too_fast_is_not_safe():
    assert disjoint_quorums(change(range(1, 6), [1])) == "between start and mid"


def test_growing_too_fast_is_not_safe():
    assert disjoint_quorums(change([1, 2], range(1, 6))) == "between start and mid"


@pytest.mark.parametrize(
    ("step", "readers", "groups"),
    [
        (Step.PREPARE, (1, 2, 3), ((1, 2, 3),)),
        (Step.START, (1, 2, 3), ((1, 2, 3), (2, 3, 4))),
        (Step.MID, (2, 3, 4), ((1, 2, 3), (2, 3, 4))),
        (Step.FINISH, (2, 3, 4), ((2, 3, 4),)),
    ],
)
def test_while_writers_are_not_readers_a_write_needs_both_majorities(step, readers, groups):
    assert version_at(change([1, 2, 3], [2, 3, 4]), step) == Version(readers, groups)


@pytest.mark.parametrize(("step", "expected"), [(Step.PREPARE, 1), (Step.START, 2), (Step.MID, 2)])
def test_a_cancelled_sequence_keeps_its_writers(step, expected):
    version = version_cancelled(change([1, 2, 3], [2, 3, 4]), step)

    assert version.readers == (1, 2, 3)
    assert len(version.write_groups) == expected


def test_a_majority_of_the_writers_alone_would_not_be_enough():
    """Reads of 1, 2 and 3 ask two; three of the five writers may be just the others."""
    one, two, three, four, five = map(NodeId, range(1, 6))

    assert not quorums_meet((one, two, three), [(one, two, three, four, five)])
    assert quorums_meet((one, two, three), [(one, two, three), (three, four, five)])


def test_knows_at_most_two_groups():
    with pytest.raises(AssertionError):
        quorums_meet((NodeId(1),), [(NodeId(1),)] * 3)


@pytest.mark.parametrize(("size", "expected"), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3), (9, 5)])
def test_a_majority_is_more_than_half(size, expected):
    assert majority(size) == expected
