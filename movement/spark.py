"""A Spark application that is kept warm, whose jobs can be told apart, watched and cancelled.

SparkError
├─ SparkUnreachableError   it cannot be started, or is gone
└─ JobFailedError          a job failed; its text says where
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from subprocess import Popen, TimeoutExpired
from typing import Any, TypeAlias, TypeVar

import msgspec
from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped] # ships no types
from py4j.protocol import (  # type: ignore[import-untyped] # ships no types
    Py4JError,
    Py4JNetworkError,
)
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from movement.masters import silence
from movement.offspring import stop_all

T = TypeVar("T")
Work: TypeAlias = Callable[[SparkSession], T]

START_TIMEOUT_S = 120.0
JOB_TIMEOUT_S = 6 * 3600.0
CANCEL_TIMEOUT_S = 60.0
CANCEL_EVERY_S = 0.1
CLOSE_TIMEOUT_S = 30.0
END_TIMEOUT_S = 10.0
JOBS_AT_ONCE_MAX = 4
ERROR_CHARS_MAX = 300
NO_SPACE = "No space left on device"
CAUSES_MAX = 4

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


class Tasks(msgspec.Struct, frozen=True):
    """Of the jobs with a tag that run now."""

    done: int
    all: int


class Spark:
    """Started by `warm` or when it is first needed, and again when it died. One per process."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._session: SparkSession | None = None
        self._starting = asyncio.Lock()
        self._threads = ThreadPoolExecutor(JOBS_AT_ONCE_MAX, thread_name_prefix="spark")

    async def warm(self) -> None:
        """Start it, unless it runs. Raises what a job would; whoever comes next tries again."""
        await self._started()

    async def run(self, tag: str, work: Work[T]) -> T:
        """What `work` gives; whatever it runs bears the tag, and is cancelled with this call.

        When this returns or raises, nothing of it runs any more.
        """
        session = await self._started()
        job = self._threads.submit(_tagged, session, tag, work)
        running = asyncio.wrap_future(job)
        # Whoever cancels does not ask how it ended, also if that is later.
        running.add_done_callback(_ignored)
        try:
            async with asyncio.timeout(JOB_TIMEOUT_S):
                return await asyncio.shield(running)
        except asyncio.CancelledError:
            await _cancelled(session, tag, job)
            raise
        except TimeoutError as error:
            await _cancelled(session, tag, job)
            raise JobFailedError(f"It took longer than {JOB_TIMEOUT_S:.0f} s.") from error
        except (Py4JError, OSError, PySparkException) as error:
            if not await asyncio.to_thread(_is_alive, session):
                self._session = None
                raise SparkUnreachableError(
                    "Spark died while it worked: it is started again with the next try."
                ) from error
            raise JobFailedError(_said(error)) from error

    async def cancel(self, tag: str) -> None:
        """All jobs with this tag, whoever started them."""
        if self._session is not None:
            await asyncio.to_thread(_cancel_tag, self._session, tag)

    async def tasks(self, tag: str) -> Tasks:
        """How far the running jobs are; none if Spark is not running."""
        if self._session is None:
            return Tasks(0, 0)
        return await asyncio.to_thread(_tasks, self._session, tag)

    async def call_off(self) -> None:
        """Give up a start that is under way, by stopping its Java process: this one's only child.

        Whoever waits for the start learns that it failed.
        """
        if self._starting.locked():
            await asyncio.to_thread(stop_all)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await asyncio.to_thread(_stop, session)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _started(self) -> SparkSession:
        async with self._starting:
            if self._session is None or not await asyncio.to_thread(_is_alive, self._session):
                self._session = None
                self._session = await self._start()
            return self._session

    async def _start(self) -> SparkSession:
        silent = await silence(self._settings.master)
        if silent is not None:
            raise SparkUnreachableError(
                f"Spark at {self._settings.master} does not answer ({silent}): start its master, "
                "or give the driver another one by RINGLOG_SPARK_MASTER."
            )
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                return await asyncio.to_thread(_start, self._settings)
        except (Py4JError, OSError, PySparkException, TimeoutError) as error:
            await asyncio.to_thread(_forget)
            raise SparkUnreachableError(
                f"Spark at {self._settings.master} cannot be started ({_said(error)}): check that "
                "Java 17 is installed and the master can be reached."
            ) from error


async def _cancelled(session: SparkSession, tag: str, job: Future[Any]) -> None:
    """Again and again: between two jobs of Spark there is nothing to cancel yet."""
    if job.cancel():
        return
    running = asyncio.wrap_future(job)
    running.add_done_callback(_ignored)
    clock = asyncio.get_running_loop().time
    deadline_s = clock() + CANCEL_TIMEOUT_S
    while not running.done() and clock() < deadline_s:
        await asyncio.to_thread(_cancel_tag, session, tag)
        await asyncio.wait([running], timeout=CANCEL_EVERY_S)


def _ignored(running: asyncio.Future[Any]) -> None:
    if not running.cancelled():
        running.exception()


def _start(settings: SparkSettings) -> SparkSession:
    _forget()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if settings.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(settings.master).appName(settings.name)
    for name, value in settings.all().items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def _forget() -> None:
    """Leave nothing of a Java process that is gone, or of a start that failed halfway."""
    context = SparkContext._active_spark_context  # noqa: SLF001 - no public way to drop it
    if context is not None:
        with suppress(Py4JError, OSError, PySparkException):
            context.stop()
    gateway = SparkContext._gateway  # noqa: SLF001 - as above
    if gateway is not None:
        _end(gateway)
    SparkContext._gateway = None  # noqa: SLF001 - as above
    SparkContext._jvm = None  # noqa: SLF001 - as above
    SparkContext._active_spark_context = None  # noqa: SLF001 - as above
    SparkSession._instantiatedSession = None  # noqa: SLF001 - as above


def _end(gateway: JavaGateway) -> None:
    """Its Java process ends when its standard input does."""
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    process: Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(END_TIMEOUT_S)
    except TimeoutExpired:
        process.kill()
        process.wait()


def _stop(session: SparkSession) -> None:
    with suppress(Py4JError, OSError, PySparkException):
        session.stop()
    _forget()


def _is_alive(session: SparkSession) -> bool:
    try:
        return not session.sparkContext._jsc.sc().isStopped()  # noqa: SLF001 - no public way
    except (Py4JError, OSError, AttributeError):
        return False


def _tagged(session: SparkSession, tag: str, work: Work[T]) -> T:
    context = session.sparkContext
    context.addJobTag(tag)
    # What is cancelled stops at once instead of when its task is done.
    context.setInterruptOnCancel(True)
    try:
        return work(session)
    finally:
        # The thread is used again for something else.
        with suppress(Py4JError, OSError):
            context.clearJobTags()


def _cancel_tag(session: SparkSession, tag: str) -> None:
    with suppress(Py4JError, OSError):
        session.sparkContext.cancelJobsWithTag(tag)


def _tasks(session: SparkSession, tag: str) -> Tasks:
    context = session.sparkContext
    try:
        jobs = context._jsc.sc().statusTracker().getJobIdsForTag(tag)  # noqa: SLF001 - has tags
        tracker = context.statusTracker()
        found = [tracker.getJobInfo(job) for job in jobs]
        running = [info for info in found if info is not None and info.status == "RUNNING"]
        stages = [tracker.getStageInfo(stage) for info in running for stage in info.stageIds]
    except (Py4JError, OSError):
        return Tasks(0, 0)
    known = [stage for stage in stages if stage is not None]
    return Tasks(sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known))


def _said(error: BaseException) -> str:
    """What a person can use of an error: its own message and those of its causes."""
    if isinstance(error, Py4JNetworkError):
        return "its Java process does not answer"
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    texts = [str(error)] if cause is None else []
    for _ in range(CAUSES_MAX):
        if cause is None:
            break
        try:
            texts.append(str(cause.getMessage()))
            cause = cause.getCause()
        except (Py4JError, OSError):
            break
    short = dict.fromkeys(" ".join(text.split())[:ERROR_CHARS_MAX] for text in texts)
    said = "; ".join(short) or type(error).__name__
    return f"{said}: free some space and try again" if NO_SPACE in said else said
