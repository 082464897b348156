"""The connections of a driver to the CMS and to nodes, and the log that it follows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import msgspec
import structlog

from client.client import Client
from client.connection import Connection
from client.embedded import EmbeddedFollower, embedded
from client.pages import CmsLog
from client.patience import Patience
from client.publication import NoJournal
from client.transport import new_session
from log.listeners import Change, Listener
from log.replay import NOTHING_APPLIED
from services.node.discovery import cluster_awaited
from services.node.roads import cms_urls
from services.settings import DriverSettings, bearer_token

logger = structlog.get_logger()

QUICK = Patience(attempt_timeout_s=5.0, deadline_s=5.0)


class Links(msgspec.Struct, frozen=True):
    """`log` reads and tells, `client` commits, `nodes` asks nodes, `follower` has the metadata."""

    log: Connection
    client: Client
    nodes: aiohttp.ClientSession
    follower: EmbeddedFollower


@asynccontextmanager
async def linked(settings: DriverSettings) -> AsyncIterator[Links]:
    token = bearer_token(settings.tokens_file)
    async with AsyncExitStack() as stack:
        seeds = Connection(settings.seeds, token=token, cluster=None, patience=QUICK)
        stack.push_async_callback(seeds.close)
        cluster = await cluster_awaited(seeds)
        log = Connection(settings.seeds, token=token, cluster=cluster, patience=QUICK)
        stack.push_async_callback(log.close)
        client = await stack.enter_async_context(Client(settings.seeds, token, cluster=cluster))
        nodes = await stack.enter_async_context(new_session(token, cluster))
        follower = embedded(
            CmsLog(log),
            cluster=cluster,
            restored=NOTHING_APPLIED,
            journal=NoJournal(),
            report=_listener_failed,
        )

        def learn(change: Change) -> None:
            if "cms" in change.components:
                log.learn(cms_urls(change.metadata))
                client.learn(cms_urls(change.metadata))

        follower.listen(learn)
        yield Links(log, client, nodes, follower)


def _listener_failed(listener: Listener, error: Exception) -> None:
    logger.error("listener_failed", listener=repr(listener), error=repr(error))
