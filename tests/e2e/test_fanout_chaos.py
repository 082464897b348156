"""Nodes under a fan-out that lies, with everything around them dying: late perhaps, never wrong."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from uuid import uuid4

import aiohttp
import pytest

from client.client import Client
from client.errors import ClientError
from client.proposals import Proposal, new_entry_id
from log.follower import Fault
from log.replay import NOTHING_APPLIED, replay
from services.local import kafka
from services.local.ports import ADDRESS, HeldPorts
from tests.e2e.cluster import cluster
from tests.e2e.mangler import Mangler
from tests.e2e.nodes import Life, NodeProcess, Published
from tests.fixtures.postgres import server_folder
from tests.golden.history import history
from transformations.extensions import SetExtension
from transformations.initialize import Initialize, TriggerSnapshot

NODES = 3
COMMITTERS = 4
CHAOS_FOR_S = float(os.environ.get("FANOUT_FOR_S") or 30.0)
EQUAL_TIMEOUT_S = 90.0
MET_TIMEOUT_S = 60.0
PAUSE_S = 0.05
BATCH_MAX = 20
KINDS = ("kill", "restore", "trim", "damage", "broker")
WEIGHTS = (6, 2, 2, 2, 1)
MANGLED = "ringlog.mangled"
FORGED = {
    Fault.UNREADABLE: "not_avro",
    Fault.WRONG_CLUSTER: "stranger",
    Fault.WRONG_HASH: "bad_hash",
    Fault.FROM_THE_FUTURE: "future",
}
"""What somebody has to have met by the end, and what it comes from."""
TROUBLE = ("Traceback", "request_failed", "listener_failed", "never retrieved")


@pytest.fixture
def seed():
    found = int(os.environ.get("FANOUT_SEED") or random.SystemRandom().randrange(2**32))
    print(f"FANOUT_SEED={found}")
    return found


class Broker:
    """A broker that is killed and comes back at the same port."""

    def __init__(self, folder, server):
        self.server = server
        self._folder = folder

    async def crash(self):
        os.kill(self.server.pid, signal.SIGKILL)
        self.server = await kafka.start(self._folder, self.server.port)


@asynccontextmanager
async def fanned_out():
    """Postgres, Kafka, two CMS that publish to it, and nodes that hear only the mangled topic."""
    async with AsyncExitStack() as stack:
        ports = stack.enter_context(HeldPorts())
        folder = stack.enter_context(server_folder())
        server = await stack.enter_async_context(kafka.running(folder))
        subject = await stack.enter_async_context(
            cluster(2, more={"RINGLOG_KAFKA": server.bootstrap})
        )
        async with Client(subject.url) as client:
            await client.commit(Initialize(name="chaos"))
        nodes = []
        for number in range(1, NODES + 1):
            name, own = f"node-{number}", f"{ADDRESS}:{ports.hold()}"
            environment = {
                "RINGLOG_NAME": name,
                "RINGLOG_LISTEN": own,
                "RINGLOG_SEEDS": ",".join(cms.url for cms in subject.members),
                "RINGLOG_KAFKA": server.bootstrap,
                "RINGLOG_KAFKA_TOPIC": MANGLED,
            }
            made = NodeProcess(name, folder, environment, f"http://{own}")
            stack.push_async_callback(made.stop)
            await made.start()
            nodes.append(made)
        await asyncio.gather(*(each.ready() for each in nodes))
        async with Client(subject.url) as client:
            # So that each soon has a snapshot that can be damaged.
            await client.commit(TriggerSnapshot())
        yield subject, nodes, Broker(folder, server), folder


class Committers:
    """Commit batches for as long as they may; now and then they ask for a snapshot."""

    def __init__(self, urls, random_):
        self.counts: Counter[str] = Counter()
        self.stopping = asyncio.Event()
        self._urls = urls
        self._random = random_

    async def run(self):
        async with Client(self._urls) as client:
            while not self.stopping.is_set():
                batch = [self._proposal() for _ in range(self._random.randrange(1, BATCH_MAX))]
                try:
                    outcomes = await client.commit_batch(batch)
                except ClientError as error:
                    self.counts[type(error).__name__] += 1
                else:
                    self.counts["committed"] += len(outcomes)
                await asyncio.sleep(self._random.uniform(0, 2 * PAUSE_S))

    def _proposal(self):
        name = f"e{self._random.randrange(12)}"
        is_snapshot = self._random.random() < 0.002
        wanted = TriggerSnapshot() if is_snapshot else SetExtension(name=name, value=uuid4().hex)
        return Proposal(transformation=wanted, entry_id=new_entry_id())


class Chaos:
    """Breaks one thing after the other; each comes back by itself."""

    def __init__(self, nodes, broker, folder, random_):
        self.counts: Counter[str] = Counter()
        self._nodes = nodes
        self._broker = broker
        self._copies = {node.name: folder / f"{node.name}.copy" for node in nodes}
        self._random = random_

    async def run(self, duration_s):
        deadline_s = time.monotonic() + duration_s
        for node in self._nodes:
            await node.copy_to(self._copies[node.name])
        # Each of them happens at least once, and then whatever chance wants.
        due = ["broker", "restore", "trim", "damage", "kill"]
        self._random.shuffle(due)
        async with asyncio.TaskGroup() as group:
            while time.monotonic() < deadline_s or due:
                kind = due.pop() if due else self._random.choices(KINDS, weights=WEIGHTS)[0]
                self.counts[kind] += 1
                if kind == "broker":
                    await self._broker.crash()
                else:
                    group.create_task(self._break(kind, self._random.choice(self._nodes)))
                await asyncio.sleep(self._random.uniform(0.5, 2.5))

    async def _break(self, kind, node):
        match kind:
            case "kill":
                await node.crash()
            case "restore":
                await node.restore_from(self._copies[node.name])
            case "trim":
                self.counts["entries_trimmed"] += await node.trim()
            case "damage":
                self.counts["snapshots_damaged"] += await node.damage()


async def equal(nodes, applied):
    """Wait until every node has this very version."""
    wanted = (applied.metadata.epoch, applied.metadata.digest.hex(), applied.hash.hex())
    deadline_s = time.monotonic() + EQUAL_TIMEOUT_S
    found = {}
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < deadline_s:
            found = {node.name: await _watermark(session, node) for node in nodes}
            if all(each == wanted for each in found.values()):
                return
            await asyncio.sleep(0.1)
    words = {node.name: node.last_words()[-1500:] for node in nodes}
    raise AssertionError(f"wanted {wanted}, found {found}, {words}")


async def _watermark(session, node):
    try:
        async with session.get(f"{node.url}/v1/epoch") as response:
            body = await response.json()
            return body.get("epoch"), body.get("digest"), body.get("hash")
    except aiohttp.ClientError as error:
        return repr(error)


def gaps(life):
    """Where a life published something that neither follows nor is a snapshot.

    Its first version is whatever it found on its disk or got first.
    """
    return [
        (before, after)
        for (before, *_), (after, is_jump, _) in pairwise(life.versions)
        if after <= before or (after != before + 1 and not is_jump)
    ]


def forgotten(lives):
    """Where a life began below what the one before had published, though nobody robbed it."""
    found, last = [], None
    for life in lives:
        if not life.is_whole:
            last = None
        if life.versions and last is not None and life.versions[0].epoch < last:
            found.append((last, life.versions[0].epoch))
        last = life.versions[-1].epoch if life.versions else last
    return found


def strangers(lives, log):
    """Versions that are not those of the log."""
    return [
        (version.epoch, version.digest)
        for life in lives
        for version in life.versions
        if version.digest != log[version.epoch - 1].entry.digest.hex()
    ]


@pytest.mark.timeout(300)
async def test_under_a_lying_fan_out_every_node_ends_with_the_log(seed):
    async with fanned_out() as (subject, nodes, broker, folder):
        committers = Committers([cms.url for cms in subject.members], random.Random(seed))
        chaos = Chaos(nodes, broker, folder, random.Random(seed + 1))
        mangler = Mangler(
            broker.server.bootstrap,
            random.Random(seed + 2),
            source="ringlog.log.v1",
            target=MANGLED,
        )
        async with asyncio.TaskGroup() as group:
            mangling = group.create_task(mangler.run())
            for _ in range(COMMITTERS):
                group.create_task(committers.run())
            await chaos.run(CHAOS_FOR_S)
            committers.stopping.set()
            log = await subject.entries()
            print(
                f"log={len(log)} commits={dict(committers.counts)} breaks={dict(chaos.counts)} "
                f"mangled={dict(mangler.counts)}"
            )
            await equal(nodes, replay(log, NOTHING_APPLIED))
            await _meet_all(subject, nodes, mangler)
            await _survives_damage(subject, nodes[0], nodes)
            await _survives_trimming(subject, nodes[1], nodes)
            mangling.cancel()
        judge(nodes, await subject.entries())
        await _tells_of_fan_out(subject)
        await _goes_on(subject, nodes)

    for kind in ("sent", "drop", "repeat", "delay", "shuffle", "forge"):
        assert mangler.counts[kind] > 0, kind


async def _tells_of_fan_out(subject):
    async with aiohttp.ClientSession() as session:
        for cms in subject.members:
            async with session.get(f"{cms.url}/metrics") as response:
                text = await response.text()
            assert "ringlog_fanout_lag_epochs " in text
            assert "ringlog_fanout_failures_total " in text


async def _meet_all(subject, nodes, mangler):
    """Go on until every kind of forgery was found out by somebody; most were by now.

    The nodes are where the log is, so what comes only as a forgery is looked at.
    """
    deadline_s = time.monotonic() + MET_TIMEOUT_S
    async with Client(subject.url) as client:
        while missing := sorted(FORGED.keys() - _met(nodes)):
            assert time.monotonic() < deadline_s, missing
            mangler.only = FORGED[missing[0]]
            await client.commit(SetExtension(name="forged", value=missing[0]))
            await asyncio.sleep(PAUSE_S)
    mangler.only = None


def _met(nodes):
    return {line.fault for node in nodes for line in node.noted("disbelieved")}


async def _survives_damage(subject, node, nodes):
    """Of all its snapshots, in a node that has some and nothing else to trouble it."""
    async with Client(subject.url) as client:
        await client.commit(TriggerSnapshot())
    await equal(nodes, replay(await subject.entries(), NOTHING_APPLIED))
    known = len(node.noted("copy_damaged"))
    assert await node.damage() > 0
    await equal(nodes, replay(await subject.entries(), NOTHING_APPLIED))
    assert len(node.noted("copy_damaged")) > known


async def _survives_trimming(subject, node, nodes):
    """Of all its entries up to a snapshot; it begins where it was."""
    async with Client(subject.url) as client:
        for _ in range(2):
            await client.commit(TriggerSnapshot())
            await client.commit(SetExtension(name="trimmed", value="soon"))
    await equal(nodes, replay(await subject.entries(), NOTHING_APPLIED))
    assert await node.trim() > 0
    await equal(nodes, replay(await subject.entries(), NOTHING_APPLIED))


def judge(nodes, log):
    """Print what each node lived through, and fail if what it published was not the log's way."""
    for node in nodes:
        lives = node.published()
        versions = [version for life in lives for version in life.versions]
        told = Counter(line.fault for line in node.noted("disbelieved"))
        print(
            f"{node.name}: lives={len(lives)} published={len(versions)} "
            f"jumps={sum(version.is_jump for version in versions)} "
            f"set_back={len(node.noted('set_back'))} disbelieved={dict(told)} "
            f"damaged={len(node.noted('copy_damaged'))}"
        )
        assert [gap for life in lives for gap in gaps(life)] == [], node.name
        assert strangers(lives, log) == [], node.name
        assert forgotten(lives) == [], node.name
        assert not {line.state for line in node.noted("standing")} & {"diverged", "stopped"}
        for life in node.lives:
            words = life.read_text(encoding="utf-8", errors="replace")
            for trouble in TROUBLE:
                assert trouble not in words, f"{life.name}: {words[words.index(trouble) :][:4000]}"


async def _goes_on(subject, nodes):
    """And after all that the next commit arrives everywhere."""
    async with Client(subject.url) as client:
        await client.commit(SetExtension(name="last", value="all is well"))
    await equal(nodes, replay(await subject.entries(), NOTHING_APPLIED))


def test_a_history_with_a_gap_is_found():
    assert gaps(life(5, 6, -9, 10)) == []
    assert gaps(life(5, 7)) == [(5, 7)]
    assert gaps(life(5, 5)) == [(5, 5)]
    assert gaps(life(-9, -3)) == [(9, 3)]


def life(*epochs, is_whole=True):
    """Negative ones are jumps."""
    return Life([Published(abs(epoch), epoch < 0) for epoch in epochs], is_whole)


def test_a_life_that_begins_below_the_last_one_is_found():
    assert forgotten([life(1, 2, 3), life(3, 4), life(), life(4, 5)]) == []
    assert forgotten([life(1, 2, 3), life(2, 3)]) == [(3, 2)]
    assert forgotten([life(1, 2, 3), life(), life(2)]) == [(3, 2)]
    assert forgotten([life(1, 2, 3), life(1, 2, is_whole=False), life(1)]) == [(2, 1)]
    assert forgotten([life(1, 2, 3), life(is_whole=False), life(1)]) == []


def test_a_version_that_is_not_the_logs_is_found():
    entries = history().entries[:3]
    true = [Published(each.epoch, False, each.entry.digest.hex()) for each in entries]
    false = true[1]._replace(digest=true[0].digest)
    assert strangers([Life(true)], entries) == []
    assert strangers([Life([true[0], false])], entries) == [(2, true[0].digest)]
