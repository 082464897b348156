"""The barrier that a driver waits at is the one that the log asks for, at every level."""

from __future__ import annotations

import random
from typing import Any

import pytest

from metadata.barriers import Level
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.plans import Step
from metadata.schema import Network
from metadata.sequences import SequenceKind
from sequences.barrier import barrier_before
from sequences.status import Board, Doing
from tests.builders import advanced_to, in_step, joined_cluster, only_sequence, spread
from tests.unit.test_sequences_driver import Town, driven, is_quiet, prepared, until
from transformations.ending import CancelSequence
from transformations.stepping import barrier_refused

STEPS = [Step.PREPARE, Step.START, Step.MID, Step.FINISH, Step.CANCEL]
TWO_DATACENTERS = Network({"dc1": 3, "dc2": 3})
DRAWS = 10


def moving(kind: SequenceKind, step: Step):
    places = spread(9, datacenters=2, racks=2)
    cluster = joined_cluster(8, TWO_DATACENTERS, spare=1, places=places)
    if step is Step.CANCEL:
        return advanced_to(in_step(cluster, kind, Step.MID), step)
    return in_step(cluster, kind, step)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("kind", SequenceKind)
def test_it_passes_when_the_log_takes_its_evidence_and_not_before(kind, level, step):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    metadata = moving(kind, step)
    sequence = only_sequence(metadata)
    outcomes = set()
    for _ in range(DRAWS):
        barrier = barrier_before(metadata, sequence, level)
        nodes = list(metadata.directory.nodes)
        chance.shuffle(nodes)
        for node in nodes:
            lags = chance.random() < 0.02
            barrier.observe(node, Epoch(barrier.epoch - 1) if lags else barrier.epoch)
            refused = barrier_refused(metadata, sequence, barrier.evidence)
            assert barrier.passed is (refused is None), refused
            assert barrier.passed is not bool(barrier.waiting())
            outcomes.add(barrier.passed)
    assert outcomes == {True, False}


@pytest.mark.parametrize("level", Level)
async def test_the_level_is_recorded_with_every_step(level):
    town: Any = prepared(SequenceKind.JOIN)
    recorded, plain = [], town.commit

    async def commit(transformation, reason):
        if getattr(transformation, "barrier", None) is not None:
            recorded.append(transformation.barrier.level)
        return await plain(transformation, reason)

    town.commit = commit
    async with driven(town, level=level):
        await until(lambda: is_quiet(town))

    assert recorded == [level] * 4


@pytest.mark.parametrize("level", [Level.EACH_QUORUM, Level.QUORUM])
async def test_one_target_that_has_not_seen_the_session_end_is_waited_for_by_name(level):
    """At any level: it could still import. Whoever turns back without it declares it dead."""
    town = Town(in_step(joined_cluster(nodes=5, spare=1), SequenceKind.JOIN, Step.MID))
    sequence = only_sequence(town.metadata)
    target = sequence.node
    town.lagging = {target: Epoch(sequence.last_epoch - 1)}
    board = Board()

    async with driven(town, board, level=level):
        await until(lambda: len(town.rounds) > 3)
        (said,) = board.all()
        assert said.doing is Doing.WAITING
        assert [(item.missing, item.all_of) for item in said.waiting] == [((target,), True)]
        assert town.steps == []

        town.put(CancelSequence(sequence=sequence.id))
        await until(lambda: (found := board.find(sequence.id)) and found.step is Step.RETIRE)
        assert "RetireSequence" not in town.steps
        town.put(CancelSequence(sequence=sequence.id, dead=(NodeId(target),)))
        await until(lambda: not town.metadata.sequences.in_progress)
