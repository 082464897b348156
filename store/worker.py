"""A thread that owns one connection and works off what waits, a batch at a time."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from store.failures import ClosedError, OverloadedError

T = TypeVar("T")

BATCH_JOBS_MAX = 512


class Job(msgspec.Struct, eq=False):
    """Something to run, the promise of its answer, and what came of it."""

    work: Callable[[Any], Any]
    answer: asyncio.Future[Any]
    result: Any = None
    failure: Exception | None = None


class Worker:
    """`run` fills in the results of a batch; whoever waits hears of them after it returned.

    A caller that is cancelled stops waiting; its job runs all the same.
    """

    def __init__(self, name: str, run: Callable[[list[Job]], None], *, waiting_max: int) -> None:
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.Queue[Job | None] = queue.Queue(waiting_max)
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._closed = False

    def start(self) -> None:
        self._thread.start()

    def refuse(self) -> None:
        """Take no more. Called in the event loop, so that no job can slip in behind the last."""
        self._closed = True

    def stop(self) -> None:
        """Finish what waits, then end. Blocks until that is done."""
        self._jobs.put(None)
        self._thread.join()

    async def submit(self, work: Callable[[Any], T]) -> T:
        if self._closed:
            raise ClosedError("The node's tables are closed: the node is stopping.")
        job = Job(work, self._loop.create_future())
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            raise OverloadedError(
                f"{self._jobs.maxsize} reads or writes wait for the disk already: "
                "try again a little later."
            ) from None
        result: T = await job.answer
        return result

    def _work(self) -> None:
        goes_on = True
        while goes_on:
            batch, goes_on = self._take()
            if batch:
                self._run_all(batch)
                # A loop that is closed has nobody left who waits.
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(_deliver, batch)

    def _run_all(self, batch: list[Job]) -> None:
        try:
            self._run(batch)
        except Exception as error:  # noqa: BLE001 - a thread that died would answer nobody again
            for job in batch:
                job.failure = job.failure or error

    def _take(self) -> tuple[list[Job], bool]:
        """Wait for one job, then take what else is there; false if it was the last."""
        batch: list[Job] = []
        job = self._jobs.get()
        while job is not None:
            batch.append(job)
            if len(batch) == BATCH_JOBS_MAX or self._jobs.empty():
                return batch, True
            job = self._jobs.get()
        return batch, False


def _deliver(batch: list[Job]) -> None:
    for job in batch:
        if job.answer.done():
            continue
        if job.failure is not None:
            job.answer.set_exception(job.failure)
        else:
            job.answer.set_result(job.result)
