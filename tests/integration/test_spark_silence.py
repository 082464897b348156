"""A Java process that says nothing holds nobody up: it is killed, and another one started."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest
from pyspark import SparkContext

from movement.spark import SparkUnreachableError
from tests.integration.test_movement_warm import WAIT_S, begun

pytestmark = pytest.mark.asyncio(loop_scope="session")

ANSWER_S = 3.0
NEVER_S = 3600.0


@pytest.fixture
def impatient(warm_spark, monkeypatch):
    """Nobody looks after a job in these tests unless they say so."""
    monkeypatch.setattr(warm_spark, "_answer_timeout_s", ANSWER_S)
    monkeypatch.setattr("movement.spark.LOOK_EVERY_S", NEVER_S)
    return warm_spark


def java():
    return getattr(SparkContext._gateway, "proc")  # noqa: B009 - not in its type


def stopped():
    """It is there, and answers nothing: as in a long collection of garbage."""
    process = java()
    os.kill(process.pid, signal.SIGSTOP)
    return process


def counted(session):
    return session.range(5).count()


async def works(spark, process):
    """Another Java does what the one before did not."""
    assert await spark.run("x", counted) == 5
    assert process.poll() == -signal.SIGKILL
    assert java().pid != process.pid


async def test_a_job_of_a_silent_java_fails_and_says_so(impatient, monkeypatch):
    monkeypatch.setattr("movement.spark.LOOK_EVERY_S", 0.1)
    task = await begun(impatient, "x")
    process = stopped()

    async with asyncio.timeout(WAIT_S):
        with pytest.raises(SparkUnreachableError, match=r"did not answer within 3 s and was kill"):
            await task

    await works(impatient, process)


async def test_a_cancel_ends_where_java_is_silent(impatient):
    task = await begun(impatient, "x")
    process = stopped()

    task.cancel()
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(asyncio.CancelledError):
            await task

    await works(impatient, process)


async def test_a_job_that_cannot_be_cancelled_ends_with_its_java(impatient, monkeypatch):
    monkeypatch.setattr("movement.spark.CANCEL_TIMEOUT_S", 0.5)
    begun_, release = threading.Event(), threading.Event()

    def stubborn(session):
        begun_.set()
        release.wait(WAIT_S)
        return counted(session)

    task = asyncio.ensure_future(impatient.run("x", stubborn))
    await asyncio.to_thread(begun_.wait, WAIT_S)
    process = java()
    task.cancel()
    await asyncio.to_thread(process.wait, WAIT_S)
    release.set()
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(asyncio.CancelledError):
            await task

    await works(impatient, process)


async def test_nobody_waits_for_a_silent_java_to_sweep_or_to_look(impatient):
    await impatient.warm()
    process = stopped()

    async with asyncio.timeout(WAIT_S):
        await impatient.cancel("x")
        assert (await impatient.tasks("x")).all == 0

    await works(impatient, process)


async def test_a_silent_java_is_not_waited_for_by_those_who_need_it(impatient):
    await impatient.warm()
    process = stopped()

    async with asyncio.timeout(WAIT_S):
        with pytest.raises(SparkUnreachableError, match="did not answer within 3 s"):
            await impatient.warm()

    await works(impatient, process)


async def test_a_job_whose_java_another_one_has_replaced_says_so(impatient):
    """Whatever PySpark raises where its own parts are gone: here an AttributeError."""
    begun_, release = threading.Event(), threading.Event()

    def late(session):
        begun_.set()
        release.wait(WAIT_S)
        return session.sparkContext.defaultParallelism

    task = asyncio.ensure_future(impatient.run("late", late))
    await asyncio.to_thread(begun_.wait, WAIT_S)
    process = java()
    process.kill()

    await works(impatient, process)
    release.set()
    with pytest.raises(SparkUnreachableError, match="Spark died while it worked") as told:
        await task
    assert isinstance(told.value.__cause__, AttributeError)


async def test_a_mistake_in_a_job_is_not_taken_for_the_end_of_java(impatient):
    def mistaken(_session):
        raise KeyError("no such thing")

    with pytest.raises(KeyError, match="no such thing"):
        await impatient.run("x", mistaken)
