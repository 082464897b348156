"""One driver, put together: what it follows, whom it asks, how it moves, what it tells."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import gettempdir

import msgspec
import structlog

from log.backoff import Backoff
from sequences.driver import ASK_WAIT_S, World
from sequences.errands import Errands, Key, Workers
from sequences.status import Board
from services.driver.cleaning import NodeCleaner
from services.driver.cluster import LiveCluster
from services.driver.engine import DriverEngine
from services.driver.links import Links, linked
from services.driver.moving import moving
from services.driver.nodes import NodeCalls
from services.driver.reads import ROUTES, DriverMetrics
from services.driver.telling import Telling
from services.driver.watermarks import NodeWatermarks
from services.duties import busy
from services.http.api import Api
from services.http.limits import DEFAULT_LIMITS
from services.http.openapi import described
from services.http.roles import load_tokens
from services.http.serving import Address, serving
from services.settings import DriverSettings

logger = structlog.get_logger()

TITLE = "ringlog driver"
PAUSES = Backoff(first_s=0.2, last_s=15.0)
ROUNDS = Backoff(first_s=0.05, last_s=ASK_WAIT_S)
"""No longer than a node that is behind keeps a question: it is never left unasked."""


class Driver(msgspec.Struct, frozen=True):
    """A driver that runs."""

    url: str
    engine: DriverEngine
    board: Board


@asynccontextmanager
async def running(settings: DriverSettings) -> AsyncIterator[Driver]:
    """Drives whatever the metadata has in progress until the block ends."""
    clock = asyncio.get_running_loop().time
    async with AsyncExitStack() as stack:
        links = await stack.enter_async_context(linked(settings))
        calls = NodeCalls(links.nodes, lambda: links.follower.metadata)
        cluster = LiveCluster(links.follower, links.client, settings.name)
        movements = await stack.enter_async_context(
            moving(settings, calls, links.client, cluster.newest)
        )
        board = Board()
        world = World(
            cluster,
            NodeWatermarks(calls),
            movements.mover,
            clock,
            partial(_pause_s, PAUSES),
            partial(_pause_s, ROUNDS),
            settings.barrier_level,
        )
        telling = Telling(settings.name, world.level, board, links.log, movements.mover.moved)
        folder = settings.state_dir or Path(gettempdir())
        engine = DriverEngine(settings.name, folder, links.follower, clock)
        url = await stack.enter_async_context(_served(settings, engine, board, telling))
        workers = Workers(NodeCleaner(calls), movements.repairer)
        errands = Errands(world, workers, board, _report)
        await stack.enter_async_context(
            busy((links.follower.run(), _drive(links, errands), telling.run(clock)))
        )
        yield Driver(url, engine, board)


async def _drive(links: Links, errands: Errands) -> None:
    # What is at hand before the log has answered is nothing.
    await links.follower.in_touch()
    await errands.run()


def _pause_s(backoff: Backoff, failures: int) -> float:
    chance = random.random()  # noqa: S311 spreads drivers, guards nothing
    return backoff.pause_s(failures, chance=chance)


def _report(key: Key, error: str) -> None:
    logger.warning("errand_failed", errand=key[0], id=key[1], error=error)


@asynccontextmanager
async def _served(
    settings: DriverSettings, engine: DriverEngine, board: Board, telling: Telling
) -> AsyncIterator[str]:
    tokens = None if settings.tokens_file is None else load_tokens(settings.tokens_file)
    api = Api(engine, DEFAULT_LIMITS, DriverMetrics(board, telling))
    where = Address(host=settings.listen.host, port=settings.listen.port)
    routes = (*ROUTES, described(ROUTES, TITLE))
    async with serving(api, routes, tokens=tokens, where=where) as url:
        yield url
