"""Rows are read and written while ranges move, step by step: no acknowledged write is missed."""

from __future__ import annotations

import asyncio
import random
import shutil
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from metadata.barriers import Evidence, Level
from metadata.directory import NodeId
from metadata.plans import Step
from metadata.sequences import SequenceKind
from metadata.tokens import FULL, Token
from tests.builders import STEPS, honest_receipts
from tests.integration.data_cluster import data_cluster
from tests.integration.nodes import get
from transformations.ending import CancelSequence, RetireSequence
from transformations.join import PrepareJoin
from transformations.leave import PrepareLeave
from transformations.move import PrepareMove
from transformations.replace import PrepareReplace
from transformations.sessions import CloseSession, Errand, OpenSession

GOING = {SequenceKind.LEAVE: {1}, SequenceKind.REPLACE: {2}}
KEYS = [f"k{number}" for number in range(40)]
TURNS = 12
"""Writes and reads of each client in each step."""
PREPARED = {
    SequenceKind.JOIN: PrepareJoin(node=NodeId(5), tokens=(Token(12345),)),
    SequenceKind.LEAVE: PrepareLeave(node=NodeId(1)),
    SequenceKind.MOVE: PrepareMove(node=NodeId(2), tokens=(Token(12345),)),
    SequenceKind.REPLACE: PrepareReplace(node=NodeId(5), replaced=NodeId(2)),
}


@pytest.fixture
async def five(database, tmp_path):
    """Four nodes that own everything, and a spare one."""
    async with data_cluster(database, tmp_path, nodes=4, spare=1) as made:
        yield made


class Clients:
    """Each key has one writer, which counts up; a read must not be behind what it acknowledged."""

    def __init__(self, cluster, seed):
        self.cluster = cluster
        self.acknowledged = dict.fromkeys(KEYS, 0)
        self.going = set()
        """Nodes that stop serving when their sequence is retired, and not before."""
        self._random = random.Random(seed)
        self._next = dict.fromkeys(KEYS, 0)

    def anyone(self):
        return self._random.choice(sorted(set(self.cluster.nodes) - self.going))

    async def write(self, key):
        self._next[key] += 1
        value = self._next[key]
        status, answer = await self.cluster.put(key, {"a_bigint": value}, number=self.anyone())
        assert status == 200, answer
        self.acknowledged[key] = value

    async def read(self, key):
        least = self.acknowledged[key]
        status, found = await self.cluster.get(key, number=self.anyone())
        assert status == 200, found
        assert found["columns"]["a_bigint"] >= least, key

    async def run(self, keys):
        for _ in range(TURNS):
            key = self._random.choice(keys)
            await self.write(key)
            await self.read(self._random.choice(KEYS))

    async def fill(self):
        for key in KEYS:
            await self.write(key)


@asynccontextmanager
async def traffic(clients):
    """Clients are busy before, during and after what the block does."""
    async with asyncio.TaskGroup() as group:
        for index in range(3):
            group.create_task(clients.run(KEYS[index::3]))
        yield


async def barrier(cluster):
    """Everybody who runs has applied the tip, in the sense of a barrier."""
    tip = cluster.home.applied.metadata.epoch
    for subject in cluster.nodes.values():
        _, found = await get(f"{subject.url}/v1/epoch?at_least={tip}&drained=true&wait=20")
        assert found["drained"] >= tip
    return Evidence(Level.EACH_QUORUM, tuple(map(NodeId, sorted(cluster.nodes))))


def sequence_of(cluster):
    (found,) = cluster.home.applied.metadata.sequences.in_progress.values()
    return found


async def advance(cluster, clients):
    """Commit the step that is due while clients are busy."""
    sequence = sequence_of(cluster)
    if sequence.last is Step.FINISH:
        clients.going = GOING.get(sequence.kind, set())
        for number in cluster.nodes:
            assert (await cluster.get("k1", number=number))[0] == 200, "it serves until then"
    async with traffic(clients):
        evidence = await barrier(cluster)
        if sequence.due is Step.RETIRE:
            step = RetireSequence(sequence=sequence.id, barrier=evidence)
        elif sequence.due is Step.MID:
            receipts = await moved(cluster, sequence)
            step = STEPS[sequence.kind][1](
                sequence=sequence.id, barrier=evidence, receipts=receipts
            )
        else:
            kind = STEPS[sequence.kind][0 if sequence.due is Step.START else 2]
            step = kind(sequence=sequence.id, barrier=evidence)
        outcome = await cluster.home.commit(step)
        assert hasattr(outcome, "epoch"), outcome
    await cluster.everywhere(outcome.epoch)
    await written_by_all(cluster, clients)


async def written_by_all(cluster, clients):
    """Those who own a range and those who will are written to, all of them."""
    status, answer = await cluster.put("all", {}, clients.anyone(), "?consistency=all")
    assert status == 200, answer
    for number in cluster.writers("all"):
        assert await cluster.held(number, "all") is not None


async def moved(cluster, sequence):
    """What a movement does, with files copied by hand; receipts as if it had counted."""
    metadata = cluster.home.applied.metadata
    for change, target in (pair for plan in sequence.plans for pair in plan.gains()):
        span = [{"left": change.range.left, "right": change.range.right}]
        flush = {
            "session": sequence.session,
            "epoch": sequence.last_epoch,
            "tables": [1],
            "ranges": span,
        }
        for source in change.before:
            status, flushed = await cluster.internal("flush", flush, source)
            assert status == 200, flushed
            await copied(cluster, sequence.session, target, (span, flushed["segments"]))
    return honest_receipts(metadata, sequence)


async def copied(cluster, session, target, what):
    ranges, segments = what
    _, staging = await cluster.internal("staging", {"session": session}, target)
    folder = Path(staging["uri"]) / uuid4().hex
    await asyncio.to_thread(folder.mkdir)
    files = []
    for number, segment in enumerate(segments):
        path = folder / f"{number}.parquet"
        await asyncio.to_thread(shutil.copy, segment["path"], path)
        files.append(
            {"path": str(path), "bytes": segment["bytes"], "checksum": segment["checksum"]}
        )
    message = {
        "session": session,
        "name": folder.name,
        "table": 1,
        "ranges": ranges,
        "files": files,
    }
    status, answer = await cluster.internal("import", message, target)
    assert (status, answer) == (200, {"registered": True}), answer


async def cleaned(cluster):
    """Every node deletes what is not its own."""
    nodes = tuple(map(NodeId, sorted(cluster.nodes)))
    opening = OpenSession(purpose=Errand.CLEANUP, nodes=nodes, ranges=(FULL,))
    session = (await cluster.commit(opening)).epoch
    span = [{"left": FULL.left, "right": FULL.right}]
    for node in nodes:
        status, answer = await cluster.internal(
            "cleanup", {"session": session, "ranges": span}, node
        )
        assert status == 200, answer
    await cluster.commit(CloseSession(session=session))


async def verify(cluster, clients):
    for key in KEYS:
        for number in cluster.nodes:
            _, found = await cluster.get(key, number=number)
            assert found["columns"]["a_bigint"] == clients.acknowledged[key]
    await cleaned(cluster)
    for key in KEYS:
        holders = {n for n in cluster.nodes if await cluster.held(n, key) is not None}
        owners = set(cluster.owners(key))
        assert holders <= owners
        assert len(holders) > len(owners) // 2


@pytest.mark.parametrize("kind", SequenceKind)
async def test_no_acknowledged_write_is_missed_while_a_sequence_goes_forward(five, kind):
    seed = random.randrange(10**6)
    print("seed", seed)
    clients = Clients(five, seed)
    await clients.fill()
    async with traffic(clients):
        await five.commit(PREPARED[kind])
    while five.home.applied.metadata.sequences.in_progress:
        await advance(five, clients)
    for number in clients.going:
        status, problem = await five.get("k1", number=number)
        assert (status, problem["code"]) == (503, "unavailable")
        await five.stop(number)
    await clients.run(KEYS)
    await verify(five, clients)


@pytest.mark.parametrize("steps", [1, 2])
async def test_nor_while_it_is_cancelled(five, steps):
    """After START or after MID, with clients that go on."""
    seed = random.randrange(10**6)
    print("seed", seed)
    clients = Clients(five, seed)
    await clients.fill()
    await five.commit(PREPARED[SequenceKind.REPLACE])
    for _ in range(steps):
        await advance(five, clients)
    async with traffic(clients):
        await five.home.commit(CancelSequence(sequence=sequence_of(five).id))
    await advance(five, clients)
    assert not five.home.applied.metadata.sequences.in_progress
    await verify(five, clients)
    assert 5 not in five.owners("k1")
