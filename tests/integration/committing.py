"""A process of its own that commits at a steady rate: `python -m … URL PER_SECOND SECONDS`."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from uuid import uuid4

from client.client import Client
from client.proposals import Proposal, new_entry_id
from transformations.extensions import SetExtension

BATCH = 100
NAMES = 12
NANOSECONDS = 1_000_000_000


async def commit(url, per_s, duration_s):
    """A batch that is late is not left out.

    Prints the last epoch, how long it all took, how many batches were late because the one
    before them was not answered yet, and for how long there was no core for this process.
    """
    started_s = time.monotonic()
    outcomes, late = [], 0
    async with Client(url) as client:
        for number in range(int(duration_s * per_s / BATCH)):
            early_s = started_s + number * BATCH / per_s - time.monotonic()
            late += number > 0 and early_s < 0
            await asyncio.sleep(early_s)
            outcomes = await client.commit_batch([_proposal(index) for index in range(BATCH)])
    print(outcomes[-1].epoch, time.monotonic() - started_s, late, waited_s(os.getpid()))


def waited_s(*pids):
    """How long these processes had something to do and no core to do it on, where that is told."""
    found = [Path(f"/proc/{pid}/schedstat") for pid in pids]
    return sum(int(each.read_text().split()[1]) / NANOSECONDS for each in found if each.exists())


def _proposal(index):
    wanted = SetExtension(name=f"e{index % NAMES}", value=uuid4().hex)
    return Proposal(transformation=wanted, entry_id=new_entry_id())


if __name__ == "__main__":
    asyncio.run(commit(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
