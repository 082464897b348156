"""A Spark that has nobody to run its tasks says so."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import pyspark
import pytest

from movement.masters import silence
from services.local.ports import HeldPorts
from tests.integration.test_movement_warm import WAIT_S, alone, begun

pytestmark = pytest.mark.asyncio(loop_scope="session")

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
MASTER_CLASS = "org.apache.spark.deploy.master.Master"
UNATTENDED = """
import asyncio
from movement.spark import Spark, SparkSettings

async def main():
    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    spark = Spark(SparkSettings(master=MASTER, memory="512m", more=local))
    task = asyncio.ensure_future(spark.run("x", lambda session: session.range(5).count()))
    async with asyncio.timeout(60):
        while not (found := await spark.tasks("x")).all:
            assert not task.done(), task
            await asyncio.sleep(0.1)
    print(found.executors)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await spark.close()

asyncio.run(main())
"""


@asynccontextmanager
async def a_master():
    """Of a cluster without workers."""
    with HeldPorts() as ports:
        port = ports.hold()
    process = await asyncio.create_subprocess_exec(
        *(SPARK_CLASS, MASTER_CLASS, "--host", "127.0.0.1"),
        *("--port", str(port), "--webui-port", "0"),
        stderr=asyncio.subprocess.DEVNULL,
    )
    url = f"spark://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(WAIT_S):
            while await silence(url) is not None:
                assert process.returncode is None
                await asyncio.sleep(0.1)
        yield url
    finally:
        process.kill()
        await process.wait()


async def test_a_job_that_no_worker_takes_has_no_executor():
    async with a_master() as url:
        found = await alone(UNATTENDED.replace("MASTER", repr(url)))

    assert found.split() == ["0"]


async def test_a_spark_of_this_machine_is_its_own_executor(warm_spark):
    task = await begun(warm_spark, "x")

    assert (await warm_spark.tasks("x")).executors == 1

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
