"""A process stops when it is asked to, also before it has found what it needs to begin."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from tests.integration.data_cluster import data_cluster

TIMEOUT_S = 60.0
"""Less than it looks for a CMS or a database."""
NOBODY = "http://127.0.0.1:9"


async def stopped_after(event: bytes, role: str, **settings: str) -> bytes:
    """What a process says after it was asked to stop, which it was when it had said this."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"services.{role}",
        env={**os.environ, "RINGLOG_LISTEN": "127.0.0.1:0", **settings},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while event not in (line := await process.stderr.readline()):
                assert line, "it has ended by itself"
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(TIMEOUT_S):
            _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert (process.returncode, b"Traceback" in said) == (0, False), said
    return said


async def test_a_driver_that_still_looks_for_a_cms_stops_when_it_is_asked():
    said = await stopped_after(b"seeds_away", "driver", RINGLOG_SEEDS=NOBODY)
    assert b"stopping" not in said


async def test_a_new_node_that_still_looks_for_a_cms_stops_when_it_is_asked(tmp_path):
    said = await stopped_after(
        b"seeds_away", "node", RINGLOG_SEEDS=NOBODY, RINGLOG_STATE_DIR=str(tmp_path)
    )
    assert b"stopping" not in said


async def test_a_cms_that_still_waits_for_its_database_stops_when_it_is_asked():
    said = await stopped_after(
        b"database_away", "cms", RINGLOG_POSTGRES_DSN="postgresql://nobody@127.0.0.1:9/none"
    )
    assert b"stopping" not in said


async def test_a_driver_that_drives_stops_when_it_is_asked(database, tmp_path):
    async with data_cluster(database, tmp_path, nodes=1, factor=1) as made:
        said = await stopped_after(b'"ready"', "driver", RINGLOG_SEEDS=made.home.url)
    assert b"stopping" in said
