"""The log never runs out of room, however long it gets."""

from __future__ import annotations

import asyncio

import pytest

from log.postgres_room import ENTRIES_AHEAD, keep_room, make_room
from log.postgres_sessions import Sessions
from metadata.epoch import Epoch


@pytest.fixture
async def sessions(database):
    found = Sessions(database)
    yield found
    await found.close()


async def newest_partition(sessions):
    (row,) = await sessions.fetch("SELECT newest_log_partition() AS newest")
    return row["newest"]


async def test_partitions_stay_ahead_of_the_tip(sessions):
    for tip in (0, 999_999, 1_999_999, 7_500_000):
        await make_room(sessions, Epoch(tip))

        assert (await newest_partition(sessions) + 1) * 1_000_000 > tip + ENTRIES_AHEAD


async def test_room_is_made_while_the_log_grows(sessions):
    tip = Epoch(0)
    task = asyncio.create_task(keep_room(sessions, lambda: tip))
    tip = Epoch(4_200_000)
    async with asyncio.timeout(30):
        while await newest_partition(sessions) < 6:  # noqa: ASYNC110 another process
            await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
