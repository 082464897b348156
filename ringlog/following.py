"""Embedding a follower: what `ringlog.follow` puts together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from client.connection import Connection
from client.embedded import EmbeddedFollower, embedded
from client.pages import CmsLog
from client.patience import Patience
from client.publication import Journal, NoJournal
from client.transport import Request
from log.listeners import Listener
from log.replay import NOTHING_APPLIED, Applied
from log.shared_replay import SharedReplay
from metadata.cluster import ClusterId
from metadata.epoch import EMPTY, Epoch
from services.node import journal as journals
from store.database import opened

logger = logging.getLogger("ringlog")

FILE = "follower.sqlite"
CONTACT_TIMEOUT_S = 30.0
QUICK = Patience(attempt_timeout_s=5.0, deadline_s=5.0)


class NotFoundedError(Exception):
    """There is no cluster at that address yet."""


class _Cluster(msgspec.Struct, frozen=True):
    id: str = ""


@asynccontextmanager
async def following(
    urls: Sequence[str],
    token: str | None,
    directory: Path | None,
    patience: Patience,
    replay: SharedReplay | None = None,
) -> AsyncIterator[EmbeddedFollower]:
    """Follows until the block ends.

    Begins with what the log says or, where a directory holds an earlier copy, with that one.
    """
    async with AsyncExitStack() as stack:
        journal, restored = await _copy(stack, directory)
        cluster = restored.metadata.cluster.id or await _asked(urls, token, patience)
        connection = Connection(urls, token=token, cluster=cluster, patience=QUICK)
        stack.push_async_callback(connection.close)
        follower = embedded(
            CmsLog(connection),
            cluster=cluster,
            restored=restored,
            journal=journal,
            report=_listener_failed,
            replay=replay,
        )
        task = asyncio.create_task(follower.run())
        stack.push_async_callback(_ended, task)
        if restored.metadata.epoch == EMPTY:
            async with asyncio.timeout(CONTACT_TIMEOUT_S):
                await follower.in_touch()
        yield follower


async def _copy(stack: AsyncExitStack, directory: Path | None) -> tuple[Journal, Applied]:
    if directory is None:
        return NoJournal(), NOTHING_APPLIED
    database = await stack.enter_async_context(opened(directory / FILE, [journals.SCHEMA]))
    journal = journals.Journal(database)
    return journal, await journal.restored(_damaged)


async def _asked(urls: Sequence[str], token: str | None, patience: Patience) -> ClusterId:
    connection = Connection(urls, token=token, cluster=None, patience=patience)
    try:
        body = await connection.read(Request(path="/v1/metadata/cluster"))
    finally:
        await connection.close()
    found = msgspec.json.decode(body, type=_Cluster)
    if not found.id:
        raise NotFoundedError("There is no cluster yet: found one with `ringlog up`.")
    return ClusterId(found.id)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _damaged(epoch: Epoch, fault: str) -> None:
    logger.error("The copy of the log is damaged at epoch %d: %s", epoch, fault)


def _listener_failed(listener: Listener, error: Exception) -> None:
    logger.error("A listener failed: %r", listener, exc_info=error)
