"""Giving a node other tokens."""

from __future__ import annotations

import pytest

from metadata.directory import NodeId, NodeState
from metadata.plans import Step
from metadata.schema import Simple
from metadata.sequences import SequenceKind
from metadata.tokens import MAXIMUM, MINIMUM, Token
from tests.builders import (
    advanced_to,
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
from transformations.move import PrepareMove
from transformations.outcome import Reason


def move(node, *tokens, **fields):
    return PrepareMove(node=NodeId(node), tokens=tuple(map(Token, tokens)), **fields)


@pytest.mark.parametrize(
    ("step", "near", "far"),
    [
        (Step.PREPARE, ((1,), (1,)), ((4,), (4,))),
        (Step.START, ((1,), (1, 2)), ((4,), (1, 4))),
        (Step.MID, ((2,), (1, 2)), ((1,), (1, 4))),
        (Step.FINISH, ((2,), (2,)), ((1,), (1,))),
        (Step.RETIRE, ((2,), (2,)), ((1,), (1,))),
    ],
)
def test_gives_up_old_ranges_and_gains_new_ones(step, near, far):
    """Node 1 goes from 100 to 350: node 2 gets its range, and node 4 gives half of one away."""
    before = joined_cluster(nodes=4, replication=Simple(1))

    after = advanced_to(commit(before, move(1, 350)), step)

    placement = after.placements.placed[Simple(1).key]
    for token, (read, written) in ((Token(50), near), (Token(320), far)):
        readers, writers = placement.readers(token), placement.writers(token)
        assert readers is not None
        assert writers is not None
        assert (readers.owners, writers.owners) == (read, written)


@pytest.mark.parametrize(
    ("step", "state", "tokens"),
    [
        (Step.PREPARE, NodeState.MOVING, (100,)),
        (Step.START, NodeState.MOVING, (100,)),
        (Step.MID, NodeState.MOVING, (100,)),
        (Step.FINISH, NodeState.JOINED, (350,)),
        (Step.RETIRE, NodeState.JOINED, (350,)),
    ],
)
def test_the_node_is_moving_from_prepare_to_finish(step, state, tokens):
    after = advanced_to(commit(joined_cluster(nodes=4), move(1, 350)), step)

    assert state_of(after, 1) is state
    assert after.ring.tokens_of(NodeId(1)) == tokens


def test_splits_at_prepare_and_merges_at_finish():
    before = joined_cluster(nodes=4)

    prepared = commit(before, move(1, 350))
    finished = advanced_to(prepared, Step.FINISH)

    assert [right for _, right in reads(prepared)] == [100, 200, 300, 350, 400, MINIMUM]
    assert [right for _, right in writes(finished)] == [200, 300, 350, 400, MINIMUM]
    assert list(reads(finished)) == list(writes(finished))


@pytest.mark.parametrize("target", [0, 50, 150, 350, 450, MINIMUM, MINIMUM + 1, MAXIMUM])
@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("node", [1, 2, 4])
def test_equals_a_fresh_cluster_with_the_final_tokens(node, factor, target):
    before = joined_cluster(nodes=4, replication=Simple(factor))

    after = advanced_to(commit(before, move(node, target)), Step.RETIRE)

    tokens = [[100], [200], [300], [400]]
    tokens[node - 1] = [target]
    assert reads(after) == reads(joined_cluster(4, Simple(factor), tokens=tokens))


def test_may_keep_some_of_its_tokens():
    tokens = [[100, 500], [200], [300]]
    before = joined_cluster(nodes=3, replication=Simple(1), tokens=tokens)

    prepared = commit(before, move(1, 500, 250))
    after = advanced_to(prepared, Step.RETIRE)

    (plan,) = only_sequence(prepared).plans
    assert (plan.splits, plan.merges) == ((250,), (100,))
    assert after.ring.tokens_of(NodeId(1)) == (250, 500)


def test_a_move_that_moves_nothing_comes_to_its_end():
    before = joined_cluster(nodes=3)

    after = advanced_to(commit(before, move(1, 100)), Step.RETIRE)

    assert reads(after) == reads(before)
    assert state_of(after, 1) is NodeState.JOINED


@pytest.mark.parametrize(
    ("node", "tokens", "reason"),
    [
        (9, (350,), Reason.UNKNOWN_NODE),
        (5, (350,), Reason.WRONG_STATE),
        (1, (350, 350), Reason.DUPLICATE_TOKEN),
        (1, (300,), Reason.TOKEN_TAKEN),
    ],
)
def test_refuses(node, tokens, reason):
    rejected(execute(move(node, *tokens), joined_cluster(nodes=4, spare=1)), reason)


def test_a_node_is_in_one_sequence_at_a_time():
    before = in_step(joined_cluster(nodes=4), SequenceKind.MOVE, Step.START)

    refused = rejected(execute(move(1, 50), before), Reason.SEQUENCE_IN_PROGRESS)

    assert refused.sequence == only_sequence(before).id


def test_a_dead_node_does_not_move():
    refused = rejected(
        execute(move(1, 350, dead=(NodeId(1),)), joined_cluster(nodes=4)), Reason.WRONG_STATE
    )

    assert "dead" in refused.detail
