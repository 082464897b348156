"""Bringing a node into the ring."""

from __future__ import annotations

import pytest

from metadata.directory import NodeId, NodeState
from metadata.plans import Step
from metadata.schema import Network, Simple
from metadata.sequences import SequenceKind
from metadata.tokens import FULL, MAXIMUM, MINIMUM, Token
from tests.builders import (
    accepted,
    advanced_to,
    commit,
    founded,
    in_step,
    joined_cluster,
    keyspace,
    only_sequence,
    reads,
    registration,
    rejected,
    state_of,
    writes,
)
from transformations.ending import CancelSequence
from transformations.join import PrepareJoin, UnsafeJoin
from transformations.kinds import execute
from transformations.leave import Assassinate
from transformations.move import PrepareMove
from transformations.outcome import Reason

A, B, C, X = 1, 2, 3, 4


def prepare(node, *tokens, **fields):
    return PrepareJoin(node=NodeId(node), tokens=tuple(map(Token, tokens)), **fields)


def unsafe(node, *tokens, **fields):
    return UnsafeJoin(node=NodeId(node), tokens=tuple(map(Token, tokens)), **fields)


def worked_example():
    """Replication factor 2, A=100, B=200, C=300, and X joins at 150."""
    return joined_cluster(nodes=3, replication=Simple(2), spare=1)


def table(first, second, third):
    """Owners of (min, 100], (100, 150] and (150, 200]; the rest stays as it is."""
    return {
        (MINIMUM, 100): first,
        (100, 150): second,
        (150, 200): third,
        (200, 300): (A, C),
    }


@pytest.mark.parametrize(
    ("step", "read", "written"),
    [
        (Step.PREPARE, table((A, B), (B, C), (B, C)), table((A, B), (B, C), (B, C))),
        (Step.START, table((A, B), (B, C), (B, C)), table((A, B, X), (B, C, X), (B, C))),
        (Step.MID, table((A, X), (B, X), (B, C)), table((A, B, X), (B, C, X), (B, C))),
        (Step.FINISH, table((A, X), (B, X), (B, C)), table((A, X), (B, X), (B, C))),
        (Step.RETIRE, table((A, X), (B, X), (B, C)), table((A, X), (B, X), (B, C))),
    ],
)
def test_writes_before_reads(step, read, written):
    """The last piece of the ring, (300, min], has the owners of the first."""
    prepared = commit(worked_example(), prepare(X, 150))

    after = advanced_to(prepared, step)

    assert reads(after) == read | {(300, MINIMUM): read[MINIMUM, 100]}
    assert writes(after) == written | {(300, MINIMUM): written[MINIMUM, 100]}


@pytest.mark.parametrize(
    ("step", "state", "tokens"),
    [
        (Step.PREPARE, NodeState.REGISTERED, ()),
        (Step.START, NodeState.BOOTSTRAPPING, ()),
        (Step.MID, NodeState.BOOTSTRAPPING, ()),
        (Step.FINISH, NodeState.JOINED, (120, 150)),
        (Step.RETIRE, NodeState.JOINED, (120, 150)),
    ],
)
def test_the_node_is_joined_and_has_its_tokens_from_finish_on(step, state, tokens):
    prepared = commit(worked_example(), prepare(X, 150, 120))

    after = advanced_to(prepared, step)

    assert state_of(after, X) is state
    assert after.ring.tokens_of(NodeId(X)) == tokens


def test_a_sequence_is_named_by_the_epoch_of_its_prepare():
    outcome = accepted(execute(prepare(X, 150), worked_example()))

    sequence = only_sequence(outcome.after)
    assert sequence.id == outcome.result.sequence == outcome.after.epoch
    assert (sequence.kind, sequence.node) == (SequenceKind.JOIN, X)
    assert sequence.tokens == (150,)
    assert outcome.affected == outcome.after.locks.held[sequence.id]


def test_the_first_node_owns_everything_from_prepare_on():
    before = commit(founded(), *keyspace(Simple(3)), registration(1))

    prepared = commit(before, prepare(1, 0))
    after = advanced_to(prepared, Step.RETIRE)

    everything = {(MINIMUM, 0): (1,), (0, MINIMUM): (1,)}
    assert reads(prepared) == writes(prepared) == reads(after) == everything
    assert prepared.ring.tokens == ()
    assert after.ring.tokens == (0,)


def test_the_first_node_needs_no_receipts():
    """Nobody owned the ranges, so there is nothing to copy."""
    before = commit(founded(), *keyspace(Simple(3)), registration(1))

    after = advanced_to(commit(before, prepare(1, 0)), Step.MID)

    assert only_sequence(after).session is None


def test_the_second_node_copies_everything():
    before = joined_cluster(nodes=1, spare=1, replication=Simple(1))

    started = advanced_to(commit(before, prepare(2, 0)), Step.START)

    (session,) = started.sessions.open.values()
    assert session.nodes == (2,)
    assert writes(started) == {
        (MINIMUM, 0): (1, 2),
        (0, 100): (1,),
        (100, MINIMUM): (1, 2),
    }


def test_the_first_node_of_a_datacenter_owns_what_is_placed_there():
    places = [("dc1", "r1"), ("dc1", "r1"), ("dc2", "r1")]
    both = Network({"dc1": 2, "dc2": 1})
    before = joined_cluster(nodes=2, replication=both, spare=1, places=places)

    after = advanced_to(commit(before, prepare(3, 0)), Step.RETIRE)

    assert set(reads(before).values()) == {(1, 2)}
    assert set(reads(after).values()) == {(1, 2, 3)}


@pytest.mark.parametrize("token", [MINIMUM, MINIMUM + 1, MAXIMUM])
def test_joins_at_the_edges_of_the_ring(token):
    after = advanced_to(commit(worked_example(), prepare(X, token)), Step.RETIRE)

    fresh = joined_cluster(nodes=4, replication=Simple(2), tokens=[[100], [200], [300], [token]])
    assert reads(after) == reads(fresh)


def test_a_token_at_the_minimum_splits_nothing():
    prepared = commit(worked_example(), prepare(X, MINIMUM))

    assert list(reads(prepared)) == list(reads(worked_example()))


def test_a_node_that_left_may_join_again():
    before = commit(joined_cluster(nodes=3, tables=0), Assassinate(node=NodeId(2)))

    after = advanced_to(commit(before, prepare(2, 250)), Step.RETIRE)

    assert state_of(after, 2) is NodeState.JOINED
    assert after.ring.tokens == (100, 250, 300)


@pytest.mark.parametrize("make", [prepare, unsafe])
@pytest.mark.parametrize(
    ("node", "tokens", "reason"),
    [
        (9, (150,), Reason.UNKNOWN_NODE),
        (1, (150,), Reason.WRONG_STATE),
        (X, (150, 150), Reason.DUPLICATE_TOKEN),
        (X, (150, 200), Reason.TOKEN_TAKEN),
    ],
)
def test_refuses(make, node, tokens, reason):
    rejected(execute(make(node, *tokens), worked_example()), reason)


@pytest.mark.parametrize("make", [prepare, unsafe])
@pytest.mark.parametrize("step", [Step.PREPARE, Step.START, Step.MID, Step.FINISH, Step.CANCEL])
def test_a_node_is_in_one_sequence_at_a_time(make, step):
    before = in_step(worked_example(), SequenceKind.JOIN, step)

    refused = rejected(execute(make(X, 250), before), Reason.SEQUENCE_IN_PROGRESS)

    assert refused.sequence == only_sequence(before).id
    assert refused.step is only_sequence(before).due
    assert f"node {X} is busy" in refused.detail


def test_a_dead_node_does_not_join():
    refused = rejected(
        execute(prepare(X, 150, dead=(NodeId(X),)), worked_example()), Reason.WRONG_STATE
    )

    assert "dead" in refused.detail


def test_only_known_nodes_can_be_declared_dead():
    rejected(execute(prepare(X, 150, dead=(NodeId(9),)), worked_example()), Reason.UNKNOWN_NODE)


@pytest.mark.parametrize("replication", [None, Simple(1)])
@pytest.mark.parametrize("step", [Step.PREPARE, Step.START, Step.MID])
def test_refuses_a_token_on_its_way_to_another_node(replication, step):
    """Also where no keyspace makes ranges that locks could protect."""
    before = joined_cluster(nodes=3, replication=replication, spare=2)
    joining = advanced_to(commit(before, prepare(4, 150)), step)

    refused = rejected(execute(prepare(5, 150), joining), Reason.TOKEN_TAKEN)

    assert "on its way to node 4" in refused.detail
    assert refused.sequence == only_sequence(joining).id


def test_refuses_a_token_that_a_move_brings():
    before = joined_cluster(nodes=3, replication=None, spare=1)
    moving = commit(before, PrepareMove(node=NodeId(1), tokens=(Token(150),)))

    rejected(execute(prepare(4, 150), moving), Reason.TOKEN_TAKEN)
    rejected(execute(prepare(4, 100), moving), Reason.TOKEN_TAKEN)


def test_a_token_is_free_again_once_its_sequence_is_cancelled():
    before = joined_cluster(nodes=3, replication=None, spare=2)
    joining = commit(before, prepare(4, 150))

    after = commit(joining, CancelSequence(sequence=only_sequence(joining).id), prepare(5, 150))

    assert len(after.sequences.in_progress) == 2


def test_a_join_needs_enough_sources_alive():
    """Of three owners two are needed, unless the one that gives the range away is alive."""
    before = joined_cluster(nodes=4, spare=1)

    refused = rejected(
        execute(prepare(5, 150, dead=(NodeId(1), NodeId(2), NodeId(4))), before),
        Reason.SOURCES_LOST,
    )

    assert refused.ranges
    assert "2 are needed" in refused.detail
    assert refused.remedy is not None
    assert "accept_loss" in refused.remedy


def test_lost_sources_may_be_accepted():
    dead = (NodeId(1), NodeId(2), NodeId(4))
    before = joined_cluster(nodes=4, spare=1)

    after = commit(before, prepare(5, 150, dead=dead, accept_loss="they burned"))

    assert only_sequence(after).accept_loss == "they burned"
    assert only_sequence(after).dead == dead


def test_without_tables_no_source_can_be_lost():
    before = joined_cluster(nodes=4, spare=1, tables=0)

    commit(before, prepare(5, 150, dead=(NodeId(1), NodeId(2), NodeId(4))))


def test_an_unsafe_join_takes_ownership_in_one_epoch():
    before = joined_cluster(nodes=3, replication=Simple(2), spare=1, tables=0)

    outcome = accepted(execute(unsafe(X, 150), before))

    safely = advanced_to(commit(before, prepare(X, 150)), Step.RETIRE)
    assert reads(outcome.after) == writes(outcome.after) == reads(safely)
    assert state_of(outcome.after, X) is NodeState.JOINED
    assert outcome.after.epoch == before.epoch + 1
    assert not outcome.after.locks.held
    assert outcome.affected.of(Simple(2).key)


def test_an_unsafe_join_under_tables_needs_steps():
    refused = rejected(execute(unsafe(X, 150), worked_example()), Reason.NEEDS_STEPS)

    assert refused.ranges
    assert refused.remedy is not None
    assert "prepare a sequence" in refused.remedy


def test_an_unsafe_join_under_tables_goes_where_loss_is_accepted():
    after = commit(worked_example(), unsafe(X, 150, accept_loss="a test"))

    assert reads(after)[100, 150] == (B, X)


def test_an_unsafe_join_of_the_first_node_takes_nothing_over():
    before = commit(founded(), *keyspace(Simple(3)), registration(1))

    assert reads(commit(before, unsafe(1, 0)))


def test_an_unsafe_join_heeds_locks():
    before = joined_cluster(nodes=3, replication=Simple(2), spare=2, tables=0)
    joining = commit(before, prepare(4, 150))

    refused = rejected(execute(unsafe(5, 160), joining), Reason.RANGES_LOCKED)

    assert refused.sequence == only_sequence(joining).id


def test_nothing_is_locked_where_nothing_is_placed():
    before = joined_cluster(nodes=3, replication=None, spare=1)

    outcome = accepted(execute(prepare(X, 150), before))

    assert not outcome.affected
    assert outcome.after.placements is before.placements


def test_a_ring_where_nothing_is_placed_is_split_and_locked_all_the_same():
    nowhere = Network({"dc9": 3})
    before = joined_cluster(nodes=1, replication=nowhere, spare=1)

    outcome = accepted(execute(prepare(2, 150), before))

    assert set(reads(outcome.after).values()) == {()}
    assert (100, 150) in reads(outcome.after)
    assert [span.touches_minimum for span in outcome.affected.of(nowhere.key)] == [True]
    assert outcome.affected.of(nowhere.key) != (FULL,)
