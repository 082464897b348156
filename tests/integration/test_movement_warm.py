"""The Spark application of a driver: kept warm, cancelled by tag, started again when it died."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from pyspark import SparkContext

from movement.spark import JobFailedError, SparkUnreachableError
from services.local.waiting import until
from tests.fixtures.spark import nothing_runs

pytestmark = pytest.mark.asyncio(loop_scope="session")

WAIT_S = 60.0
ALONE_S = 100.0
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

AHEAD = """
import asyncio
from pyspark import SparkContext
from movement.spark import Spark, SparkSettings, SparkUnreachableError
from services.driver.moving import kept_warm

async def main():
    spark = Spark(SparkSettings(memory="512m"))
    async with kept_warm(spark, after_s=0.0):
        for _ in range(WAITS):
            if SparkContext._active_spark_context is not None:
                print("it runs before anybody asked")
                break
            await asyncio.sleep(0.05)
        try:
            print(await spark.run("x", lambda session: session.range(5).count()))
        except SparkUnreachableError as error:
            print(error)
    print("closed", SparkContext._active_spark_context)

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


async def test_a_call_that_is_cancelled_ends_no_other_of_the_same_tag(warm_spark):
    """Or a batch that fails would let the others fail first, and nobody would learn why."""
    one = await begun(warm_spark, "same")
    alone = (await warm_spark.tasks("same")).all
    other = asyncio.ensure_future(warm_spark.run("same", endless))
    async with asyncio.timeout(WAIT_S):
        while (await warm_spark.tasks("same")).all == alone:  # noqa: ASYNC110 another process
            await asyncio.sleep(0.01)

    one.cancel()
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(asyncio.CancelledError):
            await one

    assert not other.done()
    assert (await warm_spark.tasks("same")).all == alone
    await warm_spark.cancel("same")
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


async def alone(code, **environment):
    """In a process of its own, because an application is one per process."""
    found = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(HERE), **environment},
        capture_output=True,
        text=True,
        timeout=ALONE_S,
        check=True,
    )
    return found.stdout


async def test_a_machine_without_java_is_told_apart():
    found = await alone(ALONE, JAVA_HOME="/nowhere")

    assert "Spark at local[2] cannot be started" in found
    assert "check that Java 17 is installed" in found


async def test_a_driver_starts_spark_before_it_is_asked():
    found = await alone(AHEAD.replace("WAITS", "1800"))

    assert found.splitlines()[-3:] == ["it runs before anybody asked", "5", "closed None"]


async def test_a_driver_goes_on_where_spark_cannot_be_started():
    """The job that needs it says why."""
    found = await alone(AHEAD.replace("WAITS", "1"), JAVA_HOME="/nowhere")

    assert "Spark at local[2] cannot be started" in found
    assert found.splitlines()[-1] == "closed None"


STOPPED_AT_THE_START = """
import asyncio
from pathlib import Path
from movement.spark import Spark, SparkSettings
from services.driver.moving import kept_warm

async def main():
    async with kept_warm(Spark(SparkSettings()), after_s=0.0):
        while not Path(BEGUN).exists():
            await asyncio.sleep(0.05)
    print("closed")

asyncio.run(main())
"""


async def test_a_driver_that_is_stopped_does_not_wait_for_spark_to_start(tmp_path):
    """This Java never gets anywhere."""
    java, begun = tmp_path / "bin" / "java", tmp_path / "begun"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho $$ > {begun}\nexec sleep 1000\n")
    java.chmod(0o755)

    found = await alone(
        STOPPED_AT_THE_START.replace("BEGUN", repr(str(begun))), JAVA_HOME=str(tmp_path)
    )

    assert "closed" in found
    await until(partial(is_over, int(begun.read_text())), timeout_s=WAIT_S)


def is_over(pid):
    """Also if nobody has asked yet how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
