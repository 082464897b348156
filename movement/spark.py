"""A Spark application that is kept warm, whose jobs can be told apart, watched and cancelled.

SparkError
├─ SparkUnreachableError   it cannot be started, or is gone
└─ JobFailedError          a job failed; its text says where
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

import msgspec
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # ships no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from movement.asking import GONE, NO_TASKS, SILENT, Tasks, cancel_tag, is_alive, said, tasks_of
from movement.gateway import END_TIMEOUT_S, forget, kill
from movement.masters import silence
from movement.offspring import offspring, stop, stop_all

T = TypeVar("T")
Work: TypeAlias = Callable[[SparkSession], T]

START_TIMEOUT_S = 120.0
JOB_TIMEOUT_S = 6 * 3600.0
CANCEL_TIMEOUT_S = 60.0
CANCEL_EVERY_S = 0.1
CLOSE_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 30.0
"""For what takes milliseconds: longer than Java stands still to collect garbage."""
LOOK_EVERY_S = 10.0
JOBS_AT_ONCE_MAX = 4
QUESTIONS_AT_ONCE_MAX = 8

_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_FIXED = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    # Tables may have columns that differ in case alone.
    "spark.sql.caseSensitive": "true",
    # A job is planned once, from the sizes in the manifests.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    # Bounds the files that are written too, each of which is hashed in memory.
    "spark.sql.files.maxPartitionBytes": "64m",
    # Ranking before the shuffle would sort twice and drop little.
    "spark.sql.optimizer.windowGroupLimitThreshold": "-1",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # Pages would be skipped by figures that no checksum covers; row groups are small anyway.
    "spark.hadoop.parquet.filter.columnindex.enabled": "false",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # No hidden checksum file beside each file: pages and manifests have their own.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}


class SparkError(Exception):
    """Its text is a sentence for the operator."""


class SparkUnreachableError(SparkError):
    pass


class JobFailedError(SparkError):
    pass


class SparkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`more` goes to Spark as it is and wins over everything else."""

    master: str = "local[2]"
    memory: str = "1g"
    name: str = "ringlog-movement"
    more: Mapping[str, str] = {}

    def all(self) -> dict[str, str]:
        local = _LOCAL if self.master.startswith("local") else {}
        return {**_FIXED, **local, "spark.driver.memory": self.memory, **self.more}


class Spark:
    """Started by `warm` or when it is first needed, and again when it died. One per process.

    Java is given so long to answer a question, also while a job runs. One that is silent (stopped,
    or short of memory) is killed: it would hold up every sequence, and can do no harm afterwards.
    """

    def __init__(self, settings: SparkSettings, answer_timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._settings = settings
        self._answer_timeout_s = answer_timeout_s
        self._session: SparkSession | None = None
        self._has_traces = False
        self._starting = asyncio.Lock()
        self._threads = ThreadPoolExecutor(JOBS_AT_ONCE_MAX, thread_name_prefix="spark")
        # Of their own, because those that wait for a silent Java are missing elsewhere.
        self._questions = ThreadPoolExecutor(QUESTIONS_AT_ONCE_MAX, thread_name_prefix="spark-ask")

    async def warm(self) -> None:
        """Start it, unless it runs. Raises what a job would; whoever comes next tries again."""
        await self._started()

    async def run(self, tag: str, work: Work[T]) -> T:
        """What `work` gives; whatever it runs bears the tag, and is cancelled with this call.

        When this returns or raises, nothing of it runs any more.
        """
        session = await self._started()
        # Others may run under the same tag, and are not to end with this one.
        own = f"{tag}-{uuid4().hex}"
        job = self._threads.submit(_tagged, session, (tag, own), work)
        running = asyncio.wrap_future(job)
        # Whoever cancels does not ask how it ended, also if that is later.
        running.add_done_callback(_ignored)
        try:
            async with asyncio.timeout(JOB_TIMEOUT_S):
                await self._watched(session, running)
        except asyncio.CancelledError:
            await self._cancelled(session, own, job)
            raise
        except TimeoutError as error:
            await self._cancelled(session, own, job)
            raise JobFailedError(f"It took longer than {JOB_TIMEOUT_S:.0f} s.") from error
        return await self._outcome(session, running)

    async def cancel(self, tag: str) -> None:
        """All jobs with this tag, whoever started them."""
        session = self._session
        if session is not None:
            # Whose Java is killed for its silence runs no job either.
            with suppress(SparkUnreachableError):
                await self._asked(session, partial(cancel_tag, session, tag))

    async def tasks(self, tag: str) -> Tasks:
        """How far the running jobs are; none if Spark is not running."""
        session = self._session
        if session is not None:
            with suppress(SparkUnreachableError):
                return await self._asked(session, partial(tasks_of, session, tag))
        return NO_TASKS

    async def call_off(self) -> None:
        """Give up a start that is under way, by stopping its Java process: this one's only child.

        Whoever waits for the start learns that it failed.
        """
        if self._starting.locked():
            await asyncio.to_thread(stop_all)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None or self._has_traces:
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await asyncio.to_thread(_stop, session)
            except TimeoutError:
                kill()
        for threads in (self._threads, self._questions):
            threads.shutdown(wait=False, cancel_futures=True)

    async def _started(self) -> SparkSession:
        async with self._starting:
            session = self._session
            if session is None or not await self._asked(session, partial(is_alive, session)):
                self._session = None
                session = self._session = await self._start()
            return session

    async def _start(self) -> SparkSession:
        silent = await silence(self._settings.master)
        if silent is not None:
            raise SparkUnreachableError(
                f"Spark at {self._settings.master} does not answer ({silent}): start its master, "
                "or give the driver another one by RINGLOG_SPARK_MASTER."
            )
        others = await asyncio.to_thread(offspring)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                return await asyncio.to_thread(_start, self._settings)
        except (Py4JError, OSError, PySparkException, TimeoutError) as error:
            # While it still lives; and Java may be what does not answer.
            why = await self._said(error)
            await asyncio.to_thread(_clear, others)
            raise SparkUnreachableError(
                f"Spark at {self._settings.master} cannot be started ({why}): check that "
                "Java 17 is installed and the master can be reached."
            ) from error

    async def _watched(self, session: SparkSession, running: asyncio.Future[Any]) -> None:
        """Until the job has ended, or Java is silent."""
        while not running.done():
            done, _ = await asyncio.wait([running], timeout=LOOK_EVERY_S)
            if not done:
                await self._asked(session, partial(is_alive, session))

    async def _outcome(self, session: SparkSession, running: asyncio.Future[T]) -> T:
        error = running.exception()
        if error is None:
            return running.result()
        # Whatever it is: under a job whose Java is gone, PySpark's own parts are taken away.
        is_there = self._session is session
        if is_there and await self._asked(session, partial(is_alive, session)):
            if isinstance(error, (Py4JError, OSError, PySparkException)):
                raise JobFailedError(await self._said(error)) from error
            raise error
        if self._session is session:
            self._session = None
        raise SparkUnreachableError(
            "Spark died while it worked: it is started again with the next try."
        ) from error

    async def _cancelled(self, session: SparkSession, tag: str, job: Future[Any]) -> None:
        """Again and again: between two jobs of Spark there is nothing to cancel yet."""
        if job.cancel():
            return
        running = asyncio.wrap_future(job)
        running.add_done_callback(_ignored)
        clock = asyncio.get_running_loop().time
        deadline_s = clock() + CANCEL_TIMEOUT_S
        with suppress(SparkUnreachableError):
            while not running.done() and clock() < deadline_s:
                await self._asked(session, partial(cancel_tag, session, tag))
                await asyncio.wait([running], timeout=CANCEL_EVERY_S)
        if not running.done():
            self._give_up(session)
            await asyncio.wait([running], timeout=END_TIMEOUT_S)

    async def _asked(self, session: SparkSession, question: Callable[[], T]) -> T:
        """What Java answers, or the end of it."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._answer_timeout_s):
                return await loop.run_in_executor(self._questions, question)
        except TimeoutError as error:
            self._give_up(session)
            raise SparkUnreachableError(
                f"Spark's Java process did not answer within {self._answer_timeout_s:.0f} s and "
                "was killed: it is started again with the next try."
            ) from error

    def _give_up(self, session: SparkSession) -> None:
        """Its traces go with the next start, which no other thread is in the middle of."""
        if self._session is session:
            self._session, self._has_traces = None, True
            kill()

    async def _said(self, error: BaseException) -> str:
        """What Java has to say about an error is another question to it."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._answer_timeout_s):
                return await loop.run_in_executor(self._questions, said, error)
        except TimeoutError:
            return SILENT


def _ignored(running: asyncio.Future[Any]) -> None:
    if not running.cancelled():
        running.exception()


def _start(settings: SparkSettings) -> SparkSession:
    forget()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if settings.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(settings.master).appName(settings.name)
    for name, value in settings.all().items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def _clear(others: frozenset[int]) -> None:
    """Leave nothing of a start that failed, whatever it hangs in: no child but those before it."""
    stop(offspring() - others, signal.SIGKILL)
    forget()


def _stop(session: SparkSession | None) -> None:
    if session is not None:
        with suppress(Py4JError, OSError, PySparkException):
            session.stop()
    forget()


def _tagged(session: SparkSession, tags: tuple[str, ...], work: Work[T]) -> T:
    context = session.sparkContext
    for tag in tags:
        context.addJobTag(tag)
    # What is cancelled stops at once instead of when its task is done.
    context.setInterruptOnCancel(True)
    try:
        return work(session)
    finally:
        # The thread is used again for something else.
        with suppress(*GONE):
            context.clearJobTags()
