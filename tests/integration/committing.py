"""A process of its own that commits at a steady rate: `python -m … URL PER_SECOND SECONDS`."""

from __future__ import annotations

import asyncio
import sys
import time
from uuid import uuid4

from client.client import Client
from client.proposals import Proposal, new_entry_id
from transformations.extensions import SetExtension

BATCH = 100
NAMES = 12


async def commit(url, per_s, duration_s):
    """A batch that is late is not left out.

    Prints the last epoch, how long it all took, and how many batches were late because the one
    before them was not answered yet.
    """
    started_s = time.monotonic()
    outcomes, late = [], 0
    async with Client(url) as client:
        for number in range(int(duration_s * per_s / BATCH)):
            early_s = started_s + number * BATCH / per_s - time.monotonic()
            late += number > 0 and early_s < 0
            await asyncio.sleep(early_s)
            outcomes = await client.commit_batch([_proposal(index) for index in range(BATCH)])
    print(outcomes[-1].epoch, time.monotonic() - started_s, late)


def _proposal(index):
    wanted = SetExtension(name=f"e{index % NAMES}", value=uuid4().hex)
    return Proposal(transformation=wanted, entry_id=new_entry_id())


if __name__ == "__main__":
    asyncio.run(commit(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
