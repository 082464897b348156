"""What a database says of itself: its release, its clock, its schema; nothing is changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import asyncpg
import msgspec

from migrations.files import FOLDER, load

SETTINGS = ("fsync", "full_page_writes", "synchronous_commit")
"""Any of them off, and the server acknowledges what it may lose."""


class LookError(Exception):
    """The text says why the database could not be asked, without its password."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """`skew_s` is its clock less ours, `published` how far each topic is; 0 tip: no log yet."""

    version: str
    major: int
    skew_s: float
    lax: tuple[str, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    tip: int
    published: Mapping[str, int]


async def look(dsn: str, *, timeout_s: float, folder: Path = FOLDER) -> Look:
    try:
        async with asyncio.timeout(timeout_s):
            connection = await asyncpg.connect(dsn, timeout=timeout_s)
            try:
                return await _looked(connection, folder)
            finally:
                connection.terminate()
    except TimeoutError as error:
        raise LookError(f"it gave no answer within {timeout_s:.0f} s") from error
    except (OSError, ValueError) as error:
        raise LookError("it takes no connection") from error
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise LookError(str(error).splitlines()[0].rstrip(".")) from error


async def _looked(connection: asyncpg.Connection, folder: Path) -> Look:
    before_s = time.time()
    theirs_s = float(
        await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
    )
    ours_s = (before_s + time.time()) / 2
    known = [migration.name for migration in load(folder)]
    applied = await _names(connection)
    version = connection.get_server_version()
    return Look(
        version=f"{version.major}.{version.minor}",
        major=version.major,
        skew_s=theirs_s - ours_s,
        lax=tuple([name for name in SETTINGS if await _is_off(connection, name)]),
        missing=tuple(name for name in known if name not in applied),
        unknown=tuple(name for name in applied if name not in known),
        tip=await _tip(connection),
        published=await _published(connection),
    )


async def _is_off(connection: asyncpg.Connection, setting: str) -> bool:
    return bool(await connection.fetchval("SELECT current_setting($1)", setting) == "off")


async def _has(connection: asyncpg.Connection, table: str) -> bool:
    return await connection.fetchval("SELECT to_regclass($1)", table) is not None


async def _names(connection: asyncpg.Connection) -> list[str]:
    if not await _has(connection, "schema_migrations"):
        return []
    rows = await connection.fetch("SELECT name FROM schema_migrations ORDER BY number")
    return [row["name"] for row in rows]


async def _tip(connection: asyncpg.Connection) -> int:
    if not await _has(connection, "log_entries"):
        return 0
    return int(await connection.fetchval("SELECT coalesce(max(epoch), 0) FROM log_entries"))


async def _published(connection: asyncpg.Connection) -> dict[str, int]:
    if not await _has(connection, "fanout_positions"):
        return {}
    rows = await connection.fetch("SELECT topic, epoch FROM fanout_positions")
    return {row["topic"]: row["epoch"] for row in rows}
