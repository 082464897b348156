"""One node, put together: its file, its follower, its roads, its HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version

import msgspec

from client.following import Following, Roads
from client.pages import CmsLog
from client.peers import Peers
from client.publication import Publication
from log.follower import Follower
from log.listeners import Change, Listeners
from log.published import Published
from metadata.directory import Location
from metadata.epoch import EMPTY
from services.duties import busy
from services.http.api import Api
from services.http.limits import DEFAULT_LIMITS
from services.http.openapi import described
from services.http.roles import load_tokens
from services.http.serving import Address, serving
from services.node import identity as identities
from services.node import journal as journals
from services.node.data import plane as planes
from services.node.data.gaining import CleanJournal
from services.node.data.plane import DataPlane
from services.node.discovery import settled
from services.node.engine import NodeEngine
from services.node.identity import Identity, check_own, keep_number
from services.node.journal import Journal
from services.node.links import Links, linked
from services.node.metrics import NodeMetrics
from services.node.registering import registered
from services.node.reporting import Marks, Reporter
from services.node.roads import (
    ADDRESS_NAME,
    NodeNotices,
    cms_urls,
    fan_out,
    log_change,
    neighbours,
    report_damage,
)
from services.node.routes import ROUTES
from services.node.starting import Wanted
from services.settings import NodeSettings, bearer_token
from store.database import Database, opened
from store.store import Store

FILE = "node.sqlite"
TITLE = "ringlog node"


class Node(msgspec.Struct, frozen=True):
    """A node that runs; `listeners` are told of every version that it publishes."""

    url: str
    engine: NodeEngine
    listeners: Listeners
    plane: DataPlane


class _Parts(msgspec.Struct, frozen=True):
    engine: NodeEngine
    store: Store
    listeners: Listeners
    metrics: NodeMetrics
    marks: Marks


@asynccontextmanager
async def running(settings: NodeSettings) -> AsyncIterator[Node]:
    """Follows, serves and reports until the block ends."""
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(
            opened(settings.state_dir / FILE, [identities.SCHEMA, journals.SCHEMA, *planes.SCHEMAS])
        )
        token = bearer_token(settings.tokens_file)
        identity = await settled(settings, database, token)
        links = await stack.enter_async_context(linked(settings, identity.cluster))
        parts = await _assembled(settings, database, identity, links)
        plane = await stack.enter_async_context(
            planes.assembled(
                parts.engine,
                database,
                parts.store,
                parts.listeners,
                links.peers,
                planes.root_in(settings.state_dir),
            )
        )
        url = await stack.enter_async_context(_served(settings, parts, plane))
        reporter = Reporter(parts.engine, links.log, parts.marks, plane.fitness, plane.upkeep)
        duties = (
            parts.engine.following.run(),
            _known(settings, database, identity, parts.engine, links),
            reporter.run(version("ringlog")),
            plane.upkeep.run(),
            *fan_out(settings, parts.engine.following),
        )
        await stack.enter_async_context(busy(duties))
        yield Node(url, parts.engine, parts.listeners, plane)


async def _assembled(
    settings: NodeSettings, database: Database, identity: Identity, links: Links
) -> _Parts:
    journal = Journal(database)
    applied = await journal.restored(report_damage)
    if applied.metadata.epoch > EMPTY:
        check_own(identity, cluster=applied.metadata.cluster.id, name=settings.name)
    store = planes.store_in(database, settings.state_dir)
    metrics, marks = NodeMetrics(lambda: store.damaged), Marks()
    follower = Follower(applied, cluster=identity.cluster)
    notices = NodeNotices(metrics, follower)
    listeners = Listeners(notices.listener_failed)
    published = Published(applied)
    keeping = CleanJournal(journal, store, identity.host_id, lambda: published.applied)
    clock = asyncio.get_running_loop().time
    peers = Peers(links.peers, lambda: neighbours(published.applied.metadata, engine.node), clock)
    following = Following(
        follower,
        Roads(
            CmsLog(links.log),
            peers,
            is_fanned_out=settings.kafka is not None or settings.dsn is not None,
            brings_entries=settings.kafka is not None,
        ),
        Publication(published, listeners, keeping, marks.observe),
        notices,
    )
    engine = NodeEngine(settings.name, published, journal, following)
    engine.node = identity.node
    listeners.add(log_change)
    listeners.add(lambda change: _learn_members(links, change))
    if applied.metadata.epoch > EMPTY:
        listeners.publish(applied.metadata)
    return _Parts(engine, store, listeners, metrics, marks)


def _learn_members(links: Links, change: Change) -> None:
    if "cms" in change.components:
        links.learn(cms_urls(change.metadata))


@asynccontextmanager
async def _served(settings: NodeSettings, parts: _Parts, plane: DataPlane) -> AsyncIterator[str]:
    tokens = None if settings.tokens_file is None else load_tokens(settings.tokens_file)
    api = Api(parts.engine, DEFAULT_LIMITS, parts.metrics)
    where = Address(
        host=settings.listen.host, port=settings.listen.port, advertised=settings.advertised
    )
    public = (*ROUTES, *plane.client_routes)
    routes = (*public, *plane.inner_routes, described(public, TITLE))
    async with serving(api, routes, tokens=tokens, where=where) as url:
        yield url


async def _known(
    settings: NodeSettings, database: Database, identity: Identity, engine: NodeEngine, links: Links
) -> None:
    """Be known to the cluster under the address where this node answers."""
    wanted = Wanted(
        addresses={ADDRESS_NAME: settings.advertised},
        location=Location(settings.datacenter, settings.rack),
        version=version("ringlog"),
    )
    node = await registered(engine, links.client, identity, wanted)
    await keep_number(database, identity, node)
    engine.node = node
