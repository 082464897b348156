"""Keys that are read in one message fail or not each by itself."""

from __future__ import annotations

import pytest

from metadata.tokens import FULL
from services.http.data_messages import ReplicaKey, ReplicaRead
from services.http.problems import ProblemError
from store.keys import key_of
from tests.integration.data_cluster import data_cluster


async def test_a_damaged_segment_fails_only_the_keys_that_it_may_hold(database, tmp_path):
    async with data_cluster(database, tmp_path, nodes=1, factor=1) as one:
        metadata = one.home.applied.metadata
        subject = one.nodes[1]

        async def read(*texts):
            found = [key_of(one.table(), metadata.cluster.partitioner, text) for text in texts]
            keys = tuple(ReplicaKey(token=key.token, key=key.text) for key in found)
            message = ReplicaRead(epoch=metadata.epoch, table=one.table().id, keys=keys)
            return await subject.plane.replica.read(message)

        await one.put("cold", {"a_int": 1})
        (segment,) = await subject.plane.store.flush(one.table(), (FULL,))
        await one.put("hot", {"a_int": 2})
        (one.settings(1).state_dir / "data" / segment.path).unlink()

        answer = await read("none", "cold", "hot")

        assert answer.refused == {1: "unusable_segment"}
        assert [row and row.key for row in answer.rows] == [None, None, "hot"]
        with pytest.raises(ProblemError, match="segment") as raised:
            await read("cold")
        assert raised.value.problem.code == "unusable_segment"
        assert (await one.get("hot"))[0] == 200
        status, problem = await one.get("cold")
        assert (status, problem["code"]) == (503, "unavailable_replicas")
        assert "unusable_segment" in problem["detail"]
