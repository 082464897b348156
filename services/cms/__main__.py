"""One CMS process: `python -m services.cms`, told everything by its environment."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import msgspec
import structlog
import uvloop

from log.batch import Stamp
from log.notify import listen
from log.postgres import PostgresLog
from log.postgres_sessions import BROKEN, NotDurableError, Sessions
from migrations.apply import apply
from migrations.failure import MigrationError
from services.cms.engine import Engine, running
from services.cms.forwarding import SEQUENCE_PATH, sequenced
from services.cms.http import Address, serve
from services.cms.leading import Leading
from services.cms.metrics import Metrics
from services.cms.roles import TokensError, load_tokens
from services.settings import CmsSettings, Listen, SettingsError, cms_settings
from snapshots.postgres import PostgresSnapshots

logger = structlog.get_logger()

MICROSECONDS = 1_000_000
START_ATTEMPTS_MAX = 60
START_RETRY_S = 1.0


async def run(settings: CmsSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    metrics = Metrics()
    await migrated(settings.dsn)
    async with AsyncExitStack() as stack:
        sessions = Sessions(settings.dsn)
        stack.push_async_callback(sessions.close)
        session = await stack.enter_async_context(aiohttp.ClientSession(headers=bearer(settings)))
        leading = Leading(sessions, session, settings.name, settings.own_url)
        engine = await stack.enter_async_context(
            running(
                settings.name,
                PostgresLog(sessions),
                PostgresSnapshots(sessions),
                lambda: Stamp(settings.name, int(time.time() * MICROSECONDS)),
                leading.around,
                metrics.observe_batch,
            )
        )
        await stack.enter_async_context(tasks(settings, leading, engine))
        urls = [
            await stack.enter_async_context(served(engine, where, settings, metrics))
            for where in (settings.own_listen, settings.listen)
        ]
        logger.info("ready", urls=urls, epoch=engine.applied.metadata.epoch)
        # What was made while starting lives for long; the collector need not look at it again.
        gc.freeze()
        await stop.wait()
        logger.info("stopping", epoch=engine.applied.metadata.epoch)
        await leading.give_up()


@asynccontextmanager
async def tasks(settings: CmsSettings, leading: Leading, engine: Engine) -> AsyncIterator[None]:
    """What runs beside the answering, until the block ends."""
    async with asyncio.TaskGroup() as group:
        started = [
            group.create_task(leading.run()),
            group.create_task(listen(settings.dsn, engine.heard)),
        ]
        yield
        for task in started:
            task.cancel()


@asynccontextmanager
async def served(
    engine: Engine, where: Listen, settings: CmsSettings, metrics: Metrics
) -> AsyncIterator[str]:
    tokens = None if settings.tokens_file is None else load_tokens(settings.tokens_file)

    async def sequence(body: bytes) -> bytes:
        return await sequenced(body, engine.sequence)

    address = Address(
        host=where.host,
        port=where.port,
        reuse_port=where.is_shared,
        ssl_context=settings.ssl_context(),
    )
    internal = {SEQUENCE_PATH: sequence}
    async with serve(
        engine, tokens=tokens, where=address, metrics=metrics, internal=internal
    ) as url:
        yield url


async def migrated(dsn: str) -> None:
    """Wait for the database, and bring its schema to today's."""
    for attempt in range(START_ATTEMPTS_MAX):
        try:
            await apply(dsn)
        except BROKEN as error:
            logger.warning("database_away", error=str(error), attempt=attempt)
            await asyncio.sleep(START_RETRY_S)
        else:
            return
    raise SettingsError("the database did not answer; is RINGLOG_POSTGRES_DSN right?")


def bearer(settings: CmsSettings) -> Mapping[str, str]:
    """How this process tells the others that it is one of them."""
    if settings.tokens_file is None:
        return {}
    found = msgspec.json.decode(settings.tokens_file.read_bytes(), type=dict[str, str])
    return {"Authorization": f"Bearer {found['node']}"} if "node" in found else {}


def main() -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        uvloop.run(run(cms_settings(os.environ)))
    except (SettingsError, TokensError, MigrationError, NotDurableError) as error:
        sys.exit(f"cms: {error}")


if __name__ == "__main__":
    main()
