"""What an attempt has published is used by the next one, and withdrawn only if it is of no use."""

from __future__ import annotations

import pytest
import pytest_asyncio

from movement import jobs, taking
from movement.spark import JobFailedError
from sequences.ports import WorkError
from services.driver.copying import Copying
from tests.integration.moving_nodes import store_nodes
from tests.integration.test_movement_spark import fill, joining, mid, moved
from transformations.join import MidJoin

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def joined(tmp_path):
    async with store_nodes(tmp_path, joining()) as nodes:
        await fill(nodes)
        yield nodes


async def test_what_was_published_is_used_again(warm_spark, joined):
    """After a crash between publishing and MID nothing is copied again."""
    first = await moved(warm_spark, joined)
    files = joined.staged(5)
    joined.flushed.clear()

    second = await moved(warm_spark, joined)

    assert second == first
    assert joined.staged(5) == files
    assert joined.flushed == []


async def test_a_staged_file_that_was_lost_is_made_again(warm_spark, joined):
    """Nothing was imported yet, as after a power cut."""
    await stopped_before_the_import(warm_spark, joined)
    for path in joined.staged(5):
        if path.suffix == ".parquet":
            path.write_bytes(path.read_bytes()[:-1])

    mid(joined.metadata, MidJoin, await moved(warm_spark, joined))


def has_manifest(nodes):
    return any(path.suffix == ".json" for path in nodes.staged(5))


async def test_what_was_imported_is_never_withdrawn(warm_spark, joined):
    """A target takes one list of files under a name, so another could never be imported."""
    first = await moved(warm_spark, joined)
    for path in joined.staged(5):
        if path.suffix == ".parquet":
            path.rename(path.with_suffix(".gone"))

    with pytest.raises(WorkError):
        await moved(warm_spark, joined)

    assert has_manifest(joined)
    for path in joined.staged(5):
        if path.suffix == ".gone":
            path.rename(path.with_suffix(".parquet"))
    assert await moved(warm_spark, joined) == first


async def test_what_another_has_published_meanwhile_is_not_withdrawn(
    warm_spark, joined, monkeypatch
):
    """Two find the same files spoilt; the slower one looks while the other copies and imports."""
    await stopped_before_the_import(warm_spark, joined)
    for path in joined.staged(5):
        if path.suffix == ".parquet":
            path.write_bytes(path.read_bytes()[:-1])
    looks = Copying.is_whole

    async def slow(copying, manifest):
        monkeypatch.setattr(Copying, "is_whole", looks)
        found = await looks(copying, manifest)
        await moved(warm_spark, joined)
        return found

    monkeypatch.setattr(Copying, "is_whole", slow)

    receipts = await moved(warm_spark, joined)

    assert await moved(warm_spark, joined) == receipts
    mid(joined.metadata, MidJoin, receipts)


async def stopped_before_the_import(spark, nodes):
    imports = nodes.take_over

    async def dead(node, _wanted):
        raise WorkError(f"node {node} does not answer")

    nodes.take_over = dead
    with pytest.raises(WorkError, match="node 5 does not answer"):
        await moved(spark, nodes)
    nodes.take_over = imports


async def test_a_check_that_fails_withdraws_nothing(warm_spark, joined, monkeypatch):
    """A disk of Spark's that is full for a while says nothing of the files."""

    def fail(*_given):
        raise JobFailedError("No space left on device")

    await stopped_before_the_import(warm_spark, joined)
    files = joined.staged(5)
    with monkeypatch.context() as full:
        full.setattr(jobs, "written", fail)
        full.setattr(taking, "hashed", fail)
        with pytest.raises(WorkError, match="No space left on device"):
            await moved(warm_spark, joined)

    mid(joined.metadata, MidJoin, await moved(warm_spark, joined))
    assert joined.staged(5) == files
