"""What a cluster still owes after its processes were killed: everything it acknowledged."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import aiohttp
import msgspec
import pytest

from encoding.entries import EntryId
from encoding.json import decode_transformation
from tests.e2e.checker import Call, Committed, Fault, History, Read, Refused, Unknown, violations
from tests.e2e.cluster import cluster

CMS_COUNT = 3
CLIENTS = 12
CRASHES_FOR_S = 32.0
CALL_TIMEOUT_S = 8.0
ATTEMPTS_MAX = 40
PAUSE_S = 1.0
NAMES = 12
HOSTS = 60
VIOLATIONS_SHOWN = 20

PROGRESS_COMMITS = 500
RECOVERY_TIMEOUT_S = 60.0
HANGS_FOR_S = 14.0

FOLLOWERS = 500
FOLLOWED = 2_000
COMMITTERS = 50
FOLLOW_WAIT_S = 20
MEMORY_MAX_BYTES = 160 * 1024 * 1024
"""Of one CMS with all the followers; most of it is the programs it is made of."""

TEMPORARY = (429, 503)


class Clients:
    """Many at once, who write down what they asked, when, and what they were told."""

    def __init__(self, session, urls, random_):
        self.calls = []
        self.reads = []
        self.unread = 0
        self.nodes = list(range(1, 5))
        self.sequences = []
        self.stopping = asyncio.Event()
        self._session = session
        self._urls = urls
        self._random = random_
        self._wanted_commits = 0
        self._reached = asyncio.Event()

    @property
    def counts(self):
        kinds = Counter(type(call.answer).__name__.lower() for call in self.calls)
        ids = len({call.entry_id for call in self.calls})
        return {
            "calls": len(self.calls),
            "ids": ids,
            **kinds,
            "reads": len(self.reads),
            "unread": self.unread,
        }

    async def after_commits(self, count):
        """Wait for so many more."""
        self._wanted_commits, self._reached = count, asyncio.Event()
        await self._reached.wait()

    def turn_to(self, urls):
        self._urls = urls

    def new_id(self):
        return EntryId(UUID(int=self._random.getrandbits(128), version=4))

    async def run(self):
        """One client, until it is told to stop; then it still asks what became of its last."""
        while not self.stopping.is_set():
            if self._random.random() < 0.15:
                await self.read()
            else:
                await self._persist(self._wanted())

    async def commit(self, kind, **fields):
        """One that has to succeed."""
        answer = await self._persist({"kind": kind, **fields}, patience=1.0)
        assert isinstance(answer, Committed), answer
        return answer

    async def fill(self, count):
        """Commit by the thousand, and give the tip."""
        tip = 1
        for start in range(0, count, 1000):
            commits = [
                {"entry_id": str(uuid4()), "transformation": _set(self, self._random)}
                for _ in range(min(1000, count - start))
            ]
            url = f"{self._urls[0]}/v1/commit/batch"
            status, body = await self._exchange("POST", url, {"commits": commits})
            assert status == 200, body
            tip = body["outcomes"][-1]["epoch"]
        return tip

    async def read(self):
        """Linearizable: of the extensions, or only of the tip."""
        shows = self._random.random() < 0.5
        path = "/v1/metadata/extensions" if shows else "/v1/log?limit=1&after=1"
        url = self._random.choice(self._urls)
        start_s = time.monotonic()
        try:
            status, body = await self._exchange("GET", url + path)
        except (aiohttp.ClientError, TimeoutError):
            self.unread += 1
            return
        end_s = time.monotonic()
        assert status in (200, *TEMPORARY), (status, body)
        if status == 200:
            seen = {"component": "extensions", "view": body} if shows else {}
            epoch = body["epoch"] if shows else body["tip"]
            self.reads.append(Read(start_s=start_s, end_s=end_s, cms=url, epoch=epoch, **seen))
        self.unread += status != 200

    async def _persist(self, wanted, patience=0.95):
        """Ask until it is decided, under one id; some lose patience, some ask once too often."""
        entry_id = self.new_id()
        for attempt in range(ATTEMPTS_MAX):
            answer = await self._try(entry_id, wanted)
            if isinstance(answer, Committed | Refused):
                self._learn(answer)
                if self._random.random() < 0.05:
                    await self._try(entry_id, wanted)
                return answer
            if self._random.random() > patience or isinstance(answer, Fault):
                return answer
            await asyncio.sleep(self._random.uniform(0, 0.05 * (1 + attempt)))
        raise AssertionError(f"never decided: {entry_id} {wanted}: {answer}")

    async def _try(self, entry_id, wanted):
        url = self._random.choice(self._urls)
        body = {"entry_id": str(entry_id), "transformation": wanted}
        start_s = time.monotonic()
        try:
            answer = _understood(*await self._exchange("POST", f"{url}/v1/commit", body))
        except (aiohttp.ClientError, TimeoutError) as error:
            answer = Unknown(type(error).__name__)
        call = Call(
            start_s=start_s,
            end_s=time.monotonic(),
            entry_id=entry_id,
            transformation=decode_transformation(msgspec.json.encode(wanted)),
            answer=answer,
            cms=url,
        )
        self.calls.append(call)
        return answer

    async def _exchange(self, method, url, body=None):
        timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT_S)
        async with self._session.request(method, url, json=body, timeout=timeout) as response:
            return response.status, msgspec.json.decode(await response.read())

    def _learn(self, answer):
        if isinstance(answer, Committed):
            self._wanted_commits -= 1
            if self._wanted_commits <= 0:
                self._reached.set()
            if "node" in answer.result:
                self.nodes.append(answer.result["node"])
            if "sequence" in answer.result:
                self.sequences.append(answer.result["sequence"])

    def _wanted(self):
        pick = self._random
        kinds = (_set, _clear, _register, _keyspace, _drop, _prepare, _end, _snapshot)
        (choice,) = pick.choices(kinds, weights=(40, 20, 10, 5, 5, 8, 11, 1))
        return choice(self, pick)


def _set(_clients, pick):
    value = str(pick.getrandbits(64))
    return {"kind": "SetExtension", "name": f"e{pick.randrange(NAMES)}", "value": value}


def _clear(_clients, pick):
    return {"kind": "ClearExtension", "name": f"e{pick.randrange(NAMES)}"}


def _register(_clients, pick):
    return registration(pick.randrange(1, HOSTS))


def registration(number):
    return {
        "kind": "Register",
        "host_id": f"host-{number}",
        "addresses": {"native": f"10.0.0.1:{number}"},
        "datacenter": "dc1",
        "rack": f"r{number % 3}",
        "version": "1",
    }


def _keyspace(_clients, pick):
    replication = {"strategy": "simple", "factor": pick.randrange(1, 4)}
    name = f"k{pick.randrange(NAMES)}"
    return {"kind": "CreateKeyspace", "name": name, "replication": replication}


def _drop(_clients, pick):
    return {"kind": "DropKeyspace", "name": f"k{pick.randrange(NAMES)}"}


def _prepare(clients, pick):
    token = str(pick.randrange(-(2**63) + 1, 2**63))
    return {"kind": "PrepareJoin", "node": pick.choice(clients.nodes), "tokens": [token]}


def _end(clients, pick):
    kind = pick.choice(("StartJoin", "CancelSequence", "RetireSequence"))
    return {"kind": kind, "sequence": pick.choice(clients.sequences[-4:] or [1])}


def _snapshot(_clients, _pick):
    return {"kind": "TriggerSnapshot"}


def _understood(status, body):
    if status == 200:
        return Committed(body["epoch"], body["hash"], body["result"])
    if status == 409 and "epoch" in body and body["code"] != "internal":
        return Refused(body["epoch"], body["code"], body["detail"])
    if status in TEMPORARY:
        return Unknown(body["code"])
    return Fault(f"{status} {body}")


class Killer:
    """Breaks something, lets it come back, and breaks the next."""

    def __init__(self, subject, random_):
        self.counts: Counter[str] = Counter()
        self._subject = subject
        self._random = random_

    async def run(self, duration_s):
        deadline_s = time.monotonic() + duration_s
        async with asyncio.TaskGroup() as group:
            while time.monotonic() < deadline_s:
                breaks = (self._kill, self._cut, self._pause)
                (chosen,) = self._random.choices(breaks, weights=(4, 5, 2))
                group.create_task(chosen())
                await asyncio.sleep(self._random.uniform(0.2, 1.5))

    async def _kill(self):
        self.counts["kill_9"] += 1
        await self._random.choice(self._subject.members).crash()

    async def _cut(self):
        name = await self._subject.cut_backend(self._random.choice)
        if name is not None:
            self.counts[f"cut {name}"] += 1

    async def _pause(self):
        self.counts["pause"] += 1
        await self._random.choice(self._subject.members).pause(PAUSE_S)


@pytest.fixture
def seed():
    found = int(os.environ.get("CRASH_SEED") or random.SystemRandom().randrange(2**32))
    print(f"CRASH_SEED={found}")
    return found


@asynccontextmanager
async def founded(seed):
    """Three processes, a cluster with three nodes in the ring, and clients who know it."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=2)
    async with cluster(CMS_COUNT) as subject, aiohttp.ClientSession(connector=connector) as session:
        clients = Clients(session, subject.urls, random.Random(seed))
        await clients.commit("Initialize", name="crashes")
        for number in range(1, 4):
            node = (await clients.commit(**registration(HOSTS + number))).result["node"]
            await clients.commit("UnsafeJoin", node=node, tokens=[str(number * 10**18)])
        yield subject, clients


async def judge(subject, clients):
    """Print what was done, and fail with whatever was done wrong."""
    log = await subject.entries()
    print(f"log={len(log)} {clients.counts}")
    whys = Counter(call.answer.why for call in clients.calls if isinstance(call.answer, Unknown))
    print(f"unknown: {dict(whys)}")
    codes = Counter(call.answer.code for call in clients.calls if isinstance(call.answer, Refused))
    print(f"refused: {dict(codes)}")
    found = violations(History(clients.calls, clients.reads), log)
    assert found[:VIOLATIONS_SHOWN] == []
    for cms in subject.members:
        words = cms.log.read_text(encoding="utf-8")
        for trouble in ("Traceback", "request_failed", "decision_failed", "never retrieved"):
            assert trouble not in words, f"{cms.name}: {words[words.index(trouble) - 500 :][:4000]}"


@pytest.mark.timeout(300)
async def test_whatever_is_killed_nothing_acknowledged_is_lost(seed):
    async with founded(seed) as (subject, clients):
        killer = Killer(subject, random.Random(seed + 1))
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(clients.run())
            await killer.run(CRASHES_FOR_S)
            clients.stopping.set()
        await asyncio.gather(*(cms.ready() for cms in subject.members))
        await clients.commit("SetExtension", name="last", value="all is well")
        await clients.read()
        print(f"breaks: {dict(killer.counts)}")
        await judge(subject, clients)


@pytest.mark.timeout(300)
async def test_postgres_restarts_under_load_and_everything_goes_on_by_itself(seed):
    """Once in order and once as after a crash; no CMS is started again, none ends."""
    async with founded(seed) as (subject, clients):
        pids = [cms.pid for cms in subject.members]
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(clients.run())
            for break_postgres in (subject.restart_postgres, subject.crash_postgres):
                await _progress(clients)
                await break_postgres()
            await _progress(clients)
            clients.stopping.set()
        await asyncio.gather(*(cms.ready() for cms in subject.members))
        assert [cms.pid for cms in subject.members] == pids
        await clients.read()
        await judge(subject, clients)


async def _progress(clients):
    """Wait until the log grows, and goes on growing."""
    async with asyncio.timeout(RECOVERY_TIMEOUT_S):
        await clients.after_commits(PROGRESS_COMMITS)


async def _sequencing(members):
    """The one that holds the lease, once all agree on it."""
    async with asyncio.timeout(RECOVERY_TIMEOUT_S):
        while True:
            found = [cms for cms in members if await cms.is_sequencing()]
            if len(found) == 1:
                return found[0]
            await asyncio.sleep(0.1)


@pytest.mark.timeout(120)
async def test_a_sequencer_that_hangs_does_not_hold_the_others_up_for_good(seed):
    """While it still hangs, proposals that came after it did are committed by the others."""
    async with founded(seed) as (subject, clients):
        hanging = await _sequencing(subject.members)
        others = [cms for cms in subject.members if cms is not hanging]
        clients.turn_to([cms.url for cms in others])
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(clients.run())
            hung_s = time.monotonic()
            await hanging.pause(HANGS_FOR_S)
            woken_s = time.monotonic()
            clients.stopping.set()
        await judge(subject, clients)
        meanwhile = [
            call
            for call in clients.calls
            if hung_s < call.start_s and call.end_s < woken_s and isinstance(call.answer, Committed)
        ]
        print(f"{len(meanwhile)} commits while it hung")
        assert meanwhile


@pytest.mark.timeout(1200)
async def test_five_hundred_followers_get_every_entry_once_in_bounded_memory():
    """All of them at one process, each entry in order, while others commit.

    `MEMORY_ENTRIES` says how long the log is before; by default longer than what a CMS keeps of it.
    """
    before_entries = int(os.environ.get("MEMORY_ENTRIES") or 20_000)
    connector = aiohttp.TCPConnector(limit=0)
    async with cluster(1) as subject, aiohttp.ClientSession(connector=connector) as session:
        (cms,) = subject.members
        clients = Clients(session, [cms.url], random.Random(0))
        await clients.commit("Initialize", name="followed")
        tip = await clients.fill(before_entries)
        before = cms.memory_bytes()
        async with asyncio.TaskGroup() as group:
            following = [
                group.create_task(followed(session, cms.url, after=tip)) for _ in range(FOLLOWERS)
            ]
            started_s = time.monotonic()
            left = iter(range(FOLLOWED))
            await asyncio.gather(*(_commit_all(clients, left) for _ in range(COMMITTERS)))
            committed_s = time.monotonic() - started_s
        took_s = time.monotonic() - started_s
        peak = cms.memory_bytes("VmHWM")
        polls = sum(task.result() for task in following)
        print(
            f"tip={tip} followers={FOLLOWERS} commits={FOLLOWED} in {committed_s:.1f} s, "
            f"followed in {took_s:.1f} s by {polls} polls; "
            f"RSS before {before >> 20} MiB, after {cms.memory_bytes() >> 20} MiB, "
            f"peak {peak >> 20} MiB, bound {MEMORY_MAX_BYTES >> 20} MiB"
        )
        assert peak < MEMORY_MAX_BYTES


async def _commit_all(clients, left):
    for number in left:
        await clients.commit("SetExtension", name=f"e{number % NAMES}", value=str(number))


class _Numbered(msgspec.Struct):
    epoch: int
    previous_hash: str
    hash: str


class _Page(msgspec.Struct):
    tip: int
    entries: list[_Numbered]


async def followed(session, url, *, after):
    """Long-poll to the end, and give how many polls it took."""
    decode = msgspec.json.Decoder(_Page).decode
    epoch, last_hash, polls = after, None, 0
    timeout = aiohttp.ClientTimeout(total=3 * FOLLOW_WAIT_S)
    while epoch < after + FOLLOWED:
        query = {"after": epoch, "wait": FOLLOW_WAIT_S}
        async with session.get(f"{url}/v1/log", params=query, timeout=timeout) as response:
            assert response.status == 200, await response.text()
            page = decode(await response.read())
        polls += 1
        for entry in page.entries:
            assert entry.epoch == epoch + 1
            assert last_hash in (None, entry.previous_hash)
            epoch, last_hash = entry.epoch, entry.hash
    return polls
