"""A join in a CMS of the test's own, without nodes and drivers: the test takes each step."""

from __future__ import annotations

import contextlib

from encoding.json import transformation_json
from tests.builders import due_step, only_sequence
from tests.integration.test_cms_reports import tell
from tests.integration.test_cms_sequences import committed, driven, joining
from tests.integration.test_cms_serving import served

ROWS = 4000
BYTES = 80_000


@contextlib.asynccontextmanager
async def a_join(**more):
    """Of node 4, prepared; nodes 1 to 3 hold the same 4,000 rows."""
    async with served(founded=False, **more) as client:
        await joining(client)
        for number in (1, 2, 3):
            await tell(client, number, data={"k.t": {"rows": ROWS, "bytes": BYTES}})
        yield client


def address_of(client):
    return str(client.session._base_url).rstrip("/")


async def step(client):
    """Take the due one, as an honest driver would; gives its name."""
    metadata = client.engine.applied.metadata
    sequence = only_sequence(metadata)
    await committed(client, **transformation_json(due_step(metadata, sequence)))
    return sequence.due.value


def copying(rows_done, rows_per_s):
    """What a driver tells on the way from START to MID."""
    moved = {"phase": "copying", "rows_done": rows_done, "rows_total": 3000}
    sized = {"bytes_done": rows_done * 20, "bytes_total": 60_000, "rows_per_s": rows_per_s}
    return driven(step="mid", doing="moving", moved={**moved, **sized})
