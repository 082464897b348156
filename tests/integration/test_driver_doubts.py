"""A driver whose copy of the metadata is not to be trusted does nothing, and says why."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from client.client import Client
from client.embedded import embedded
from client.pages import Page
from client.patience import Patience
from client.publication import NoJournal
from client.standing import State
from log.replay import NOTHING_APPLIED
from metadata.epoch import Epoch
from sequences.ports import WorkError
from services.driver.cluster import LiveCluster
from services.local.waiting import until
from tests.integration.test_client_following_loop import (
    CLUSTER,
    DIVERGED,
    ENTRIES,
    FORGED,
    TIMEOUT_S,
    MemoryLog,
)
from transformations.extensions import SetExtension

NOBODY = "http://127.0.0.1:9"
PATIENCE = Patience(deadline_s=1.0)
STEP = SetExtension(name="x", value="y")


@asynccontextmanager
async def following(*answers):
    """A driver's cluster, and the follower behind it; first the log answers these."""
    log = MemoryLog(5)
    log.answers = list(answers)
    follower = embedded(
        log, cluster=CLUSTER, restored=NOTHING_APPLIED, journal=NoJournal(), report=print
    )
    task = asyncio.create_task(follower.run())
    async with Client(NOBODY, patience=PATIENCE) as client:
        try:
            yield LiveCluster(follower, client, "driver-1"), follower
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


FORGERY = (Page(Epoch(6), None, [*ENTRIES[:5], FORGED]), Page(Epoch(6), None, [FORGED]))


async def test_news_of_a_log_that_is_followed_no_more_take_their_time():
    """Whoever looks again and again would otherwise do nothing else."""
    clock = asyncio.get_running_loop().time
    async with following(*FORGERY) as (cluster, follower):
        await until(lambda: follower.standing.state is State.STOPPED, timeout_s=TIMEOUT_S)
        began_s = clock()
        await cluster.beyond(follower.metadata.epoch, 0.3)
        assert clock() - began_s >= 0.3
        began_s = clock()
        await cluster.beyond(Epoch(follower.metadata.epoch - 1), 3600.0)
        assert clock() - began_s < TIMEOUT_S


@pytest.mark.parametrize("answers", [FORGERY, (DIVERGED,)])
async def test_nothing_is_committed_or_believed_on_the_strength_of_a_doubtful_copy(answers):
    async with following(*answers) as (cluster, follower):
        await until(lambda: not follower.standing.is_trusted, timeout_s=TIMEOUT_S)
        doubt = follower.standing.detail
        assert doubt
        with pytest.raises(WorkError, match=doubt):
            await cluster.commit(STEP, "a step")
        with pytest.raises(WorkError, match=doubt):
            await cluster.newest()
