"""Putting one node in the place of another."""

from __future__ import annotations

import pytest

from metadata.directory import NodeId, NodeState
from metadata.plans import Step
from metadata.schema import Network, Simple
from metadata.sequences import SequenceKind
from metadata.tokens import MINIMUM, Token
from tests.builders import (
    advanced_to,
    applied_by,
    commit,
    in_step,
    joined_cluster,
    only_sequence,
    reads,
    rejected,
    state_of,
    writes,
)
from transformations.kinds import execute
from transformations.leave import Assassinate
from transformations.outcome import Reason
from transformations.replace import PrepareReplace, StartReplace


def replace(node, replaced, **fields):
    return PrepareReplace(node=NodeId(node), replaced=NodeId(replaced), **fields)


@pytest.mark.parametrize(
    ("step", "read", "written"),
    [
        (Step.PREPARE, (2,), (2,)),
        (Step.START, (2,), (2, 5)),
        (Step.MID, (5,), (2, 5)),
        (Step.FINISH, (5,), (5,)),
        (Step.RETIRE, (5,), (5,)),
    ],
)
def test_the_new_node_writes_before_it_reads(step, read, written):
    before = joined_cluster(nodes=4, replication=Simple(1), spare=1)

    after = advanced_to(commit(before, replace(5, 2)), step)

    assert reads(after) == {
        (MINIMUM, 100): (1,),
        (100, 200): read,
        (200, 300): (3,),
        (300, 400): (4,),
        (400, MINIMUM): (1,),
    }
    assert writes(after)[100, 200] == written


def test_preparing_changes_no_placement():
    before = joined_cluster(nodes=4, spare=1)

    after = commit(before, replace(5, 2))

    assert after.placements is before.placements
    assert only_sequence(after).replaced == 2


@pytest.mark.parametrize(
    ("step", "new", "old", "tokens"),
    [
        (Step.PREPARE, NodeState.REGISTERED, NodeState.JOINED, ((), (200,))),
        (Step.START, NodeState.BOOT_REPLACING, NodeState.JOINED, ((), (200,))),
        (Step.MID, NodeState.BOOT_REPLACING, NodeState.JOINED, ((), (200,))),
        (Step.FINISH, NodeState.JOINED, NodeState.LEFT, ((200,), ())),
        (Step.RETIRE, NodeState.JOINED, NodeState.LEFT, ((200,), ())),
    ],
)
def test_the_tokens_change_hands_at_finish(step, new, old, tokens):
    """The replaced node is not forgotten: its number stays, and it has left."""
    after = advanced_to(commit(joined_cluster(nodes=4, spare=1), replace(5, 2)), step)

    assert (state_of(after, 5), state_of(after, 2)) == (new, old)
    assert (after.ring.tokens_of(NodeId(5)), after.ring.tokens_of(NodeId(2))) == tokens


@pytest.mark.parametrize("tokens", [[[MINIMUM], [200]], [[0], [MINIMUM, 200]]])
def test_replaces_at_the_minimum_token(tokens):
    before = joined_cluster(nodes=2, replication=Simple(1), spare=1, tokens=tokens)

    after = advanced_to(commit(before, replace(3, 1)), Step.RETIRE)

    renamed = {1: 3, 2: 2}
    assert reads(after) == {
        span: tuple(sorted(renamed[node] for node in owners))
        for span, owners in reads(before).items()
    }


def test_a_replacement_from_another_rack_changes_who_else_owns():
    """Racks r1 and r2 with two nodes each; node 2 of r2 makes place for node 5 of r1."""
    places = [("dc1", rack) for rack in ("r1", "r2", "r1", "r2", "r1")]
    before = joined_cluster(nodes=4, replication=Network({"dc1": 2}), places=places, spare=1)

    after = advanced_to(commit(before, replace(5, 2)), Step.RETIRE)

    assert reads(before)[100, 200] == (2, 3)
    assert reads(after)[100, 200] == (4, 5)


def test_a_replaced_node_that_lives_still_votes_and_is_a_source():
    before = in_step(
        joined_cluster(nodes=3, replication=Simple(1), spare=1), SequenceKind.REPLACE, Step.START
    )
    prepared = in_step(
        joined_cluster(nodes=3, replication=Simple(1), spare=1), SequenceKind.REPLACE, Step.PREPARE
    )
    sequence = only_sequence(prepared)

    refused = rejected(
        execute(StartReplace(sequence=sequence.id, barrier=applied_by(4)), prepared),
        Reason.BARRIER_NOT_PASSED,
    )

    assert "nodes [1]" in refused.detail
    (plan,) = only_sequence(before).plans
    assert plan.changes[0].predecessor_of(NodeId(4)) == 1


def test_a_dead_node_is_replaced_from_the_others():
    before = joined_cluster(nodes=4, spare=1)

    after = advanced_to(commit(before, replace(5, 2, dead=(NodeId(2),))), Step.RETIRE)

    assert state_of(after, 5) is NodeState.JOINED


def test_a_dead_node_without_copies_takes_its_rows_along():
    before = joined_cluster(nodes=4, replication=Simple(1), spare=1)

    rejected(execute(replace(5, 2, dead=(NodeId(2),)), before), Reason.SOURCES_LOST)


@pytest.mark.parametrize(
    ("node", "replaced", "reason"),
    [
        (9, 2, Reason.UNKNOWN_NODE),
        (5, 9, Reason.UNKNOWN_NODE),
        (1, 2, Reason.WRONG_STATE),
        (5, 6, Reason.WRONG_STATE),
        (5, 5, Reason.WRONG_STATE),
    ],
)
def test_refuses(node, replaced, reason):
    rejected(execute(replace(node, replaced), joined_cluster(nodes=4, spare=2)), reason)


def test_a_node_that_left_does_not_replace():
    before = commit(joined_cluster(nodes=4, tables=0), Assassinate(node=NodeId(4)))

    rejected(execute(replace(4, 2), before), Reason.WRONG_STATE)


def test_a_dead_node_does_not_replace():
    before = joined_cluster(nodes=4, spare=1)

    refused = rejected(execute(replace(5, 2, dead=(NodeId(5),)), before), Reason.WRONG_STATE)

    assert "dead" in refused.detail


@pytest.mark.parametrize(("node", "replaced"), [(5, 3), (6, 1)])
def test_both_nodes_are_in_one_sequence_at_a_time(node, replaced):
    before = in_step(joined_cluster(nodes=4, spare=2), SequenceKind.REPLACE, Step.START)

    refused = rejected(execute(replace(node, replaced), before), Reason.SEQUENCE_IN_PROGRESS)

    assert refused.sequence == only_sequence(before).id


def test_the_token_of_the_replaced_node_stays_taken():
    before = in_step(joined_cluster(nodes=4, spare=2), SequenceKind.REPLACE, Step.MID)

    assert before.ring.owner_of(Token(100)) == 1
    assert only_sequence(before).tokens == (100,)
