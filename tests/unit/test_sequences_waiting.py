"""What a driver waits for may change while it waits, and may not be due any more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from metadata.sequences import SequenceKind
from metadata.sessions import SessionId
from metadata.tokens import FULL
from sequences.ports import WorkError
from sequences.status import Board, Doing
from tests.builders import joined_cluster, only_sequence, preparation
from tests.unit.test_sequences_driver import Town, driven, is_quiet, prepared, until
from transformations.ending import CancelSequence
from transformations.extensions import SetExtension
from transformations.schema import DropTable
from transformations.sessions import CloseSession, Errand, OpenSession


def deaf(town: Town) -> None:
    town.lagging = dict.fromkeys(town.metadata.directory.nodes, "dead")


async def test_a_barrier_that_nobody_needs_any_more_is_not_waited_for():
    """Its voters are those of tables; the last one may go while it is waited for."""
    town = prepared(SequenceKind.JOIN)
    deaf(town)
    board = Board()
    sequence = only_sequence(town.metadata).id

    async with driven(town, board):
        await until(lambda: (found := board.find(sequence)) and found.doing is Doing.WAITING)
        town.put(DropTable(keyspace="shop", name="t1"))
        await until(lambda: is_quiet(town))

    assert town.steps == ["StartJoin", "MidJoin", "FinishJoin", "RetireSequence"]


async def test_who_has_applied_the_epoch_is_not_asked_again_when_other_entries_come():
    town = prepared(SequenceKind.JOIN)
    well, *gone = town.metadata.directory.nodes
    town.lagging = dict.fromkeys(gone, "dead")

    async with driven(town):
        await until(lambda: len(town.rounds) > 1)
        town.put(SetExtension(name="x", value="y"))
        await until(lambda: len(town.rounds) > 6)

    assert well in town.rounds[0]
    assert all(well not in asked for asked in town.rounds[1:])


async def test_a_driver_that_is_stopped_while_a_cancelled_movement_ends_does_stop():
    town: Any = prepared(SequenceKind.JOIN)
    ending = asyncio.Event()

    async def slow_to_end(metadata, sequence):
        town.moving.set()
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await asyncio.sleep(0.05)

    town.move = slow_to_end
    async with driven(town):
        await until(town.moving.is_set)
        deaf(town)
        # Were it to go on, it would wait at the next barrier until they answer.
        asyncio.get_running_loop().call_later(5.0, town.lagging.clear)
        town.put(CancelSequence(sequence=only_sequence(town.metadata).id))
        await until(ending.is_set)

    assert "RetireSequence" not in town.steps


async def test_a_cancel_is_not_kept_waiting_by_the_pause_after_a_failure():
    town: Any = prepared(SequenceKind.JOIN)
    board = Board()
    sequence = only_sequence(town.metadata).id

    async def fails(metadata, sequence):
        raise WorkError("Spark does not answer")

    town.move = fails
    async with driven(town, board, pause_s=lambda _: 3600.0):
        await until(lambda: (found := board.find(sequence)) and found.doing is Doing.STUCK)
        town.put(CancelSequence(sequence=sequence))
        await until(lambda: is_quiet(town))


@pytest.mark.parametrize("is_closed", [True, False])
async def test_a_repair_that_is_not_due_any_more_is_stopped(is_closed):
    """Its session was closed, or a sequence has begun to move its ranges."""
    town: Any = Town(joined_cluster(nodes=4, spare=1))
    nodes = tuple(town.metadata.directory.nodes)
    town.put(OpenSession(purpose=Errand.REPAIR, nodes=nodes, ranges=(FULL,)))
    repairing, stopped = asyncio.Event(), asyncio.Event()

    async def endless(metadata, session):
        repairing.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    quick, town.repair = town.repair, endless
    async with driven(town):
        await until(repairing.is_set)
        town.repair = quick
        if is_closed:
            town.put(CloseSession(session=SessionId(town.metadata.epoch)))
        else:
            town.put(preparation(town.metadata, SequenceKind.JOIN))
        await until(stopped.is_set)
        await until(lambda: is_quiet(town))

    assert len(town.repaired) == (0 if is_closed else 1)
