"""Writes to a store without end and prints what is acknowledged, until somebody kills it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

from metadata.tokens import FULL, Token
from tests.store_model import TABLE, row, store_in

GROUPS = 200
"""So many that most are not written again while one flush runs."""

TURNS_MAX = 5000


def group_rows(group, timestamp):
    """Rows that are written together, all over the ring; every third write deletes them."""
    amount = None if timestamp % 3 == 0 else timestamp
    tokens = sorted(Token((group * 77 + place * 2003) % 10007 - 5000) for place in range(5))
    return [row(token, f"group{group}", timestamp, amount) for token in tokens]


class CrashPoint:
    """Kills the process the so-manieth time that it comes by."""

    def __init__(self, point: str, passes: int) -> None:
        self._point = point
        self._passes = passes

    async def __call__(self, point: str) -> None:
        if point == self._point:
            self._passes -= 1
            if self._passes < 0:
                os.kill(os.getpid(), signal.SIGKILL)


async def write(store, rng, timestamp):
    for turn in range(TURNS_MAX):
        group = rng.randrange(GROUPS)
        await store.put(TABLE, group_rows(group, timestamp + turn))
        print(group, timestamp + turn, flush=True)


async def tidy_up(store):
    for turn in range(TURNS_MAX):
        await store.flush(TABLE, [FULL])
        if turn % 3 == 2:
            await store.compact_all(TABLE)
        await store.sweep()


async def main():
    folder, seed, timestamp, point, passes = sys.argv[1:]
    crash = CrashPoint(point, int(passes))
    async with store_in(Path(folder), reached=crash) as store, asyncio.TaskGroup() as group:
        await store.sweep_orphans()
        group.create_task(write(store, random.Random(int(seed)), int(timestamp)))
        group.create_task(tidy_up(store))


if __name__ == "__main__":
    asyncio.run(main())
