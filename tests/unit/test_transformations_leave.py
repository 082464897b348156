"""Taking a node out of the ring."""

from __future__ import annotations

import pytest

from metadata.directory import NodeId, NodeState
from metadata.plans import Step
from metadata.schema import Network, Simple
from metadata.sequences import SequenceKind
from metadata.tokens import FULL, MINIMUM, Token
from tests.builders import (
    accepted,
    advanced,
    advanced_to,
    cancelled,
    commit,
    in_step,
    joined_cluster,
    keyspace,
    only_sequence,
    reads,
    rejected,
    spread,
    state_of,
    writes,
)
from transformations.join import PrepareJoin
from transformations.kinds import execute
from transformations.leave import Assassinate, PrepareLeave
from transformations.outcome import Reason


def leave(node, **fields):
    return PrepareLeave(node=NodeId(node), **fields)


def assassinate(node, **fields):
    return Assassinate(node=NodeId(node), **fields)


def two_datacenters(nodes=8, factor=3):
    """Odd nodes in dc1, even ones in dc2."""
    return joined_cluster(
        nodes=nodes,
        replication=Network({"dc1": factor, "dc2": factor}),
        places=spread(nodes, datacenters=2),
    )


@pytest.mark.parametrize(
    ("step", "read", "written"),
    [
        (Step.PREPARE, (2, 3), (2, 3)),
        (Step.START, (2, 3), (2, 3, 4)),
        (Step.MID, (3, 4), (2, 3, 4)),
        (Step.FINISH, (3, 4), (3, 4)),
        (Step.RETIRE, (3, 4), (3, 4)),
    ],
)
def test_successors_write_before_they_read(step, read, written):
    before = joined_cluster(nodes=4, replication=Simple(2))

    after = advanced_to(commit(before, leave(2)), step)

    where = Token(150)
    placement = after.placements.placed[Simple(2).key]
    readers, writers = placement.readers(where), placement.writers(where)
    assert readers is not None
    assert writers is not None
    assert (readers.owners, writers.owners) == (read, written)


def test_preparing_changes_no_placement():
    before = joined_cluster(nodes=4)

    after = commit(before, leave(2))

    assert after.placements is before.placements
    assert state_of(after, 2) is NodeState.JOINED


@pytest.mark.parametrize(
    ("step", "state", "tokens"),
    [
        (Step.START, NodeState.LEAVING, (200,)),
        (Step.MID, NodeState.LEAVING, (200,)),
        (Step.FINISH, NodeState.LEFT, ()),
        (Step.RETIRE, NodeState.LEFT, ()),
    ],
)
def test_the_node_has_left_from_finish_on(step, state, tokens):
    after = advanced_to(commit(joined_cluster(nodes=4), leave(2)), step)

    assert state_of(after, 2) is state
    assert after.ring.tokens_of(NodeId(2)) == tokens


def test_ranges_merge_at_finish():
    before = joined_cluster(nodes=4)

    finished = advanced_to(commit(before, leave(2)), Step.FINISH)

    assert list(reads(finished)) == [(MINIMUM, 100), (100, 300), (300, 400), (400, MINIMUM)]
    assert list(writes(finished)) == list(reads(finished))


def test_ends_as_if_the_node_had_never_been():
    after = advanced_to(commit(joined_cluster(nodes=5), leave(3)), Step.RETIRE)

    fresh = joined_cluster(nodes=4, tokens=[[100], [200], [400], [500]])
    renamed = {1: 1, 2: 2, 3: 4, 4: 5}
    assert reads(after) == {
        span: tuple(renamed[node] for node in owners) for span, owners in reads(fresh).items()
    }


@pytest.mark.parametrize("make", [leave, assassinate])
@pytest.mark.parametrize(("node", "reason"), [(9, Reason.UNKNOWN_NODE), (5, Reason.WRONG_STATE)])
def test_refuses(make, node, reason):
    rejected(execute(make(node), joined_cluster(nodes=4, spare=1)), reason)


@pytest.mark.parametrize("make", [leave, assassinate])
def test_a_node_is_in_one_sequence_at_a_time(make):
    before = in_step(joined_cluster(nodes=5), SequenceKind.LEAVE, Step.START)

    refused = rejected(execute(make(1), before), Reason.SEQUENCE_IN_PROGRESS)

    assert refused.sequence == only_sequence(before).id


def test_neither_side_of_a_replacement_leaves():
    before = in_step(joined_cluster(nodes=5, spare=1), SequenceKind.REPLACE, Step.PREPARE)

    rejected(execute(leave(1), before), Reason.SEQUENCE_IN_PROGRESS)


def test_refuses_to_leave_fewer_nodes_than_replicas():
    refused = rejected(execute(leave(1), joined_cluster(nodes=3)), Reason.TOO_FEW_REPLICAS)

    assert refused.detail == "keyspace shop wants 3 replicas and 2 nodes would be left"
    assert refused.remedy is not None
    assert "force" in refused.remedy


def test_counts_replicas_where_the_node_is():
    before = two_datacenters(nodes=7)

    rejected(execute(leave(2), before), Reason.TOO_FEW_REPLICAS)
    commit(before, leave(1))


def test_a_datacenter_without_replicas_may_lose_its_last_node():
    before = joined_cluster(
        nodes=2, replication=Network({"dc1": 1}), places=[("dc1", "r1"), ("dc2", "r1")]
    )

    after = advanced_to(commit(before, leave(2)), Step.RETIRE)

    assert set(reads(after).values()) == {(1,)}


def test_without_keyspaces_anybody_may_leave():
    before = joined_cluster(nodes=1, replication=None)

    after = advanced_to(commit(before, leave(1)), Step.RETIRE)

    assert after.ring.tokens == ()


def test_force_may_go_below_the_replication_factor():
    before = joined_cluster(nodes=3, tables=0)

    after = advanced_to(commit(before, leave(1, force=True)), Step.RETIRE)

    assert set(reads(after).values()) == {(2, 3)}


def test_the_last_node_leaves_by_force():
    before = joined_cluster(nodes=1)

    prepared = commit(before, leave(1, force=True, accept_loss="the cluster is given up"))
    after = advanced_to(prepared, Step.RETIRE)

    assert prepared.locks.held[only_sequence(prepared).id].of(Simple(3).key) == (FULL,)
    assert reads(after) == writes(after) == {}
    assert after.ring.tokens == ()


def test_the_last_node_locks_the_ring_also_where_nothing_is_placed():
    """A join in between would split ranges that are gone with the last node."""
    before = joined_cluster(nodes=1, replication=Network({"dc9": 3}), spare=1)
    leaving = commit(before, leave(1))
    join = PrepareJoin(node=NodeId(2), tokens=(Token(0),))

    refused = rejected(execute(join, leaving), Reason.RANGES_LOCKED)

    assert refused.ranges
    assert reads(advanced_to(leaving, Step.RETIRE)) == {}


FAR = [[100], [200], [300], [400], [500], [600], [700], [800]]


def test_leaves_that_together_break_replication_are_refused():
    """Each alone would be fine: the first still counts as joined until its START."""
    before = joined_cluster(nodes=2, replication=Simple(1), tables=0)
    first = commit(before, leave(1))

    refused = rejected(execute(leave(2), first), Reason.TOO_FEW_REPLICAS)

    assert refused.detail == "keyspace shop wants 1 replicas and 0 nodes would be left"


def test_a_leave_that_was_cancelled_does_not_count():
    before = joined_cluster(nodes=8, replication=Simple(1))
    first = commit(before, leave(1))

    after = commit(cancelled(first), leave(2))

    assert only_sequence(after).node == 2


def test_leaves_far_from_each_other_go_on_together():
    before = joined_cluster(nodes=8, replication=Simple(1))
    both = commit(before, leave(1), leave(5))
    first, second = both.sequences.in_progress

    after = advanced(advanced(both, second, 4), first, 4)

    alone = advanced_to(
        commit(advanced_to(commit(before, leave(5)), Step.RETIRE), leave(1)), Step.RETIRE
    )
    assert reads(after) == reads(alone)


def test_two_nodes_of_one_rack_do_not_leave_together():
    """The rack goes with the second of them, and with it the way of counting racks.

    Each plan by itself keeps rack r1: node 1's says that node 5 stays there, node 5's that
    node 1 does. Their locks are far apart.
    """
    racks = ["r1", "r2", "r3", "r2", "r1", "r2", "r3", "r2"]
    before = joined_cluster(
        nodes=8, replication=Network({"dc1": 1}), places=[("dc1", rack) for rack in racks]
    )
    two = joined_cluster(
        nodes=8, replication=Network({"dc1": 3}), places=[("dc1", rack) for rack in racks]
    )

    first = commit(two, leave(1))
    refused = rejected(execute(leave(5), first), Reason.RANGES_LOCKED)

    assert refused.sequence == only_sequence(first).id
    commit(before, leave(1), leave(5))


def test_a_removal_of_a_dead_node_copies_from_the_others():
    before = joined_cluster(nodes=5)

    after = advanced_to(commit(before, leave(2, dead=(NodeId(2),))), Step.RETIRE)

    assert state_of(after, 2) is NodeState.LEFT


def test_a_removal_that_would_lose_rows_says_so():
    before = joined_cluster(nodes=3, replication=Simple(1))

    refused = rejected(execute(leave(2, dead=(NodeId(2),)), before), Reason.SOURCES_LOST)

    assert "of the owners [2] of (100, 200] only [] are alive" in refused.detail
    assert [str(span) for span in refused.ranges] == ["(100, 200]"]


def test_a_removal_that_loses_rows_may_be_accepted():
    before = joined_cluster(nodes=3, replication=Simple(1))
    lossy = leave(2, dead=(NodeId(2),), accept_loss="the disk is gone")

    after = advanced_to(commit(before, lossy), Step.RETIRE)

    assert reads(after)[100, 300] == (3,)


def test_a_removal_elsewhere_loses_nothing_in_a_placement_without_tables():
    before = commit(
        joined_cluster(nodes=5, replication=Simple(3)), *keyspace(Simple(1), "empty", tables=0)
    )

    after = advanced_to(commit(before, leave(2, dead=(NodeId(2),))), Step.RETIRE)

    assert reads(after, Simple(1))[100, 300] == (3,)


def test_assassination_takes_one_epoch():
    before = joined_cluster(nodes=4, tables=0)

    outcome = accepted(execute(assassinate(2), before))

    safely = advanced_to(commit(before, leave(2)), Step.RETIRE)
    assert reads(outcome.after) == writes(outcome.after) == reads(safely)
    assert outcome.after.ring == safely.ring or outcome.after.ring.tokens == safely.ring.tokens
    assert state_of(outcome.after, 2) is NodeState.LEFT
    assert outcome.affected


def test_assassination_keeps_no_number_of_replicas():
    after = commit(joined_cluster(nodes=1, tables=0), assassinate(1))

    assert reads(after) == {}


def test_assassination_under_tables_needs_steps():
    rejected(execute(assassinate(2), joined_cluster(nodes=4)), Reason.NEEDS_STEPS)


def test_assassination_under_tables_goes_where_loss_is_accepted():
    after = commit(joined_cluster(nodes=4), assassinate(2, accept_loss="it burned"))

    assert reads(after)[100, 300] == (1, 3, 4)


def test_assassination_heeds_locks():
    before = in_step(joined_cluster(nodes=4, tables=0), SequenceKind.LEAVE, Step.START)

    rejected(execute(assassinate(2), before), Reason.RANGES_LOCKED)
