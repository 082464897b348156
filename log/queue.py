"""Proposals that wait to be decided: bounded, and taken in batches."""

from __future__ import annotations

import asyncio
from collections import deque

import msgspec

from log.batch import Answer, Request


class OverloadedError(Exception):
    """The queue is full: nothing was taken in, and nothing will come of it."""


class Job(msgspec.Struct, eq=False):
    """A request, and the promise of its answers."""

    request: Request
    answers: asyncio.Future[list[Answer]]
    since: float


class ProposalQueue:
    """First in, first out. `wake` is set when there may be something to do."""

    def __init__(self, depth_max: int) -> None:
        self.depth = 0
        self.wake = asyncio.Event()
        self._depth_max = depth_max
        self._jobs: deque[Job] = deque()

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def put(self, request: Request) -> Job:
        if self.depth + len(request.proposals) > self._depth_max:
            raise OverloadedError
        loop = asyncio.get_running_loop()
        job = Job(request, loop.create_future(), loop.time())
        self._jobs.append(job)
        self.depth += len(request.proposals)
        self.wake.set()
        return job

    def take(self, batch_max: int) -> list[Job]:
        """What waits, up to the size of a batch; a larger request goes alone."""
        taken: list[Job] = []
        size = 0
        while self._jobs:
            size += len(self._jobs[0].request.proposals)
            if taken and size > batch_max:
                break
            taken.append(self._jobs.popleft())
        self.depth -= sum(len(job.request.proposals) for job in taken)
        return taken
