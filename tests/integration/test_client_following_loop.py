"""The waiting around the follower, with a log in memory: every road, every failure, no server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from client.answers import Problem
from client.embedded import embedded
from client.errors import CorruptEntryError, DivergedError, TrimmedError, UnreachableError
from client.following import Following, NoNeighbours, Roads
from client.pages import Page
from client.publication import NoJournal, Publication
from client.standing import State
from log.chain import seal
from log.follower import Fault, Follower, Step
from log.listeners import Listeners
from log.messages import Message, message_of
from log.published import Published
from log.replay import NOTHING_APPLIED, replayed
from metadata.cluster import ClusterId
from metadata.epoch import Epoch
from services.local.waiting import until
from tests.golden.history import history

HISTORY = history()
ENTRIES = HISTORY.entries
VERSIONS = [NOTHING_APPLIED, *replayed(ENTRIES)]
CLUSTER = HISTORY.applied.metadata.cluster.id
FORGED = seal(msgspec.structs.replace(ENTRIES[5].entry, digest=bytes(32)), ENTRIES[4].hash)
"""Says that it leads elsewhere than it does."""
TIMEOUT_S = 5.0
AWAY = UnreachableError("No CMS answered.")
DIVERGED = DivergedError(Problem(status=409, code="diverged", detail="another history"))
TRIMMED = TrimmedError(Problem(status=410, code="trimmed", detail="look elsewhere"))


class MemoryLog:
    """A log of `tip` entries that answers `at_once` of them, unless told otherwise."""

    def __init__(self, tip, *, at_once=1000, snapshot=None):
        self.tip = tip
        self.asked = []
        self.cancelled = 0
        self.answers = []
        self.held = asyncio.Event()
        self.held.set()
        self.snapshots_asked = []
        self.snapshot_error = None
        self.is_trimmed = False
        self._at_once = at_once
        self._snapshot = snapshot

    async def page(self, applied, *, wait_s, snapshot):
        after = applied.metadata.epoch
        self.asked.append((after, wait_s, snapshot))
        try:
            await self.held.wait()
            if self.answers:
                answer = self.answers.pop(0)
                if isinstance(answer, Exception):
                    raise answer
                return answer
            if wait_s and after >= self.tip:
                await asyncio.sleep(wait_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self._page(after, is_short=snapshot)

    async def snapshot(self, epoch):
        self.snapshots_asked.append(epoch)
        if self.snapshot_error is not None:
            raise self.snapshot_error
        return Step(ENTRIES[epoch - 1], VERSIONS[epoch])

    def _page(self, after, *, is_short):
        if is_short and self._snapshot is not None and after < self._snapshot:
            entries = ENTRIES[self._snapshot : self.tip][: self._at_once]
            return Page(Epoch(self.tip), Epoch(self._snapshot), entries)
        if self.is_trimmed:
            raise TRIMMED
        return Page(Epoch(self.tip), None, ENTRIES[after : self.tip][: self._at_once])


class Notes:
    """What the following found worth a line."""

    def __init__(self):
        self.states = []
        self.jumps = []
        self.faults = []

    def stands(self, standing):
        self.states.append(standing.state)

    def jumped(self, before, to):
        self.jumps.append((before, to))

    def disbelieved(self, fault):
        self.faults.append(fault)


class Peer:
    """Answers what it is told to, once each, and then nothing."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    async def page(self, applied):
        del applied
        self.asked += 1
        if not self.answers:
            return None
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Subject:
    """A following, and what its listeners were told."""

    def __init__(self, log, *, at=0, is_fanned_out=False, neighbours=None, journal=None):
        self.changes: list[Any] = []
        self.notes = Notes()
        self.published = Published(VERSIONS[at])
        listeners = Listeners(_raise)
        if at:
            listeners.publish(VERSIONS[at].metadata)
        publication = Publication(self.published, listeners, journal or NoJournal())
        listeners.add(self.changes.append)
        self.changes.clear()
        follower = Follower(VERSIONS[at], cluster=CLUSTER)
        roads = Roads(log, neighbours or NoNeighbours(), is_fanned_out)
        self.following = Following(follower, roads, publication, self.notes)

    @property
    def epoch(self):
        return self.published.applied.metadata.epoch

    @property
    def state(self):
        return self.following.standing.state

    def hear(self, *epochs):
        for epoch in epochs:
            self.following.hear(message_of(ENTRIES[epoch - 1]))

    async def reach(self, epoch):
        await until(lambda: self.epoch >= epoch, timeout_s=TIMEOUT_S)

    async def become(self, state):
        await until(lambda: self.state is state, timeout_s=TIMEOUT_S)


def _raise(_listener, error):
    raise error


@asynccontextmanager
async def following(log, **options):
    subject = Subject(log, **options)
    task = asyncio.create_task(subject.following.run())
    try:
        yield subject
    finally:
        task.cancel()
        found = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError | None), found


def steps_of(changes):
    return [(change.previous.epoch, change.metadata.epoch) for change in changes]


async def test_page_by_page_each_version_is_published_once():
    log = MemoryLog(20, at_once=3)
    async with following(log) as subject:
        await subject.reach(20)

    assert steps_of(subject.changes) == [(epoch, epoch + 1) for epoch in range(20)]
    assert subject.published.applied == VERSIONS[20]


async def test_a_snapshot_is_one_declared_jump():
    log = MemoryLog(20, snapshot=15)
    async with following(log) as subject:
        await subject.reach(20)

    assert steps_of(subject.changes)[0] == (0, 15)
    assert [change.is_jump for change in subject.changes] == [True] + [False] * 5
    assert subject.notes.jumps == [(0, 15)]


async def test_in_touch_means_that_the_end_of_the_log_was_reached():
    """What is at hand before says nothing of the present; a node must not decide by it."""
    log = MemoryLog(9, at_once=4)
    async with following(log) as subject:
        async with asyncio.timeout(TIMEOUT_S):
            await subject.following.in_touch.wait()
        assert subject.epoch == 9


async def test_what_arrives_while_the_log_is_asked_is_applied_at_once():
    log = MemoryLog(4)
    log.held.clear()
    async with following(log, at=4, is_fanned_out=True) as subject:
        await until(lambda: bool(log.asked), timeout_s=TIMEOUT_S)
        for epoch in range(5, 12):
            subject.hear(epoch)
            await subject.reach(epoch)
        assert subject.state is State.STARTING
        log.tip = 11
        log.held.set()
        await subject.become(State.FOLLOWING)

    assert steps_of(subject.changes) == [(epoch, epoch + 1) for epoch in range(4, 11)]


async def test_news_do_not_break_off_a_check():
    """Or a busy fan-out would have every node ask, hang up and ask again, and never know."""
    log = MemoryLog(4)
    log.held.clear()
    async with following(log, at=4, is_fanned_out=True) as subject:
        await until(lambda: bool(log.asked), timeout_s=TIMEOUT_S)
        for epoch in range(5, 12):
            subject.hear(epoch)
            await subject.reach(epoch)

        assert len(log.asked) == 1
        assert log.cancelled == 0


async def test_a_page_that_fan_out_overtook_changes_nothing():
    log = MemoryLog(8)
    log.held.clear()
    async with following(log, at=2) as subject:
        await until(lambda: bool(log.asked), timeout_s=TIMEOUT_S)
        log.answers.append(Page(Epoch(8), None, ENTRIES[2:5]))
        subject.hear(3, 4, 5, 6)
        await subject.reach(6)
        log.held.set()
        await subject.reach(8)

    assert steps_of(subject.changes) == [(epoch, epoch + 1) for epoch in range(2, 8)]


@pytest.mark.parametrize("later", [AWAY, CorruptEntryError("cut short"), TRIMMED])
async def test_another_history_stays_another_until_the_log_agrees(later):
    """A CMS that is gone afterwards has not taken it back."""
    log = MemoryLog(5)
    log.answers = [DIVERGED, later, later]
    async with following(log, at=5, is_fanned_out=True) as subject:
        await until(lambda: len(log.asked) >= 3, timeout_s=TIMEOUT_S)
        assert subject.state is State.DIVERGED
        assert "another history" in subject.following.standing.detail
        assert not subject.following.in_touch.is_set()
        await subject.become(State.FOLLOWING)

    assert subject.notes.states == [State.DIVERGED, State.FOLLOWING]


async def test_a_log_that_is_away_leaves_what_is_at_hand_trusted():
    log = MemoryLog(5)
    log.answers = [AWAY]
    async with following(log, at=5, is_fanned_out=True) as subject:
        await subject.become(State.AWAY)
        subject.hear(6)
        await subject.reach(6)
        assert subject.following.standing.is_trusted


async def test_a_damaged_snapshot_is_fetched_once_and_the_entries_do():
    log = MemoryLog(20, at_once=4, snapshot=15)
    log.snapshot_error = CorruptEntryError("The snapshot at epoch 15 is damaged.")
    async with following(log) as subject:
        await subject.reach(20)

    assert log.snapshots_asked == [15]
    assert steps_of(subject.changes) == [(epoch, epoch + 1) for epoch in range(20)]


async def test_where_the_entries_are_gone_a_damaged_snapshot_is_tried_again():
    log = MemoryLog(20, snapshot=15)
    log.is_trimmed = True
    log.snapshot_error = CorruptEntryError("The snapshot at epoch 15 is damaged.")
    async with following(log) as subject:
        await until(lambda: len(log.snapshots_asked) >= 2, timeout_s=TIMEOUT_S)
        log.snapshot_error = None
        await subject.reach(20)

    assert subject.published.applied == VERSIONS[20]


async def test_an_entry_of_the_log_that_is_wrong_stops_everything_and_says_where():
    log = MemoryLog(9)
    log.answers = [Page(Epoch(9), None, [*ENTRIES[3:5], FORGED]), Page(Epoch(9), None, [FORGED])]
    subject = Subject(log, at=3)

    async with asyncio.timeout(TIMEOUT_S):
        await subject.following.run()

    assert subject.epoch == 5
    assert subject.state is State.STOPPED
    assert "epoch 6" in subject.following.standing.detail
    assert not subject.following.standing.is_trusted


async def test_nobody_waits_for_a_follower_that_has_stopped():
    follower = embedded(
        MemoryLog(9),
        cluster=ClusterId("another"),
        restored=NOTHING_APPLIED,
        journal=NoJournal(),
        report=print,
    )
    async with asyncio.timeout(TIMEOUT_S):
        reached, _ = await asyncio.gather(follower.reached(5, timeout_s=3600.0), follower.run())
        assert not reached
        assert not await follower.reached(5, timeout_s=3600.0)
    assert "not another" in follower.standing.detail


async def test_a_follower_that_cannot_keep_what_it_applies_says_so():
    follower = embedded(
        MemoryLog(9), cluster=CLUSTER, restored=NOTHING_APPLIED, journal=FullDisk(), report=print
    )
    async with asyncio.timeout(TIMEOUT_S):
        touched, ended = await asyncio.gather(
            follower.touched(timeout_s=3600.0), follower.run(), return_exceptions=True
        )

    assert touched is False
    assert isinstance(ended, OSError)
    assert follower.standing.state is State.STOPPED
    assert not follower.standing.is_trusted
    assert "no space left" in follower.standing.detail


async def test_a_follower_that_the_log_contradicts_is_not_waited_for():
    log = MemoryLog(9)
    log.answers = [DIVERGED]
    follower = embedded(
        log, cluster=CLUSTER, restored=NOTHING_APPLIED, journal=NoJournal(), report=print
    )
    task = asyncio.create_task(follower.run())
    async with asyncio.timeout(TIMEOUT_S):
        assert not await follower.touched(timeout_s=3600.0)
        assert "another history" in follower.standing.detail
        # The log may come back to its senses.
        await follower.in_touch()
        assert await follower.touched(timeout_s=3600.0)
    task.cancel()


async def test_a_gap_is_closed_by_a_peer_and_the_log_is_left_alone():
    log = MemoryLog(8)
    peer = Peer(Page(Epoch(8), None, ENTRIES[2:8]))
    async with following(log, at=2, is_fanned_out=True, neighbours=peer) as subject:
        await subject.become(State.FOLLOWING)
        asked = len(log.asked)
        subject.hear(8)
        await subject.reach(8)
        assert len(log.asked) == asked


@pytest.mark.parametrize(
    "lie",
    [
        CorruptEntryError("The hash of epoch 3 does not fit what it says."),
        Page(Epoch(8), None, [seal(ENTRIES[2].entry, bytes(32))]),
        Page(
            Epoch(8),
            None,
            [seal(msgspec.structs.replace(ENTRIES[2].entry, digest=bytes(32)), ENTRIES[1].hash)],
        ),
    ],
)
async def test_a_peer_that_lies_is_counted_and_the_log_asked(lie):
    log = MemoryLog(2)
    async with following(log, at=2, is_fanned_out=True, neighbours=Peer(lie, lie)) as subject:
        await subject.become(State.FOLLOWING)
        log.tip = 8
        subject.hear(4)
        await subject.reach(8)
        await until(lambda: bool(subject.notes.faults), timeout_s=TIMEOUT_S)

    assert subject.following.follower.faults[Fault.LYING_PEER] >= 1
    assert subject.notes.faults == [Fault.LYING_PEER]
    assert subject.published.applied == VERSIONS[8]


async def test_nonsense_is_counted_each_time_and_told_once():
    log = MemoryLog(3)
    nonsense = Message(None, b"not Avro", (("epoch", b"4"), ("hash", b"0" * 64)))
    headers: Any = (("epoch", None), ("hash", None))
    null = Message(None, ENTRIES[3].payload, headers)
    async with following(log, at=3, is_fanned_out=True) as subject:
        await subject.become(State.FOLLOWING)
        for message in (nonsense, null, nonsense, null):
            subject.following.hear(message)
        subject.hear(4)
        await subject.reach(4)

    assert subject.following.follower.faults == {Fault.UNREADABLE: 4}
    assert subject.notes.faults == [Fault.UNREADABLE]


async def test_a_tip_that_does_not_exist_is_asked_for_and_forgotten():
    log = MemoryLog(3)
    async with following(log, at=3, is_fanned_out=True) as subject:
        await subject.become(State.FOLLOWING)
        subject.following.hear_of(Epoch(10**15))
        await until(lambda: bool(subject.notes.faults), timeout_s=TIMEOUT_S)
        assert subject.following.follower.missing_from is None
        subject.hear(4)
        await subject.reach(4)

    assert subject.notes.faults == [Fault.FROM_THE_FUTURE]


class FullDisk(NoJournal):
    async def append(self, steps):
        del steps
        raise OSError("no space left")


async def test_nobody_sees_what_could_not_be_kept():
    subject = Subject(MemoryLog(6), at=3, journal=FullDisk())

    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(OSError, match="no space"):
            await subject.following.run()

    assert subject.epoch == 3
    assert subject.changes == []


async def test_silent_fan_out_is_replaced_by_waiting_at_the_log(monkeypatch):
    monkeypatch.setattr("client.asking.CHECK_EVERY_S", 0.05)
    log = MemoryLog(3)
    async with following(log, at=3, is_fanned_out=True) as subject:
        await subject.become(State.FOLLOWING)
        log.tip = 5
        await subject.reach(5)
        await until(lambda: log.asked[-1][1] > 0, timeout_s=TIMEOUT_S)
        subject.hear(6)
        await subject.reach(6)
        await until(lambda: log.asked[-1][1] == 0, timeout_s=TIMEOUT_S)

    assert log.cancelled >= 1


async def test_who_does_not_know_how_the_log_stands_does_not_wait_for_news_first():
    """A node at the tip would otherwise be out of touch until the next commit."""
    log = MemoryLog(3)
    async with following(log, at=3) as subject:
        await subject.become(State.FOLLOWING)
        await until(lambda: len(log.asked) >= 2, timeout_s=TIMEOUT_S)
        log.answers = [AWAY]
        log.held.clear()
        subject.following.hear_of(Epoch(3))
        await until(lambda: len(log.asked) >= 3, timeout_s=TIMEOUT_S)
        log.held.set()
        await subject.become(State.AWAY)
        await subject.become(State.FOLLOWING)

    assert [wait_s > 0 for _, wait_s, _ in log.asked][:2] == [False, True]


async def test_who_is_in_touch_does_not_jump_over_a_few_entries():
    log = MemoryLog(3, snapshot=9)
    async with following(log, at=3, is_fanned_out=True) as subject:
        log.answers = [Page(Epoch(3), None, [])]
        await subject.become(State.FOLLOWING)
        log.tip = 12
        subject.following.hear_of(Epoch(12))
        await subject.reach(12)

    assert steps_of(subject.changes) == [(epoch, epoch + 1) for epoch in range(3, 12)]
