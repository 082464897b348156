"""A driver takes every sequence to its end, from wherever it is, whatever dies meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest

from metadata.barriers import Level
from metadata.directory import NodeId, NodeState
from metadata.epoch import Epoch
from metadata.invariants import violations
from metadata.locks import SequenceId
from metadata.plans import Step
from metadata.sequences import SequenceKind
from metadata.tokens import FULL, Range, Token
from sequences.driver import World
from sequences.errands import Errands, Workers
from sequences.ports import Refused, WorkError
from sequences.status import Board, Doing, Status
from tests.builders import (
    accepted,
    applied_by,
    commit,
    honest_receipts,
    in_step,
    joined_cluster,
    only_sequence,
    preparation,
    rejected,
)
from transformations.cms import NewMember, PrepareCmsReconfiguration
from transformations.ending import CancelSequence, RetireSequence
from transformations.kinds import execute
from transformations.leave import PrepareLeave
from transformations.outcome import Reason, Rejected
from transformations.replace import PrepareReplace
from transformations.sessions import Errand, OpenSession

KINDS = list(SequenceKind)


class Town:
    """A cluster in memory: the pure core decides, and nodes apply as they are told to."""

    def __init__(self, metadata):
        self.metadata = metadata
        self.lagging = {}
        self.moves = 0
        self.moving = asyncio.Event()
        self.may_move = asyncio.Event()
        self.may_move.set()
        self.swept = []
        self.cleaned = []
        self.repaired = []
        self.steps = []
        self.rounds = []
        self._changed = asyncio.Event()

    def put(self, transformation):
        self.metadata = accepted(execute(transformation, self.metadata)).after
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def beyond(self, epoch, timeout_s):
        changed = self._changed
        if self.metadata.epoch <= epoch:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await changed.wait()

    async def commit(self, transformation, reason):  # noqa: ARG002 the port has it
        await asyncio.sleep(0)
        outcome = execute(transformation, self.metadata)
        if isinstance(outcome, Rejected):
            return Refused(outcome.reason.value, outcome.detail)
        self.put(transformation)
        self.steps.append(type(transformation).__name__)
        return self.metadata.epoch

    async def observe(self, nodes, epoch, timeout_s, told):  # noqa: ARG002 the port has them
        await asyncio.sleep(0.001)
        self.rounds.append(tuple(nodes))
        for node in nodes:
            if self.lagging.get(node) != "dead":
                told(node, self.lagging.get(node, self.metadata.epoch))

    async def move(self, metadata, sequence):
        self.moves += 1
        self.moving.set()
        await self.may_move.wait()
        return honest_receipts(metadata, sequence)

    async def sweep(self, sequence):
        self.swept.append(sequence.id)

    async def clean(self, session, node):
        self.cleaned.append((session.id, node))

    async def repair(self, metadata, session):
        self.repaired.append((metadata.epoch, session.ranges))


def unreported(key, error):
    raise AssertionError((key, error))


@contextlib.asynccontextmanager
async def driven(
    town,
    board=None,
    report=unreported,
    *,
    round_s=lambda _: 0.001,
    pause_s=lambda _: 0.01,
    level=Level.EACH_QUORUM,
):
    world = World(town, town, town, asyncio.get_running_loop().time, pause_s, round_s, level)
    task = asyncio.create_task(Errands(world, Workers(town, town), board or Board(), report).run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 any condition
            await asyncio.sleep(0.002)


def is_quiet(town):
    found = town.metadata
    return not found.sequences.in_progress and not found.sessions.open


def prepared(kind, nodes=5):
    metadata = joined_cluster(nodes=nodes, spare=1)
    return Town(commit(metadata, preparation(metadata, kind)))


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_sequence_ends(kind):
    town = prepared(kind)

    async with driven(town):
        await until(lambda: is_quiet(town))

    assert town.moves == 1
    assert not town.metadata.locks.held
    assert list(violations(town.metadata)) == []
    assert town.steps[:3] == [f"{step}{kind.value.title()}" for step in ("Start", "Mid", "Finish")]


async def test_what_is_left_behind_is_noted_before_the_sequence_is_gone():
    """A driver that dies right after RETIRE must leave a trace of what is to be cleaned."""
    town = prepared(SequenceKind.JOIN)

    async with driven(town):
        await until(lambda: is_quiet(town))

    assert town.steps[3:] == ["OpenSession", "RetireSequence", "CloseSession"]
    assert town.cleaned


async def test_what_is_retired_without_dead_nodes_is_cleaned_up_all_the_same():
    """An operator ends what waits for a node that died; the driver goes on from there."""
    town = Town(in_step(joined_cluster(nodes=5, spare=1), SequenceKind.JOIN, Step.FINISH))
    sequence = only_sequence(town.metadata)
    town.lagging = dict.fromkeys(town.metadata.directory.nodes, "dead")
    board = Board()

    async with driven(town, board):
        await until(lambda: board.find(sequence.id) and town.rounds)
        dead = tuple(NodeId(node) for node in town.metadata.directory.nodes if node != 6)
        town.put(RetireSequence(sequence=sequence.id, dead=dead, barrier=applied_by(6)))
        await until(lambda: is_quiet(town))

    assert town.steps == ["OpenSession", "CloseSession"]
    assert town.cleaned
    assert board.all() == []


async def test_a_barrier_waits_for_named_nodes_and_goes_on_when_they_are_back():
    town = prepared(SequenceKind.JOIN)
    others = [node for node in town.metadata.directory.nodes if node != 6]
    town.lagging = dict.fromkeys(others[:3], Epoch(1))
    board = Board()
    sequence = only_sequence(town.metadata).id
    status: Any

    async with driven(town, board):
        await until(lambda: (found := board.find(sequence)) and found.doing is Doing.WAITING)
        status = board.find(sequence)
        assert status.step is Step.START
        assert {node for item in status.waiting for node in item.missing} >= set(others[:3])
        assert town.steps == []

        town.lagging = {}
        await until(lambda: is_quiet(town))

    assert board.all() == []


async def test_a_closed_port_is_asked_more_and_more_rarely_until_something_happens():
    """It refuses at once, and so does every round that waits for nobody else."""
    town = prepared(SequenceKind.JOIN)
    well, late, *gone = town.metadata.directory.nodes
    town.lagging = dict.fromkeys((late, *gone), "dead")
    quiet = []

    def round_s(so_many):
        quiet.append(so_many)
        if quiet == [1, 2, 3]:
            town.lagging = dict.fromkeys(gone, "dead")
        return 0.0 if len(quiet) < 6 else 3600.0

    async with driven(town, round_s=round_s):
        await until(lambda: len(quiet) == 6)
        for _ in range(100):
            await asyncio.sleep(0)
        rounds = list(town.rounds)

    assert quiet == [1, 2, 3, 1, 2, 3], "the fifth round brought something new"
    assert len(rounds) == 8
    assert set(rounds[0]) > {well, late}
    assert all(well not in asked for asked in rounds[1:]), "it has applied the epoch"
    assert all((late in asked) == (asked in rounds[:5]) for asked in rounds)


async def test_a_minority_that_lags_does_not_hold_it_up():
    town = prepared(SequenceKind.LEAVE)
    town.lagging = {NodeId(5): "dead"} if only_sequence(town.metadata).node != 5 else {}

    async with driven(town):
        await until(lambda: not town.metadata.sequences.in_progress)


async def test_a_cancel_stops_the_movement_and_turns_back():
    town = prepared(SequenceKind.JOIN)
    town.may_move.clear()
    sequence = only_sequence(town.metadata)

    async with driven(town):
        await until(town.moving.is_set)
        town.put(CancelSequence(sequence=sequence.id))
        await until(lambda: is_quiet(town))

    assert town.swept == [sequence.id]
    assert town.metadata.directory.nodes[sequence.node].state is NodeState.REGISTERED
    assert "MidJoin" not in town.steps


async def test_a_failing_movement_says_why_and_is_tried_again():
    town = prepared(SequenceKind.MOVE)
    board = Board()
    sequence = only_sequence(town.metadata).id
    status: Any
    broken, town.move = town.move, None

    async def fails(metadata, sequence):
        raise WorkError("Spark does not answer")

    town.move = fails
    async with driven(town, board):
        await until(lambda: (found := board.find(sequence)) and found.doing is Doing.STUCK)
        status = board.find(sequence)
        assert "Spark does not answer" in status.detail
        assert status.failures >= 1
        town.move = broken
        await until(lambda: is_quiet(town))


@pytest.mark.parametrize("kind", KINDS)
async def test_two_drivers_do_no_harm(kind):
    town = prepared(kind)

    async with driven(town), driven(town):
        await until(lambda: not town.metadata.sequences.in_progress)
        await until(lambda: is_quiet(town))

    assert town.steps.count(f"Mid{kind.value.title()}") == 1
    assert list(violations(town.metadata)) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_driver_that_dies_anywhere_is_succeeded_from_the_metadata_alone(kind):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    town = prepared(kind)
    for _ in range(200):
        async with driven(town):
            for _ in range(chance.randrange(1, 12)):
                await asyncio.sleep(0)
            await asyncio.sleep(chance.random() * 0.004)
        if is_quiet(town):
            break

    assert is_quiet(town), town.metadata.sequences.in_progress
    assert list(violations(town.metadata)) == []


async def test_members_of_the_cms_change_one_at_a_time():
    town = Town(
        commit(
            joined_cluster(nodes=1),
            PrepareCmsReconfiguration(
                add=(NewMember("a", "http://127.0.0.1:1"), NewMember("b", "http://127.0.0.1:2"))
            ),
        )
    )

    async with driven(town):
        await until(lambda: town.metadata.cms.reconfiguration is None)

    assert sorted(town.metadata.cms.members) == ["a", "b"]


async def test_a_repair_is_done_and_its_session_closed():
    metadata = joined_cluster(nodes=4)
    ring = (Range(Token(-(2**63)), Token(-(2**63))),)
    opening = OpenSession(purpose=Errand.REPAIR, nodes=tuple(metadata.directory.nodes), ranges=ring)
    town = Town(commit(metadata, opening))

    async with driven(town):
        await until(lambda: is_quiet(town))

    assert town.repaired == [(metadata.epoch + 1, ring)]
    assert town.steps == ["CloseSession"]


async def test_cleaning_that_fails_is_reported_and_tried_again():
    town = prepared(SequenceKind.JOIN)
    reported = []
    cleaned = town.clean

    async def fails(session, node):
        town.clean = cleaned
        raise WorkError(f"node {node} does not answer")

    town.clean = fails
    async with driven(town, report=lambda key, error: reported.append((key[0], error))):
        await until(lambda: is_quiet(town))

    assert [key for key, _ in reported] == ["cleanup"]


async def with_one_down(town, reported):
    """Cleaning fails on the first node of the session, and is done on all others."""
    cleaned = town.clean

    async def clean(session, node):
        if node == min(sum((item.nodes for item in town.metadata.sessions.open.values()), ())):
            raise WorkError(f"node {node} does not answer")
        await cleaned(session, node)

    town.clean = clean
    async with driven(town, report=lambda key, error: reported.append((key, error))):
        await until(lambda: town.cleaned and "CloseSession" in town.steps)
    town.clean = cleaned
    return NodeId(min(session_nodes(town)))


def session_nodes(town):
    return [node for session in town.metadata.sessions.open.values() for node in session.nodes]


async def test_a_node_that_is_down_keeps_nobody_else_from_cleaning_up():
    town = prepared(SequenceKind.JOIN)
    reported: list[Any] = []

    down = await with_one_down(town, reported)

    assert town.steps[3:7] == ["OpenSession", "RetireSequence", "OpenSession", "CloseSession"]
    assert session_nodes(town) == [down]
    assert len({node for _, node in town.cleaned}) > 1
    assert f"node {down} does not answer" in reported[0][1]


@pytest.mark.parametrize("replaces", [True, False])
async def test_a_node_that_died_before_it_cleaned_up_can_be_removed_and_is_not_asked(replaces):
    """Others that have cleaned up take its place, also of the same ranges."""
    metadata = joined_cluster(nodes=5, spare=2)
    town = Town(commit(metadata, preparation(metadata, SequenceKind.JOIN)))
    down = await with_one_down(town, [])
    town.cleaned.clear()
    town.lagging = {down: "dead"}
    gone: Any = PrepareLeave(node=down, dead=(down,))
    if replaces:
        gone = PrepareReplace(node=NodeId(7), replaced=down, dead=(down,))

    town.put(gone)
    async with driven(town):
        await until(lambda: is_quiet(town))

    assert town.metadata.directory.nodes[down].state is NodeState.LEFT
    assert down not in {node for _, node in town.cleaned}


async def test_what_others_leave_to_a_node_that_has_not_cleaned_up_is_still_refused():
    town = prepared(SequenceKind.JOIN)
    down = await with_one_down(town, [])

    outcome = execute(PrepareLeave(node=NodeId(6)), town.metadata)

    assert f"node {down} is cleaning up" in rejected(outcome, Reason.CLEANUP_OPEN).detail


async def test_nobody_is_cleaned_while_the_ranges_move():
    """Not even who is tried again because it did not answer before."""
    town: Any = Town(joined_cluster(nodes=5, spare=1))
    tried: list[bool] = []
    reported: list[Any] = []
    town.put(OpenSession(purpose=Errand.CLEANUP, nodes=(NodeId(1),), ranges=(FULL,)))
    town.may_move.clear()

    async def fails(session, node):
        tried.append(bool(town.metadata.locks.held))
        raise WorkError(f"node {node} does not answer to {session.id}")

    town.clean = fails
    async with driven(town, report=lambda *said: reported.append(said)):
        await until(lambda: reported)
        town.put(preparation(town.metadata, SequenceKind.JOIN))
        await until(town.moving.is_set)
        await asyncio.sleep(0.05)

    assert True not in tried


async def test_a_session_that_does_not_go_on_says_why_since_when_and_for_whom():
    town: Any = Town(joined_cluster(nodes=3))
    town.put(OpenSession(purpose=Errand.CLEANUP, nodes=(NodeId(2),), ranges=(FULL,)))
    board, reported = Board(), []
    cleaned = town.clean

    async def fails(session, node):
        raise WorkError(f"node {node} does not answer to {session.id}")

    town.clean = fails
    async with driven(town, board, report=lambda *_: reported.append(board.sessions())):
        await until(lambda: len(reported) > 2)
        (first,), (second,) = reported[1:3]
        assert (second.doing, second.nodes, second.failures) == (Doing.STUCK, (2,), 2)
        assert "node 2 does not answer" in second.detail
        assert first.since_s == second.since_s
        town.clean = cleaned
        await until(lambda: is_quiet(town))
        await until(lambda: not board.sessions())


async def test_a_session_whose_ranges_move_says_for_what_it_waits():
    town = prepared(SequenceKind.JOIN)
    town.put(OpenSession(purpose=Errand.CLEANUP, nodes=(NodeId(2),), ranges=(FULL,)))
    town.may_move.clear()
    board = Board()

    async with driven(town, board):
        await until(town.moving.is_set)
        (said,) = board.sessions()

    assert said.doing is Doing.WAITING
    assert f"sequence {only_sequence(town.metadata).id}" in said.detail


def status(doing, since_s, failures=0, step=Step.MID):
    return Status(
        sequence=SequenceId(7), step=step, doing=doing, since_s=since_s, failures=failures
    )


def test_what_is_tried_again_and_again_has_been_stuck_all_the_while():
    board = Board()
    for found in (
        status(Doing.MOVING, 1.0),
        status(Doing.STUCK, 5.0, failures=1),
        status(Doing.MOVING, 6.0, failures=1),
        status(Doing.STUCK, 9.0, failures=2),
    ):
        board.put(found)
    assert [item.since_s for item in board.all()] == [5.0]

    board.put(status(Doing.WAITING, 12.0, step=Step.FINISH))

    assert [item.since_s for item in board.all()] == [12.0]
