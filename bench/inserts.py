"""The limit: plain inserts by pgbench into the same Postgres, without log, chain or HTTP."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from services.local.postgres_files import files_in, programs

THREADS = 2

# Rows as wide as an entry, with a key that only grows.
_TABLE = "CREATE TABLE IF NOT EXISTS bench_inserts (id bigserial PRIMARY KEY, payload bytea)"
_INSERT = """
INSERT INTO bench_inserts (payload) SELECT decode(repeat('ab', 300), 'hex')
FROM generate_series(1, {batch});
"""
_ONE = "INSERT INTO bench_inserts (payload) VALUES (decode(repeat('ab', 300), 'hex'));"
_TPS = re.compile(rb"tps = ([0-9.]+)")


async def inserts_per_second(
    dsn: str, folder: Path, *, connections: int, batch: int, seconds: float
) -> float | None:
    """Rows per second; None where the server does not take so many connections."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(_TABLE)
        room = int(await connection.fetchval("SELECT current_setting('max_connections')")) * 3 // 4
    finally:
        await connection.close()
    if connections > room:
        return None
    script = folder / "insert.sql"
    script.write_text(_ONE if batch == 1 else _INSERT.format(batch=batch))
    return batch * await _tps(dsn, folder, script, connections, seconds)


async def _tps(dsn: str, folder: Path, script: Path, connections: int, seconds: float) -> float:
    server = urlsplit(dsn)
    process = await asyncio.create_subprocess_exec(
        programs(files_in(folder)) / "pgbench",
        *("--no-vacuum", "--protocol=prepared", f"--file={script}"),
        *(f"--client={connections}", f"--jobs={min(THREADS, connections)}"),
        f"--time={max(1, round(seconds))}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        # Not as arguments: everybody sees those.
        env={
            **os.environ,
            "PGHOST": server.hostname or "",
            "PGPORT": str(server.port),
            "PGUSER": server.username or "",
            "PGPASSWORD": server.password or "",
            "PGDATABASE": server.path.removeprefix("/"),
        },
    )
    output, _ = await process.communicate()
    found = _TPS.search(output)
    if found is None:
        raise RuntimeError(f"pgbench failed: {output.decode(errors='replace')}")
    return float(found[1])
