"""Who is a quorum, and which stage an entry has reached when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.directory import Directory, Location, Node, NodeId, NodeState
from metadata.epoch import EMPTY, Epoch
from services.cms.reports.marks import AppliedTimes
from services.cms.reports.propagation import (
    Reached,
    Spread,
    Stage,
    Standing,
    members_of,
    sampled,
)


def standing(node, *marks):
    """It began with nothing, long ago."""
    return Standing(NodeId(node), Epoch(marks[-1][0] if marks else 0), times((0, 0), *marks))


def times(*marks):
    return AppliedTimes(marks)


def spread(standings, members, relays=()):
    return Spread(standings, members, relays)


def reached(at_us, node=None):
    return Reached(at_us, node)


def test_stages_are_reached_one_by_one():
    """Three members: the second to apply makes the quorum, the third makes it all."""
    first, second, third = standing(1, (5, 100)), standing(2, (5, 300)), standing(3, (5, 200))
    members = [1, 2, 3]

    nobody = spread([], members).of(Epoch(5))
    assert (nobody.first, nobody.quorum, nobody.all) == (None, None, None)
    one = spread([first], members).of(Epoch(5))
    assert (one.first, one.quorum, one.all) == (reached(100, 1), None, None)
    two = spread([first, second], members).of(Epoch(5))
    assert (two.quorum, two.all, two.applied) == (reached(300, 2), None, 2)
    three = spread([first, second, third], members).of(Epoch(5))
    assert (three.quorum, three.all) == (reached(200, 3), reached(300, 2))
    assert (three.applied, three.members) == (3, 3)


def test_the_straggler_is_the_last_or_the_one_furthest_behind():
    ahead, behind = standing(1, (5, 100)), standing(2, (4, 90))

    assert spread([ahead, behind], [1, 2]).of(Epoch(5)).straggler == 2
    assert spread([ahead, behind], [1, 2, 3]).of(Epoch(5)).straggler == 3
    assert spread([ahead, behind], [1, 2]).of(Epoch(4)).straggler == 1
    assert spread([], []).of(Epoch(4)).straggler is None


def test_one_of_two_is_no_quorum():
    found = spread([standing(1, (5, 100))], [1, 2]).of(Epoch(5))

    assert found.quorum is None


def test_a_node_that_owns_nothing_counts_for_the_first_alone():
    found = spread([standing(9, (5, 50)), standing(1, (5, 100))], [1]).of(Epoch(5))

    assert (found.first, found.quorum, found.all) == (reached(50, 9), *[reached(100, 1)] * 2)
    alone = spread([standing(9, (5, 50))], []).of(Epoch(5))
    assert (alone.first, alone.quorum, alone.all) == (reached(50, 9), None, None)


def test_what_is_too_long_ago_is_reached_at_an_unknown_time():
    late = Standing(NodeId(1), Epoch(9), times((8, 800), (9, 900)))
    found = spread([late, standing(2, (9, 500))], [1, 2]).of(Epoch(3))

    assert found.all == reached(None)
    assert found.first == reached(500, 2)


def test_the_first_relay_to_publish_counts():
    relays = [times((0, 0), (5, 70)), times((0, 0), (4, 50), (6, 60))]

    assert spread([], [], relays).of(Epoch(5)).published == reached(60)
    assert spread([], [], relays).of(Epoch(7)).published is None
    assert spread([], []).of(Epoch(1)).published is None


@pytest.mark.parametrize(
    ("state", "counts"),
    [
        (NodeState.REGISTERED, False),
        (NodeState.BOOTSTRAPPING, False),
        (NodeState.BOOT_REPLACING, False),
        (NodeState.JOINED, True),
        (NodeState.MOVING, True),
        (NodeState.LEAVING, True),
        (NodeState.LEFT, False),
    ],
)
def test_members_are_those_that_own_ranges(state, counts):
    node = Node(
        id=NodeId(1),
        host_id="h",
        addresses={"a": "h:1"},
        location=Location("d", "r"),
        version="1",
        state=state,
    )

    assert members_of(Directory().with_node(node)) == ([1] if counts else [])


WATERMARKS = st.lists(st.integers(0, 30), min_size=1, max_size=7)


@given(WATERMARKS, st.integers(1, 31))
def test_a_stage_is_reached_exactly_up_to_its_frontier(watermarks, epoch):
    nodes = [standing(index + 1, (mark, 10 * mark)) for index, mark in enumerate(watermarks)]
    whole = spread(nodes, [node.node for node in nodes])
    found = whole.of(Epoch(epoch))

    for stage in (Stage.FIRST, Stage.QUORUM, Stage.ALL):
        is_reached = found.reached(stage) is not None
        assert is_reached == (epoch <= whole.frontiers()[stage]), stage
    moments = [found.reached(stage) for stage in (Stage.FIRST, Stage.QUORUM, Stage.ALL)]
    known = [item.at_us or 0 for item in moments if item is not None]
    assert known == sorted(known)


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 64))
def test_samples_are_few_and_behind_the_first(after, more, epochs_max):
    found = sampled(Epoch(after), Epoch(after + more), epochs_max)

    assert len(found) <= epochs_max
    assert all(after < epoch <= after + more for epoch in found)
    if more <= epochs_max:
        assert found == list(range(after + 1, after + more + 1))


def test_nothing_new_is_nothing_to_measure():
    assert sampled(Epoch(7), Epoch(7), 8) == []
    assert sampled(Epoch(9), EMPTY, 8) == []
