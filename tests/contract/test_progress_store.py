"""What every store of progress promises: the one in memory and the one in Postgres."""

from __future__ import annotations

import time

import asyncpg
import pytest

from log.postgres_sessions import Sessions
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from services.cms.progress.memory import MemoryProgress
from services.cms.progress.postgres import PostgresProgress
from services.cms.progress.store import RATES_MAX, SILENT_AFTER_S, Kept


class Clock:
    """Time passes by hand: in memory by an offset, in Postgres by making rows older."""

    def __init__(self, dsn):
        self._dsn = dsn
        self._ahead_s = 0.0

    def __call__(self):
        return time.monotonic() + self._ahead_s

    async def pass_by(self, seconds):
        self._ahead_s += seconds
        if self._dsn is None:
            return
        connection = await asyncpg.connect(self._dsn)
        await connection.execute(
            "UPDATE progress SET received_at = received_at - make_interval(secs => $1)", seconds
        )
        await connection.close()


@pytest.fixture(params=["memory", "postgres"])
def place(request):
    """Only Postgres needs a database."""
    return request.getfixturevalue("database") if request.param == "postgres" else None


@pytest.fixture
def clock(place):
    return Clock(place)


@pytest.fixture
async def store(place, clock):
    if place is None:
        yield MemoryProgress(clock)
        return
    sessions = Sessions(place)
    yield PostgresProgress(sessions)
    await sessions.close()


def kept(sequence, driver="a", driven=b"{}", rate=None):
    return Kept(sequence=SequenceId(sequence), driver=driver, driven=driven, rows_per_s=rate)


async def told(store):
    return [(item.sequence, item.driver, item.driven) for item in await store.known()]


async def test_the_last_word_on_each_sequence_is_kept(store):
    assert await store.known() == []
    await store.keep([kept(7), kept(3)])
    await store.keep([kept(7, driven=b"later")])
    await store.keep([])

    assert await told(store) == [(3, "a", b"{}"), (7, "a", b"later")]
    assert all(0 <= item.age_s < 30 for item in await store.known())


async def test_another_driver_is_heard_once_the_first_is_silent(store, clock):
    await store.keep([kept(7)])
    await store.keep([kept(7, "b")])
    assert await told(store) == [(7, "a", b"{}")]

    await clock.pass_by(SILENT_AFTER_S)
    (found,) = await store.known()
    assert found.age_s >= SILENT_AFTER_S
    await store.keep([kept(7, "b")])
    assert await told(store) == [(7, "b", b"{}")]


async def test_what_is_over_is_forgotten_and_what_is_news_is_not(store):
    await store.keep([kept(3), kept(7), kept(12)])
    await store.forget_others([SequenceId(7)], up_to=Epoch(10))

    assert [item.sequence for item in await store.known()] == [7, 12]


async def test_rates_outlive_their_sequences_and_are_bounded(store):
    assert await store.rates() == []
    await store.keep([kept(number, rate=float(number)) for number in range(1, RATES_MAX + 6)])
    await store.keep([kept(RATES_MAX + 5, rate=1.5), kept(RATES_MAX + 4, "b", rate=9999.0)])
    await store.forget_others([], up_to=Epoch(10**6))

    found = await store.rates()
    assert len(found) == RATES_MAX
    assert (found[0], found[1], found[-1]) == (1.5, float(RATES_MAX + 4), 6.0)
    assert await store.known() == []
