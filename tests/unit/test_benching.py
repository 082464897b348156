"""`ringlog bench`: what it tells, and that it leaves nothing behind."""

import asyncio

import pytest

from client.answers import Committed, Rejected
from client.errors import UnreachableError
from client.proposals import new_entry_id
from metadata.epoch import Epoch
from ringlog.commands.benching import Measured, measured, percentile
from transformations.extensions import SetExtension
from transformations.outcome import Result


class Extensions:
    """A cluster that has nothing else; from `fails_at` on it answers `failure`, except to clear."""

    def __init__(self, fails_at=None, failure=None):
        self.epoch = 0
        self.kept = set()
        self.seen = set()
        self.failing = asyncio.Event()
        self._fails_at = fails_at
        self._failure = failure

    async def commit(self, transformation, *, actor):
        assert actor
        await asyncio.sleep(0)
        self.epoch += 1
        if not isinstance(transformation, SetExtension):
            if transformation.name not in self.kept:
                return Rejected(code="unknown_extension", detail="it is not set")
            self.kept.remove(transformation.name)
        elif self._fails_at is not None and self.epoch >= self._fails_at:
            return await self._fail()
        else:
            self.kept.add(transformation.name)
            self.seen.add(transformation.name)
        return Committed(
            epoch=Epoch(self.epoch), entry_id=new_entry_id(), result=Result(), hash=bytes(32)
        )

    async def _fail(self):
        self.failing.set()
        if isinstance(self._failure, Exception):
            raise self._failure
        if self._failure is None:
            await asyncio.Event().wait()
        return self._failure


async def test_it_tells_what_it_did_and_clears_its_few_names():
    cluster = Extensions()
    found = await measured(cluster, seconds=0.05, connections=3)

    assert isinstance(found, Measured)
    assert cluster.seen == {"bench.0", "bench.1", "bench.2"}
    assert not cluster.kept
    assert (found.first, found.last, found.cleared) == (1, found.commits, 3)
    assert 0 < found.p50_ms <= found.p99_ms


async def test_a_refusal_ends_it():
    refusal = Rejected(code="not_founded", detail="no cluster")

    assert await measured(Extensions(1, refusal), seconds=60.0, connections=3) is refusal


async def test_a_cluster_that_goes_away_ends_it_with_what_the_client_says():
    cluster = Extensions(10, UnreachableError("No CMS answered."))
    with pytest.raises(UnreachableError):
        await measured(cluster, seconds=60.0, connections=3)

    assert not cluster.kept


async def test_broken_off_it_still_clears():
    cluster = Extensions(10)
    task = asyncio.create_task(measured(cluster, seconds=60.0, connections=3))
    await cluster.failing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not cluster.kept


def test_a_percentile_is_one_of_the_values():
    assert [percentile([1.0, 2.0, 3.0, 4.0], share) for share in (0.0, 0.5, 0.99)] == [1, 2, 4]
    assert percentile([7.0], 0.5) == 7
