"""Reservations of ranges, and which plans may go on at the same time."""

from __future__ import annotations

import pytest

from metadata.directory import NodeId
from metadata.locks import AffectedRanges, Locks, PlacementRanges, SequenceId, affected
from metadata.plans import Step
from metadata.schema import Network, PlacementKey, Simple
from metadata.tokens import FULL, MAXIMUM, MINIMUM, Token
from tests.builders import (
    accepted,
    advanced,
    advanced_to,
    cancelled,
    commit,
    joined_cluster,
    keyspace,
    only_sequence,
    rejected,
    span,
)
from transformations.join import PrepareJoin
from transformations.kinds import execute
from transformations.leave import PrepareLeave
from transformations.move import PrepareMove
from transformations.outcome import RANGES_SHOWN_MAX, Reason
from transformations.replace import PrepareReplace

KEY, OTHER = PlacementKey("simple:1"), PlacementKey("simple:2")


def join(node, *tokens):
    return PrepareJoin(node=NodeId(node), tokens=tuple(map(Token, tokens)))


def leave(node):
    return PrepareLeave(node=NodeId(node))


def move(node, *tokens):
    return PrepareMove(node=NodeId(node), tokens=tuple(map(Token, tokens)))


def replace(node, replaced):
    return PrepareReplace(node=NodeId(node), replaced=NodeId(replaced))


def wide(factor=1, **fields):
    """Ten nodes with one token each, at 100 to 1000."""
    return joined_cluster(nodes=10, replication=Simple(factor), spare=2, **fields)


def held(*ranges, key=KEY):
    return affected({key: [span(left, right) for left, right in ranges]})


def locked_by(transformation, metadata):
    outcome = accepted(execute(transformation, metadata))
    return [(span.left, span.right) for span in outcome.affected.of(KEY)]


@pytest.mark.parametrize(
    ("transformation", "ranges"),
    [
        (join(11, 450), [(400, 500)]),
        (leave(5), [(400, 600)]),
        (move(5, 750), [(400, 600), (700, 800)]),
        (replace(11, 5), [(400, 500)]),
        (join(11, 2000), [(1000, MINIMUM)]),
        (join(11, MINIMUM), [(1000, MINIMUM)]),
        (join(11, MAXIMUM), [(1000, MINIMUM)]),
        (join(11, 50), [(MINIMUM, 100), (1000, MINIMUM)]),
        (leave(1), [(MINIMUM, 200), (1000, MINIMUM)]),
    ],
    ids=str,
)
def test_locks_what_changes_splits_or_merges(transformation, ranges):
    """With one replica a join at 450 changes (400, 450] and splits (400, 500]."""
    assert locked_by(transformation, wide()) == ranges


def test_locks_cover_removals():
    """The range that node 7 loses to node 8's neighbour merges into one that changes nobody.

    Ranges (400, 500] and (500, 600] become one: both are reserved, though (500, 600] keeps its
    owners throughout.
    """
    leaving = commit(wide(), leave(5))

    refused = rejected(execute(join(11, 550), leaving), Reason.RANGES_LOCKED)

    assert [str(span) for span in refused.ranges] == ["(500, 600]"]


def test_a_lock_names_who_holds_it_what_is_due_and_how_to_get_on():
    leaving = commit(wide(), leave(5))
    sequence = only_sequence(leaving)

    refused = rejected(execute(join(11, 450), leaving), Reason.RANGES_LOCKED)

    assert (refused.sequence, refused.step) == (sequence.id, Step.START)
    assert refused.detail == (
        f"sequence {sequence.id} (leave of node 5) holds ranges of simple:1 that this plan "
        "needs, (400, 500] among them"
    )
    assert refused.remedy == f"wait until sequence {sequence.id} is retired; its next step is start"


@pytest.mark.parametrize("step", [Step.PREPARE, Step.START, Step.MID, Step.FINISH, Step.CANCEL])
def test_a_lock_lasts_until_retire(step):
    leaving = advanced_to(commit(wide(), leave(5)), step)

    rejected(execute(join(11, 450), leaving), Reason.RANGES_LOCKED)

    steps = {Step.CANCEL: 1, Step.FINISH: 1, Step.MID: 2, Step.START: 3, Step.PREPARE: 4}
    commit(advanced(leaving, steps=steps[step]), join(11, 450))


def test_the_same_ranges_of_another_placement_do_not_conflict():
    assert held((100, 200)).conflict_with(held((100, 200), key=OTHER)) is None
    assert held((100, 200)).conflict_with(held((150, 160))) == (KEY, (span(150, 160),))


def test_a_conflict_in_any_placement_is_one():
    """With one replica the two are apart; with three they are not."""
    before = commit(wide(), *keyspace(Simple(3), "three"))
    joining = commit(before, join(11, 450))

    refused = rejected(execute(join(12, 650), joining), Reason.RANGES_LOCKED)

    assert "simple:3" in refused.detail
    commit(wide(), join(11, 450), join(12, 650))


def test_two_sets_that_touch_the_minimum_token_conflict():
    """On either side: a node that comes or goes there changes what both edges mean."""
    first, last = held((MINIMUM, 100)), held((900, MINIMUM))

    assert first.conflict_with(last) == (KEY, (span(MINIMUM, 100),))
    assert last.conflict_with(first) == (KEY, (span(900, MINIMUM),))
    assert first.conflict_with(held((100, 900))) is None
    assert held((100, 900)).conflict_with(last) is None


def test_plans_at_both_edges_of_the_ring_conflict():
    before = wide()
    at_the_end = commit(before, join(11, MAXIMUM))

    refused = rejected(execute(join(12, 50), at_the_end), Reason.RANGES_LOCKED)

    assert all(span.touches_minimum for span in refused.ranges)
    commit(at_the_end, join(12, 550))


def test_an_empty_set_conflicts_with_nothing():
    nothing = AffectedRanges()

    assert not nothing
    assert nothing.conflict_with(held((MINIMUM, MINIMUM))) is None
    assert held((MINIMUM, MINIMUM)).conflict_with(nothing) is None
    assert affected({KEY: []}) == nothing
    assert held((1, 2))


def test_affected_ranges_are_coalesced_and_in_order():
    found = affected({OTHER: [FULL], KEY: [span(5, 9), span(1, 3), span(3, 5)]})

    assert found.by_placement == (
        PlacementRanges(KEY, (span(1, 9),)),
        PlacementRanges(OTHER, (FULL,)),
    )


def test_a_lock_is_acquired_and_released_once():
    locks = Locks().acquire(SequenceId(7), held((1, 2)))

    conflict = locks.conflict_with(held((1, 3)))

    assert conflict is not None
    assert (conflict.sequence, conflict.placement, conflict.ranges) == (7, KEY, (span(1, 2),))
    assert locks.conflict_with(held((2, 3))) is None
    assert locks.release(SequenceId(7)).conflict_with(held((1, 3))) is None
    with pytest.raises(AssertionError):
        locks.acquire(SequenceId(7), held((1, 2)))
    with pytest.raises(AssertionError):
        locks.release(SequenceId(8))


def test_shows_only_so_many_ranges():
    tokens = [[100 * (index * 2 + node) for index in range(40)] for node in (0, 1)]
    before = joined_cluster(nodes=2, replication=Simple(1), tokens=tokens, spare=1)
    moving = commit(before, join(3, *(100 * index + 50 for index in range(79))))

    refused = rejected(execute(move(1, 7999), moving), Reason.RANGES_LOCKED)
    frozen = rejected(execute(keyspace(Simple(2), "b")[0], moving), Reason.RANGES_LOCKED)

    assert 1 <= len(refused.ranges) <= RANGES_SHOWN_MAX
    assert 1 <= len(frozen.ranges) <= RANGES_SHOWN_MAX


# What locks alone do not see: interference.


def test_a_walk_that_grows_long_may_not_come_by_another_node_that_leaves():
    """Rack r2 has nodes 1, 4 and 7; node 4's leave sends walks on to node 7.

    With node 7 leaving too, they would have to go on to node 1. The ranges that the two plans
    change are not the same, so locks would let them pass.
    """
    racks = ["r2", "r1", "r1", "r2", "r1", "r1", "r2", "r1", "r1"]
    places = [("dc1", rack) for rack in racks]
    before = joined_cluster(nodes=9, replication=Network({"dc1": 2}), places=places)
    leaving = commit(before, leave(4))

    refused = rejected(execute(leave(7), leaving), Reason.RANGES_LOCKED)

    assert refused.sequence == only_sequence(leaving).id
    assert refused.ranges


def rack_pair():
    """Rack r3 has nodes 1 and 6 of ten; the others take turns on r1 and r2."""
    racks = ["r3", "r1", "r2", "r1", "r2", "r3", "r1", "r2", "r1", "r2", "r3", "r4"]
    places = [("dc1", rack) for rack in racks]
    return joined_cluster(10, Network({"dc1": 1}), places=places, spare=2)


def test_changing_how_racks_are_counted_needs_the_ring_alone():
    """With factor 1 racks do not matter; with factor 3 the last node of a rack does."""
    before = rack_pair()
    three = commit(before, *keyspace(Network({"dc1": 3}), "three", tables=0))

    commit(before, leave(1), leave(6))
    refused = rejected(execute(leave(6), commit(three, leave(1))), Reason.RANGES_LOCKED)
    assert "network:dc1=3" in refused.detail


def test_a_replacement_from_another_rack_may_change_how_racks_are_counted():
    """Once node 6 has left, rack r3 is node 1 alone, and node 12 is of rack r4."""
    before = commit(rack_pair(), *keyspace(Network({"dc1": 3}), "three", tables=0))
    replacing = commit(advanced_to(commit(before, leave(6)), Step.RETIRE), replace(12, 1))

    refused = rejected(execute(leave(4), replacing), Reason.RANGES_LOCKED)

    assert refused.sequence == only_sequence(replacing).id
    commit(rack_pair(), replace(12, 1), leave(4))


def test_datacenters_do_not_interfere_where_their_ranges_do_not():
    places = [("dc1", "r1"), ("dc2", "r1")] * 6
    before = joined_cluster(12, Network({"dc1": 1, "dc2": 1}), places=places)

    after = commit(before, leave(3), leave(8))

    assert len(after.sequences.in_progress) == 2


def test_the_last_nodes_of_a_datacenter_do_not_leave_together():
    places = [("dc1", "r1"), ("dc2", "r1"), ("dc1", "r1"), ("dc1", "r1"), ("dc2", "r1")]
    only = Network({"dc2": 1})
    before = joined_cluster(5, only, places=places, tables=0)
    leaving = commit(before, leave(2))

    rejected(execute(PrepareLeave(node=NodeId(5), force=True), leaving), Reason.RANGES_LOCKED)


def test_what_is_finished_or_cancelled_no_longer_interferes():
    before = rack_pair()
    three = commit(before, *keyspace(Network({"dc1": 3}), "three", tables=0))
    leaving = commit(three, leave(1))

    after = commit(cancelled(leaving), leave(6))

    assert only_sequence(after).node == 6
