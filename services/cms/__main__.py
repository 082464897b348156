"""One CMS process: `python -m services.cms`, told everything by its environment."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import structlog
import uvloop

from audit.keys import KeyFormatError, load_private
from audit.lineage import PostgresLineages
from audit.reproduce import NotReproducedError, PostgresProofs, installed_release
from client.transport import new_session
from log.batch import Stamp
from log.fanout import Relay
from log.kafka_access import Brokers
from log.messages import TOPIC
from log.notify import listen
from log.postgres import PostgresLog
from log.postgres_room import divide, keep_room, make_room
from log.postgres_schemas import record_schemas
from log.postgres_sessions import BROKEN, NotDurableError, Sessions
from log.replay import ReplayError
from log.store import LogStore, TrimmedError
from metadata.epoch import Epoch
from migrations.apply import apply
from migrations.failure import MigrationError
from services.cms.engine import Engine, Proofs, running
from services.cms.forwarding import SEQUENCE_PATH, sequenced
from services.cms.http import serve
from services.cms.leading import Leading
from services.cms.metrics import Metrics
from services.cms.proofs.signed import PostgresSigned
from services.cms.proofs.tiles import PostgresTiles
from services.cms.proving import Evidence, Proving
from services.cms.relaying import relay_to
from services.cms.reports.postgres import postgres_stores
from services.cms.seam import ThroughArchive
from services.duties import busy, until_stopped
from services.http.roles import TokensError, load_tokens
from services.http.serving import Address
from services.logging import log_to_stderr
from services.notices import notify_turned
from services.settings import CmsSettings, Listen, SettingsError, bearer_token, cms_settings
from snapshots.postgres import PostgresSnapshots

logger = structlog.get_logger()

MICROSECONDS = 1_000_000
START_ATTEMPTS_MAX = 60
START_RETRY_S = 1.0


async def run(settings: CmsSettings, stop: asyncio.Event, begun: Callable[[], None]) -> None:
    metrics = Metrics()
    keys = tuple(map(load_private, settings.log_keys))
    await migrated(settings.dsn)
    async with AsyncExitStack() as stack:
        sessions = Sessions(settings.dsn)
        stack.push_async_callback(sessions.close)
        await divided(sessions, settings.partition_epochs)
        await record_schemas(sessions)
        await check_whole(sessions)
        log = log_of(settings, sessions)
        session = await stack.enter_async_context(
            new_session(bearer_token(settings.tokens_file), None)
        )
        proving = Proving(
            Evidence(log, PostgresSnapshots(sessions), PostgresProofs(sessions)),
            installed_release(),
            settings.name,
            stop.set,
        )
        leading = Leading(
            sessions, session, settings.name, settings.own_url, lambda: proving.is_proved
        )
        engine = await stack.enter_async_context(
            running(
                settings.name,
                log,
                PostgresSnapshots(sessions),
                lambda: Stamp(settings.name, int(time.time() * MICROSECONDS)),
                leading.around,
                metrics.observe_batch,
                stores=postgres_stores(sessions),
                proofs=Proofs(PostgresTiles(sessions), PostgresSigned(sessions), keys),
                proving=proving,
            )
        )
        relay = await stack.enter_async_context(relayed(settings, sessions, engine))
        if relay is not None:
            metrics.watch(relay)
        await make_room(sessions, engine.applied.metadata.epoch)
        room = keep_room(sessions, lambda: engine.applied.metadata.epoch)
        await stack.enter_async_context(busy((room,)))
        await stack.enter_async_context(tasks(settings, leading, engine, relay))
        urls = [
            await stack.enter_async_context(served(engine, where, settings, metrics))
            for where in (settings.own_listen, settings.listen)
        ]
        begun()
        logger.info("ready", urls=urls, epoch=engine.applied.metadata.epoch)
        # What was made while starting lives for long; the collector need not look at it again.
        gc.freeze()
        await stop.wait()
        logger.info("stopping", epoch=engine.applied.metadata.epoch)
        await leading.give_up()
    if proving.refusal is not None:
        raise proving.refusal


@asynccontextmanager
async def tasks(
    settings: CmsSettings, leading: Leading, engine: Engine, relay: Relay | None
) -> AsyncIterator[None]:
    """What runs beside the answering, until the block ends."""

    def wake(tip: Epoch) -> None:
        engine.heard(tip)
        if relay is not None:
            relay.wake(tip)

    duties = [leading.run(), listen(settings.dsn, wake, on_turn=notify_turned)]
    if relay is not None:
        duties.append(relay.run())
    async with busy(tuple(duties)):
        yield


@asynccontextmanager
async def relayed(
    settings: CmsSettings, sessions: Sessions, engine: Engine
) -> AsyncIterator[Relay | None]:
    """The relay to Kafka, where there is one."""
    if settings.kafka is None:
        yield None
        return
    async with relay_to(
        Brokers(settings.kafka, settings.kafka_access),
        settings.topic or TOPIC,
        sessions,
        recent_after=engine.recent_after,
        is_sequencing=lambda: engine.is_sequencing,
        on_published=engine.reporting.relay.published,
    ) as relay:
        yield relay


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
        advertised=settings.advertised,
    )
    internal = {SEQUENCE_PATH: sequence}
    async with serve(
        engine, tokens=tokens, where=address, metrics=metrics, internal=internal
    ) as url:
        yield url


def log_of(settings: CmsSettings, sessions: Sessions) -> LogStore:
    """The log, with the archives behind it where some are named."""
    log = PostgresLog(sessions)
    return ThroughArchive(log, settings.archives) if settings.archives else log


async def divided(sessions: Sessions, epochs: int | None) -> None:
    """Cut a log that is yet to begin as finely as is wanted."""
    if epochs is not None and not await divide(sessions, epochs):
        logger.warning("partitions_kept", wanted=epochs, reason="the log has begun")


async def check_whole(sessions: Sessions) -> None:
    """A log that was imported in part must not be gone on with."""
    lineages = await PostgresLineages(sessions).recorded()
    tip = await PostgresLog(sessions).tip()
    if lineages and tip.epoch < lineages[0].epoch:
        raise SettingsError(
            f"the log ends at epoch {tip.epoch} and its import should have brought it to "
            f"{lineages[0].epoch}: run `ringlog audit import` again to finish it"
        )


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


def main() -> None:
    log_to_stderr()
    try:
        uvloop.run(until_stopped(partial(run, cms_settings(os.environ))))
    except (
        SettingsError,
        TokensError,
        MigrationError,
        NotDurableError,
        NotReproducedError,
        KeyFormatError,
    ) as error:
        sys.exit(f"cms: {error}")
    except TrimmedError as error:
        # No snapshot from the seam on can be used, so only the archive leads to what is left.
        sys.exit(f"cms: {error} Set RINGLOG_ARCHIVE to start from there.")
    except ReplayError as error:
        # Already what followed the newest snapshot comes out otherwise.
        sys.exit(f"cms: {NotReproducedError(installed_release(), error.epoch, error.fault)}")


if __name__ == "__main__":
    main()
