"""The connections of a node to the CMS and to other nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import msgspec

from client.client import Client
from client.connection import Connection
from client.patience import Patience
from client.transport import new_session
from metadata.cluster import ClusterId
from services.settings import NodeSettings, bearer_token

QUICK = Patience(attempt_timeout_s=5.0, deadline_s=5.0)
"""Whoever follows asks again soon, so one question need not be patient."""


class Links(msgspec.Struct, frozen=True):
    """`log` reads and reports, `client` commits, `peers` asks other nodes."""

    log: Connection
    client: Client
    peers: aiohttp.ClientSession

    def learn(self, urls: list[str]) -> None:
        """All addresses of the CMS; the seeds are kept."""
        self.log.learn(urls)
        self.client.learn(urls)


@asynccontextmanager
async def linked(settings: NodeSettings, cluster: ClusterId) -> AsyncIterator[Links]:
    """Everything that is sent names the cluster, and another one refuses it."""
    token = bearer_token(settings.tokens_file)
    async with AsyncExitStack() as stack:
        log = Connection(settings.seeds, token=token, cluster=cluster, patience=QUICK)
        stack.push_async_callback(log.close)
        client = await stack.enter_async_context(Client(settings.seeds, token, cluster=cluster))
        peers = await stack.enter_async_context(new_session(token, cluster))
        yield Links(log, client, peers)
