"""What is asked of the Java process behind a Spark session. None of it has a limit of its own."""

from __future__ import annotations

from contextlib import suppress

import msgspec
from py4j.protocol import (  # type: ignore[import-untyped] # ships no types
    Py4JError,
    Py4JNetworkError,
)
from pyspark import SparkContext
from pyspark.sql import SparkSession

ERROR_CHARS_MAX = 300
CAUSES_MAX = 4
NO_SPACE = "No space left on device"
SILENT = "its Java process does not answer"

GONE = (Py4JError, OSError, AttributeError)
"""What a question meets whose Java is gone: PySpark takes its own parts away, too."""


class Tasks(msgspec.Struct, frozen=True):
    """Of the jobs with a tag that run now; `executors` is how many there are to run them."""

    done: int
    all: int
    executors: int = 0


NO_TASKS = Tasks(0, 0)


def is_alive(session: SparkSession) -> bool:
    try:
        return not session.sparkContext._jsc.sc().isStopped()  # noqa: SLF001 - no public way
    except GONE:
        return False


def cancel_tag(session: SparkSession, tag: str) -> None:
    with suppress(*GONE):
        session.sparkContext.cancelJobsWithTag(tag)


def tasks_of(session: SparkSession, tag: str) -> Tasks:
    context = session.sparkContext
    try:
        jobs = context._jsc.sc().statusTracker().getJobIdsForTag(tag)  # noqa: SLF001 - has tags
        tracker = context.statusTracker()
        found = [tracker.getJobInfo(job) for job in jobs]
        running = [info for info in found if info is not None and info.status == "RUNNING"]
        stages = [tracker.getStageInfo(stage) for info in running for stage in info.stageIds]
        executors = _executors(context)
    except GONE:
        return NO_TASKS
    known = [stage for stage in stages if stage is not None]
    done, every = sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known)
    return Tasks(done, every, executors)


def _executors(context: SparkContext) -> int:
    """Spark counts its driver among them, which runs tasks only where nobody else does."""
    found = context._jsc.sc().statusTracker().getExecutorInfos()  # noqa: SLF001 - no public way
    master = str(context.master)
    is_alone = master == "local" or master.startswith("local[")
    return len(found) if is_alone else len(found) - 1


def said(error: BaseException) -> str:
    """What a person can use of an error: its own message and those of its causes."""
    if isinstance(error, Py4JNetworkError):
        return SILENT
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
    told = "; ".join(short) or type(error).__name__
    return f"{told}: free some space and try again" if NO_SPACE in told else told
