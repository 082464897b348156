"""A disk that is full or busy holds a follower up; it neither ends it nor loses anything."""

from __future__ import annotations

import pytest

from client.errors import DivergedError
from client.publication import NotKeptError
from client.standing import State
from log.backoff import Backoff
from log.follower import Step
from services.local.waiting import until
from services.node import journal as journals
from services.node.data.gaining import CleanJournal
from services.node.journal import Journal
from snapshots.policy import Cadence
from store.database import opened
from store.failures import DiskFailedError, DiskFullError, OverloadedError
from tests.integration.test_client_following_loop import (
    AWAY,
    DIVERGED,
    ENTRIES,
    TIMEOUT_S,
    VERSIONS,
    MemoryLog,
    following,
    steps_of,
)


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr("client.following.KEEPING", Backoff(first_s=0.01, last_s=0.01))


class Full:
    """A journal that keeps nothing while there is no room."""

    def __init__(self):
        self.doubt = ""
        self.is_full = True
        self.tries = 0
        self.kept = []

    async def append(self, steps):
        self._check()
        self.kept += [step.sealed.epoch for step in steps]

    async def jump(self, to):
        self._check()
        self.kept.append(to.applied.metadata.epoch)

    async def keep_doubt(self, doubt):
        self._check()
        self.doubt = doubt

    def _check(self):
        if self.is_full:
            self.tries += 1
            raise NotKeptError("There is no room.")


async def test_what_was_published_is_served_until_the_next_entry_can_be_kept():
    journal, log = Full(), MemoryLog(6)
    async with following(log, at=3, journal=journal) as subject:
        await until(lambda: journal.tries > 3, timeout_s=TIMEOUT_S)
        standing = subject.following.standing
        assert (standing.state, standing.is_trusted) == (State.HELD_UP, True)
        assert standing.detail == "what comes next is not kept yet: There is no room."
        assert (subject.epoch, subject.changes) == (3, [])
        journal.is_full = False
        await subject.reach(6)
        await subject.become(State.FOLLOWING)

    assert journal.kept == [4, 5, 6]
    assert steps_of(subject.changes) == [(3, 4), (4, 5), (5, 6)]
    assert subject.notes.states.count(State.HELD_UP) == 1, "told once"


async def test_who_was_in_touch_is_so_again():
    journal, log = Full(), MemoryLog(3)
    async with following(log, at=3, is_fanned_out=True, journal=journal) as subject:
        await subject.become(State.FOLLOWING)
        subject.hear(4)
        await subject.become(State.HELD_UP)
        assert not subject.following.in_touch.is_set()
        journal.is_full = False
        await subject.reach(4)
        await subject.become(State.FOLLOWING)
        assert subject.following.in_touch.is_set()


async def test_a_snapshot_waits_for_room_too():
    journal, log = Full(), MemoryLog(20, snapshot=15)
    async with following(log, journal=journal) as subject:
        await subject.become(State.HELD_UP)
        journal.is_full = False
        await subject.reach(20)

    assert journal.kept[0] == 15


@pytest.mark.parametrize("error", [DIVERGED, AWAY])
async def test_who_is_not_to_be_trusted_is_not_so_because_the_disk_is_full(error):
    journal, log = Full(), MemoryLog(3)
    log.answers = [error]
    async with following(log, at=3, is_fanned_out=True, journal=journal) as subject:
        await until(lambda: subject.notes.states, timeout_s=TIMEOUT_S)
        subject.hear(4)
        await until(lambda: journal.tries > 1, timeout_s=TIMEOUT_S)
        assert subject.following.standing.is_trusted is not isinstance(error, DivergedError)


async def test_what_the_log_contradicted_is_kept_as_soon_as_there_is_room():
    journal, log = Full(), MemoryLog(3)
    log.answers = [DIVERGED]
    async with following(log, at=3, is_fanned_out=True, journal=journal) as subject:
        await until(lambda: journal.tries > 1, timeout_s=TIMEOUT_S)
        assert subject.following.standing.state is State.DIVERGED
        journal.is_full = False
        await until(lambda: bool(journal.doubt), timeout_s=TIMEOUT_S)


class Refusing:
    """A node's file that refuses writes for a while."""

    def __init__(self, database, *errors):
        self._database = database
        self.errors = list(errors)

    async def write(self, work):
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        return await self._database.write(work)

    async def read(self, work):
        return await self._database.read(work)


@pytest.fixture
async def database(tmp_path):
    async with opened(tmp_path / "node.sqlite", [journals.SCHEMA]) as found:
        yield found


def clean(journal):
    """Of a host that gains nothing."""
    return CleanJournal(journal, None, "nobody", lambda: VERSIONS[0])  # type: ignore[arg-type] # no store is needed


async def kept(database):
    found = await Journal(database).entries_after(
        VERSIONS[0].metadata.epoch, entries_max=99, bytes_max=10**6
    )
    return [entry.epoch for entry in found]


async def test_a_node_goes_on_when_its_file_has_room_again(database):
    errors = (OverloadedError("Too much waits."), DiskFullError("There is no room."))
    journal = clean(Journal(Refusing(database, *errors)))  # type: ignore[arg-type] # a stand-in
    async with following(MemoryLog(6), journal=journal) as subject:
        await subject.reach(6)

    assert State.HELD_UP in subject.notes.states
    assert await kept(database) == [1, 2, 3, 4, 5, 6]


async def test_a_file_that_fails_ends_it(database):
    journal = clean(Journal(Refusing(database, DiskFailedError("It is broken."))))  # type: ignore[arg-type] # a stand-in

    with pytest.raises(DiskFailedError):
        await journal.append([Step(ENTRIES[0], VERSIONS[1])])


async def test_entries_go_on_without_a_snapshot_that_has_no_room(database, monkeypatch):
    """They lead as far without it."""
    monkeypatch.setattr(Cadence, "due", property(lambda _: True))
    refusing = Refusing(database, None, DiskFullError("There is no room."))
    journal = Journal(refusing)  # type: ignore[arg-type] # a stand-in

    await journal.append([Step(ENTRIES[0], VERSIONS[1])])
    assert await journal.snapshots() == []
    await journal.append([Step(ENTRIES[1], VERSIONS[2])])

    assert await kept(database) == [1, 2]
    assert [found.epoch for found in await journal.snapshots()] == [2]
