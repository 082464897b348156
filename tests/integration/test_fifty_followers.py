"""Fifty followers in one process keep up with a busy log; how far behind they were is printed."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from asyncio.subprocess import PIPE
from bisect import bisect_right
from contextlib import AsyncExitStack

import pytest

from client.client import Client
from client.connection import Connection
from client.following import Following, NoNeighbours, Roads
from client.pages import CmsLog
from client.patience import Patience
from client.publication import NoJournal, Publication
from client.standing import State
from log.follower import Follower
from log.listeners import Listeners
from log.published import Published
from log.replay import NOTHING_APPLIED, apply
from log.shared_replay import SharedReplay
from services.local.waiting import until
from tests.e2e.cluster import ROOT, cluster
from tests.integration.committing import waited_s
from transformations.initialize import Initialize

FOLLOWERS = 50
COMMITS_PER_S = 1_000
MICROSECONDS = 1_000_000
LASTS_S = float(os.environ.get("FOLLOWERS_FOR_S") or 30.0)
IS_SHARED = not os.environ.get("FOLLOWERS_APART")
BEHIND_MAX = 2_000
"""Epochs, when the load ends, on a machine that lets everybody run: two seconds of it."""
RATE_SHARE_MIN = 0.9
CAUGHT_UP_TIMEOUT_S = 200.0
QUICK = Patience(attempt_timeout_s=10.0, deadline_s=10.0)


class Measured:
    """When which follower published which epoch."""

    def __init__(self):
        self.published = []

    def observe(self, applied):
        self.published.append((time.time(), applied.metadata.epoch))

    def lags(self, committed_s):
        """How far behind the log each publication was, in epochs and in seconds.

        `committed_s` is when each epoch was committed, in order.
        """
        epochs = [max(0, bisect_right(committed_s, at) - epoch) for at, epoch in self.published]
        seconds = [max(0.0, at - committed_s[epoch - 1]) for at, epoch in self.published]
        return epochs, seconds


class Silent:
    def stands(self, standing):
        del standing

    def jumped(self, before, to):
        del before, to

    def disbelieved(self, fault):
        del fault


def follower(connection, cluster_id, measured, replay):
    published = Published(NOTHING_APPLIED)
    publication = Publication(published, Listeners(_raise), NoJournal(), measured.observe)
    roads = Roads(CmsLog(connection), NoNeighbours(), is_fanned_out=False)
    believing = Follower(NOTHING_APPLIED, cluster=cluster_id, apply=replay)
    return Following(believing, roads, publication, Silent()), published


def _raise(_listener, error):
    raise error


async def commit_beside(url):
    """In another process, so that followers who are slow do not slow it down."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.integration.committing", url, str(COMMITS_PER_S), str(LASTS_S)),
        stdout=PIPE,
        cwd=ROOT,
    )
    words = (await process.communicate())[0].split()
    assert process.returncode == 0
    return int(words[0]), float(words[1]), int(words[2]), float(words[3])


def at(share, values):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@pytest.mark.timeout(400)
async def test_fifty_followers_keep_up_and_end_equal():
    """`FOLLOWERS_FOR_S` says for how long. Nobody is far behind when the load ends.

    Where the machine is busy with other things, the time in which the followers, the CMS that
    they ask or whoever commits waited for a core is allowed for.

    Being in one process they share the replay; `FOLLOWERS_APART` has each do its own, which on
    one core is some hundreds of commits a second for fifty.
    """
    measured = Measured()
    async with AsyncExitStack() as stack:
        subject = await stack.enter_async_context(cluster(1))
        client = await stack.enter_async_context(Client(subject.url))
        await client.commit(Initialize(name="followed"))
        cluster_id = (await client.status()).cluster
        connection = Connection([subject.url], token=None, cluster=cluster_id, patience=QUICK)
        stack.push_async_callback(connection.close)
        replay = SharedReplay().apply if IS_SHARED else apply
        made = [follower(connection, cluster_id, measured, replay) for _ in range(FOLLOWERS)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(following.run()) for following, _ in made]
            pids = os.getpid(), subject.members[0].pid
            waited_before_s = waited_s(*pids)
            tip, took_s, late, idle_s = await commit_beside(subject.url)
            starved_s = waited_s(*pids) - waited_before_s
            behind = [tip - published.applied.metadata.epoch for _, published in made]
            ended_s = time.monotonic()
            await until(
                lambda: all(published.applied.metadata.epoch >= tip for _, published in made),
                timeout_s=CAUGHT_UP_TIMEOUT_S,
            )
            caught_up_s = time.monotonic() - ended_s
            assert not any(task.done() for task in tasks)
            for task in tasks:
                task.cancel()
        entries = await subject.entries()
    committed_s = [sealed.entry.committed_at / MICROSECONDS for sealed in entries]
    epochs, seconds = measured.lags(committed_s)
    print(
        f"{FOLLOWERS} followers, {tip} commits in {took_s:.1f} s ({tip / took_s:.0f}/s of "
        f"{COMMITS_PER_S}, {late} batches late; {starved_s:.1f} s without a core, "
        f"whoever commits {idle_s:.1f} s): "
        f"behind by at most {max(epochs)} epochs (p99 {at(0.99, epochs)}, p50 {at(0.5, epochs)}), "
        f"{max(seconds) * 1000:.0f} ms (p99 {at(0.99, seconds) * 1000:.0f}, "
        f"p50 {at(0.5, seconds) * 1000:.0f}); after the last commit behind by "
        f"{min(behind)} to {max(behind)}, equal {caught_up_s:.2f} s later"
    )
    assert tip > LASTS_S * COMMITS_PER_S
    assert took_s <= LASTS_S / RATE_SHARE_MIN + starved_s + idle_s
    assert max(behind) <= BEHIND_MAX + COMMITS_PER_S * starved_s
    # Whatever was left is caught up with faster than it came: nobody had fallen behind for good.
    assert caught_up_s <= (BEHIND_MAX + max(behind)) / COMMITS_PER_S
    ends = {(each.applied.hash, each.applied.metadata.digest) for _, each in made}
    assert len(ends) == 1
    assert {following.standing.state for following, _ in made} == {State.FOLLOWING}
    assert all(not following.follower.faults for following, _ in made)
