"""Rows as large as they may be are read by many at once."""

from __future__ import annotations

import asyncio

from services.node.data.replica import ANSWER_BYTES_MAX
from tests.integration.data_cluster import data_cluster

ROW_BYTES = 900 * 1024
ROWS = 12


async def test_large_rows_that_are_read_together_all_arrive(database, tmp_path):
    """More than one answer holds, from a replica that is not the coordinator's own."""
    assert ROWS * ROW_BYTES > 2 * ANSWER_BYTES_MAX
    async with data_cluster(database, tmp_path, nodes=2, factor=1) as two:
        keys = [f"k{number}" for number in range(200)]
        far = [key for key in keys if set(two.owners(key)) == {2}][:ROWS]
        assert len(far) == ROWS
        for number, key in enumerate(far):
            columns = {"a_int": number, "a_string": "x" * ROW_BYTES}
            assert (await two.put(key, columns, number=2))[0] == 200

        found = await asyncio.gather(*(two.get(key, number=1) for key in far))

        assert [(status, body["columns"]["a_int"]) for status, body in found] == [
            (200, number) for number in range(ROWS)
        ]
