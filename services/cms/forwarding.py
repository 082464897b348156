"""Handing proposals to the CMS that sequences: one message for all that wait.

Racing it would be as safe and much slower. Where the other does not answer, the proposals are
sequenced here: their entry ids make a second try harmless.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import aiohttp
import msgspec

from log.batch import Answer, Request
from log.lease import LEASE_S
from services.http.problems import ProblemError

SEQUENCE_PATH = "/internal/v1/sequence"
FORWARD_TIMEOUT_S = LEASE_S
"""By then one that hangs has lost the lease, and what waits for it holds up all behind it."""
BATCH_MAX = 512
IN_FLIGHT_MAX = 2

_encode = msgspec.msgpack.Encoder().encode
_decode_requests = msgspec.msgpack.Decoder(list[Request]).decode
_decode_answers = msgspec.msgpack.Decoder(list[list[Answer]]).decode


class _Job(msgspec.Struct, eq=False):
    request: Request
    answers: asyncio.Future[list[Answer]]


Send = Callable[[bytes], Awaitable[bytes]]
Submit = Callable[[Request], Awaitable[list[Answer]]]


class Forwarder:
    """Collects what waits while a message is under way; no lingering when idle."""

    def __init__(self, send: Send, instead: Submit) -> None:
        self._send = send
        self._instead = instead
        self._jobs: deque[_Job] = deque()
        self._sending: set[asyncio.Task[None]] = set()

    async def submit(self, request: Request) -> list[Answer]:
        job = _Job(request, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._start()
        return await asyncio.shield(job.answers)

    def _start(self) -> None:
        while self._jobs and len(self._sending) < IN_FLIGHT_MAX:
            count = min(BATCH_MAX, len(self._jobs))
            jobs = [self._jobs.popleft() for _ in range(count)]
            task = asyncio.create_task(self._forward(jobs))
            self._sending.add(task)
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        self._start()

    async def _forward(self, jobs: list[_Job]) -> None:
        try:
            reply = await self._send(_encode([job.request for job in jobs]))
            answers = _decode_answers(reply)
        except ProblemError as error:
            # What the other will not do for anybody is not done here either.
            for job in jobs:
                job.answers.set_exception(error)
            return
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.MsgspecError):
            await asyncio.gather(*(self._sequence_here(job) for job in jobs))
            return
        for job, found in zip(jobs, answers, strict=True):
            if not job.answers.done():
                job.answers.set_result(found)

    async def _sequence_here(self, job: _Job) -> None:
        try:
            found = await self._instead(job.request)
        except Exception as error:  # noqa: BLE001 - whoever waits for the answer gets it
            job.answers.set_exception(error)
        else:
            job.answers.set_result(found)


async def sequenced(body: bytes, submit: Submit) -> bytes:
    """The other side: decide what another CMS collected. Raises `msgspec.MsgspecError`."""
    requests = _decode_requests(body)
    return _encode(await asyncio.gather(*(submit(request) for request in requests)))
