"""What a follower does not take for granted: a snapshot that does not come, and its own past."""

from __future__ import annotations

import pytest

from client.asking import JUMPS_TRIED_MAX
from client.pages import Page
from client.publication import NoJournal
from client.standing import State
from log.backoff import Backoff
from metadata.epoch import Epoch
from services.local.waiting import until
from tests.integration.test_client_following_loop import (
    AWAY,
    DIVERGED,
    FORGED,
    TIMEOUT_S,
    MemoryLog,
    Subject,
    following,
    steps_of,
)


@pytest.mark.parametrize("said", [DIVERGED, Page(Epoch(9), None, [FORGED])])
async def test_what_the_log_contradicted_is_not_trusted_after_a_restart_either(said):
    """Whether the histories differ, or this process cannot follow: both last until it agrees."""
    journal, log = NoJournal(), MemoryLog(5)
    log.answers = [said]
    async with following(log, at=5, is_fanned_out=True, journal=journal) as subject:
        await until(lambda: bool(journal.doubt), timeout_s=TIMEOUT_S)
        before = subject.following.standing
        assert not before.is_trusted

    log.answers = [AWAY]
    async with following(log, at=5, is_fanned_out=True, journal=journal) as subject:
        assert (subject.state, subject.following.standing.detail) == (State.DIVERGED, before.detail)
        await until(lambda: not log.answers, timeout_s=TIMEOUT_S)
        assert subject.state is State.DIVERGED
        await until(lambda: not journal.doubt, timeout_s=TIMEOUT_S)
        assert subject.following.standing.is_trusted
    assert Subject(log, at=5, journal=journal).state is State.STARTING


async def test_a_snapshot_that_is_too_slow_to_fetch_is_given_up_for_the_entries(monkeypatch):
    """A blip is not enough: the snapshot may spare a million entries."""
    monkeypatch.setattr("client.asking.UNANSWERED", Backoff(first_s=0.001, last_s=0.001))
    log = MemoryLog(20, at_once=4, snapshot=15)
    log.snapshot_error = AWAY
    async with following(log) as subject:
        await subject.reach(20)

    assert log.snapshots_asked == [15] * JUMPS_TRIED_MAX
    assert steps_of(subject.changes) == [(epoch, epoch + 1) for epoch in range(20)]
