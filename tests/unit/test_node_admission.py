"""When a node has applied an epoch, and what a coordinator makes of answers."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.replicas import Consistency, Replicas
from metadata.schema import TableId
from metadata.tokens import Token
from services.node.data.admission import Admission
from services.node.data.gate import Gate
from services.node.data.replica import refusal
from services.node.data.tallies import ReadTally, WriteTally
from services.node.data.timestamps import Timestamps
from store.rows import Row


def owners(*numbers):
    return tuple(map(NodeId, numbers))


THREE = Replicas(
    readers=owners(1, 2, 3),
    writers=owners(1, 2, 3),
    write_groups=(owners(1, 2, 3),),
    read_epoch=Epoch(5),
    write_epoch=Epoch(7),
)


def test_an_idle_node_has_applied_what_it_has_published():
    assert Admission().drained(Epoch(7)) == 7


@given(st.lists(st.integers(1, 9), max_size=8), st.data())
def test_a_node_has_applied_an_epoch_when_nothing_older_runs(admitted, data):
    """Whatever is admitted and released, in any order."""
    admission = Admission()
    watermark = 0
    running = []
    for epoch in sorted(admitted):
        watermark = epoch
        admission.admit(Epoch(epoch))
        running.append(epoch)
        if data.draw(st.booleans()):
            ended = data.draw(st.sampled_from(running))
            running.remove(ended)
            admission.release(Epoch(ended))
        drained = admission.drained(Epoch(watermark))
        assert drained <= watermark
        assert not any(older < drained for older in running)
        assert drained == watermark or drained in running
    assert admission.running == len(running)


async def test_whoever_waits_for_the_gate_goes_on_when_the_last_old_one_has_left():
    gate = Gate(lambda: Epoch(6))
    gate.admit(Epoch(5))
    gate.admit(Epoch(5))
    gate.admit(Epoch(6))
    assert (gate.drained, gate.running) == (5, 3)
    assert not await gate.wait_drained(Epoch(6), 0.01)
    waiting = asyncio.ensure_future(gate.wait_drained(Epoch(6), 5.0))
    gate.release(Epoch(5))
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.release(Epoch(5))
    assert await waiting
    assert gate.drained == 6


def test_a_replica_refuses_whoever_chose_it_by_older_owners():
    for node in (1, 4):
        assert refusal(THREE, NodeId(node), Epoch(6), is_write=True) == "coordinator_behind"
        assert refusal(THREE, NodeId(node), Epoch(4), is_write=False) == "coordinator_behind"
    assert refusal(THREE, NodeId(1), Epoch(7), is_write=True) is None
    assert refusal(THREE, NodeId(1), Epoch(5), is_write=False) is None
    assert refusal(THREE, NodeId(4), Epoch(7), is_write=True) == "not_owner"
    assert refusal(THREE, NodeId(4), Epoch(7), is_write=False) == "not_owner"
    assert refusal(None, NodeId(1), Epoch(7), is_write=False) == "coordinator_behind"


def row(timestamp, digest=0):
    return Row(
        table=TableId(1),
        token=Token(1),
        key="k",
        timestamp=timestamp,
        digest=digest,
        content=b"\x80",
    )


def test_a_node_that_holds_a_newer_row_has_taken_in_the_older_one():
    tally = WriteTally(THREE, Consistency.QUORUM)
    tally.acknowledge(NodeId(1), 40)
    assert not tally.is_met
    tally.acknowledge(NodeId(2), 30)
    assert (tally.is_met, tally.held_us) == (True, 40)


def test_a_write_is_unknown_only_if_somebody_may_have_it():
    tally = WriteTally(THREE, Consistency.QUORUM)
    tally.lose(NodeId(1), "away", may_have_arrived=False)
    tally.shortage.refused(NodeId(2), "coordinator_behind", Epoch(9))
    assert (tally.may_be_written, tally.shortage.behind) == (False, 9)
    assert "node 1: away; node 2: coordinator_behind at epoch 9" in tally.shortage.told()
    tally.lose(NodeId(3), "silent", may_have_arrived=True)
    assert tally.may_be_written


def test_acknowledgements_are_counted_again_by_the_owners_of_now():
    tally = WriteTally(THREE, Consistency.QUORUM)
    for node in (1, 2):
        tally.acknowledge(NodeId(node))
    moving = Replicas(
        readers=owners(1, 2, 3),
        writers=owners(1, 2, 3, 4),
        write_groups=(owners(1, 2, 3), owners(2, 3, 4)),
        read_epoch=Epoch(5),
        write_epoch=Epoch(8),
    )
    assert tally.is_met
    assert not tally.is_met_by(moving)
    assert not tally.is_met_by(None)


def test_the_newest_of_the_answers_wins_and_its_holders_are_known():
    tally = ReadTally(THREE, Consistency.QUORUM)
    tally.rows[NodeId(1)] = None
    assert not tally.is_met
    assert tally.would_be_met({NodeId(2)})
    tally.rows[NodeId(2)] = row(5, 1)
    assert (tally.is_met, tally.newest, tally.holders) == (True, row(5, 1), {2})
    tally.rows[NodeId(3)] = row(5, 2)
    assert (tally.newest, tally.holders) == (row(5, 2), {3})
    assert tally.is_met_by(THREE)
    assert not tally.is_met_by(None)


def test_no_timestamp_is_given_twice():
    clock = iter([10, 10, 3])
    timestamps = Timestamps(lambda: next(clock))
    assert [timestamps.following() for _ in range(3)] == [10, 11, 12]


def test_a_timestamp_from_the_future_moves_no_other():
    clock = iter([10, 11, 12, 13])
    timestamps = Timestamps(lambda: next(clock))
    assert timestamps.following() == 10
    assert timestamps.beating(70) == 71
    assert timestamps.following() == 12
    assert timestamps.beating(5) == 13
