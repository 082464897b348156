"""The Spark application of a driver: kept warm, cancelled by tag, started again when it died."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext

from movement.spark import JobFailedError, SparkUnreachableError
from tests.fixtures.spark import nothing_runs

pytestmark = pytest.mark.asyncio(loop_scope="session")

WAIT_S = 60.0
HERE = Path(__file__).resolve().parents[2]
ALONE = """
import asyncio
from movement.spark import Spark, SparkSettings, SparkUnreachableError

async def main():
    spark = Spark(SparkSettings())
    try:
        await spark.run("x", lambda session: session.range(1).count())
    except SparkUnreachableError as error:
        print(error)
    await spark.close()

asyncio.run(main())
"""


def endless(session):
    return session.range(10**13).selectExpr("sum(id % 7)").collect()


async def begun(spark, tag):
    """A job that runs, and would for hours."""
    task = asyncio.ensure_future(spark.run(tag, endless))
    async with asyncio.timeout(WAIT_S):
        while not (await spark.tasks(tag)).all:
            assert not task.done(), task
            await asyncio.sleep(0.01)
    return task


async def test_what_is_cancelled_stops_and_the_rest_goes_on(warm_spark):
    one, other = await begun(warm_spark, "one"), await begun(warm_spark, "other")

    one.cancel()
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(asyncio.CancelledError):
            await one

    await nothing_runs(warm_spark, "one")
    assert (await warm_spark.tasks("other")).all > 0
    await warm_spark.cancel("other")
    with pytest.raises(JobFailedError, match="cancel"):
        await other


async def test_a_job_that_fails_says_why(warm_spark):
    with pytest.raises(JobFailedError, match="DIVIDE_BY_ZERO"):
        await warm_spark.run("x", lambda session: session.sql("SELECT 1 / 0").collect())


async def test_a_full_disk_is_told_with_what_to_do(warm_spark):
    query = "SELECT raise_error('part-0: No space left on device')"

    with pytest.raises(JobFailedError, match=r"part-0: .*: free some space and try again"):
        await warm_spark.run("x", lambda session: session.sql(query).collect())


async def test_spark_is_started_again_when_it_died(warm_spark):
    task = await begun(warm_spark, "x")
    process = getattr(SparkContext._gateway, "proc")  # noqa: B009 - not in its type

    os.kill(process.pid, signal.SIGKILL)
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(SparkUnreachableError, match="Spark died while it worked"):
            await task

    assert await warm_spark.run("x", lambda session: session.range(5).count()) == 5
    assert process.poll() is not None


async def test_a_machine_without_java_is_told_apart():
    """In a process of its own, because an application is one per process."""
    environment = {**os.environ, "JAVA_HOME": "/nowhere", "PYTHONPATH": str(HERE)}
    found = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", ALONE],
        env=environment,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )

    assert "Spark at local[2] cannot be started" in found.stdout
    assert "check that Java 17 is installed" in found.stdout
