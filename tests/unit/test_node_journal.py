"""A node's own copy of the log: whatever the disk did to it, what it leads to is never wrong."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from log.follower import Step
from log.replay import NOTHING_APPLIED, replayed
from services.node import journal as journals
from services.node.journal import Journal
from store.database import opened
from tests.golden.history import history as golden

ENTRIES = golden().entries[:30]
VERSIONS = [NOTHING_APPLIED, *replayed(ENTRIES)]
STEPS = [Step(sealed, applied) for sealed, applied in zip(ENTRIES, VERSIONS[1:], strict=True)]
SYNCHRONOUS_FULL = 2


@pytest.fixture
def path(tmp_path):
    return tmp_path / "node.sqlite"


@pytest.fixture
def cadence(monkeypatch):
    """A snapshot every ten entries."""
    monkeypatch.setattr("snapshots.policy.ENTRIES_BETWEEN", 10)
    monkeypatch.setattr("snapshots.policy.MARKER", "none")


async def kept(path, steps):
    """What one life of a node writes down, a batch an entry."""
    async with opened(path, [journals.SCHEMA]) as database:
        journal = Journal(database)
        await journal.restored(_unexpected)
        for step in steps:
            await journal.append([step])


async def restored(path):
    """Where the next life begins, what it has to say, and which snapshots are left."""
    said = []
    async with opened(path, [journals.SCHEMA]) as database:
        journal = Journal(database)
        found = await journal.restored(lambda epoch, fault: said.append((epoch, fault)))
        return found, said, [info.epoch for info in await journal.snapshots()]


def damaged(path, statement, *values):
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement, values).rowcount


def _unexpected(epoch, fault):
    raise AssertionError(f"{epoch}: {fault}")


@pytest.mark.usefixtures("cadence")
async def test_what_was_kept_is_where_the_next_life_begins(path):
    await kept(path, STEPS)

    assert await restored(path) == (VERSIONS[30], [], [30, 20])


@pytest.mark.usefixtures("cadence")
@pytest.mark.parametrize("column", ["hash", "digest"])
@pytest.mark.parametrize("count", [25, 30])
async def test_a_snapshot_that_its_entry_contradicts_is_not_used(path, column, count):
    """Nothing else would notice another hash, and with it the log would be contradicted."""
    await kept(path, STEPS[:count])
    newest = count // 10 * 10
    damaged(path, f"UPDATE journal_snapshots SET {column} = zeroblob(32) WHERE epoch = ?", newest)

    found, said, left = await restored(path)
    assert found == VERSIONS[count]
    assert [epoch for epoch, _ in said] == [newest]
    assert left == [newest - 10]


@pytest.mark.usefixtures("cadence")
async def test_a_snapshot_that_the_next_entry_does_not_continue_is_not_used(path):
    """Its own entry is damaged as well; the one behind it knows the hash, too."""
    await kept(path, STEPS[:25])
    damaged(path, "UPDATE journal_snapshots SET hash = zeroblob(32) WHERE epoch = 20")
    damaged(path, "UPDATE journal_entries SET payload = x'00' WHERE epoch = 20")

    found, said, left = await restored(path)
    assert found == VERSIONS[19]
    assert {epoch for epoch, _ in said} == {20}
    assert left == [10]


@pytest.mark.parametrize("count", [12, 15])
async def test_where_no_snapshot_is_left_there_is_nothing_rather_than_something_wrong(path, count):
    """Also right behind a jump, where only the entry of the snapshot can tell."""
    async with opened(path, [journals.SCHEMA]) as database:
        journal = Journal(database)
        await journal.jump(STEPS[11])
        await journal.append(STEPS[12:count])
    assert await restored(path) == (VERSIONS[count], [], [12])
    damaged(path, "UPDATE journal_snapshots SET hash = zeroblob(32)")

    found, said, left = await restored(path)
    assert (found, left) == (NOTHING_APPLIED, [])
    assert [epoch for epoch, _ in said] == [12, 1]


@pytest.mark.usefixtures("cadence")
async def test_lives_that_are_shorter_than_the_cadence_add_up(path):
    for start in range(0, 30, 4):
        await kept(path, STEPS[start : start + 4])

    _, _, left = await restored(path)
    assert left == [30, 20]


async def test_a_doubt_lasts_until_it_is_taken_back(path):
    for before, after in (("", "another history"), ("another history", ""), ("", "")):
        async with opened(path, [journals.SCHEMA]) as database:
            journal = Journal(database)
            await journal.restored(_unexpected)
            assert journal.doubt == before
            await journal.keep_doubt(after)


async def test_an_append_has_reached_the_disk_when_it_returns(path):
    """The connection that writes the journal waits for the disk at every commit."""
    async with opened(path, [journals.SCHEMA]) as database:
        journal = Journal(database)
        await journal.append(STEPS[:3])
        found = await database.write(
            lambda connection: [
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("synchronous", "journal_mode")
            ]
        )

    assert found == [SYNCHRONOUS_FULL, "wal"]
