"""Embedding a follower: what `ringlog.follow` puts together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType

import msgspec

from client.connection import Connection
from client.embedded import EmbeddedFollower, embedded
from client.errors import NotFollowingError
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
        stack.push_async_exit(partial(_ended, task))
        if restored.metadata.epoch == EMPTY:
            await _contact(follower)
        yield follower


async def _contact(follower: EmbeddedFollower) -> None:
    if await follower.touched(timeout_s=CONTACT_TIMEOUT_S):
        return
    standing = follower.standing
    if standing.is_trusted:
        within = f"The log did not answer to the end within {CONTACT_TIMEOUT_S:.0f} s"
        raise NotFollowingError(f"{within}: {standing.detail or standing.state.value}")
    raise NotFollowingError(f"The log cannot be followed: {standing.detail}")


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


async def _ended(
    task: asyncio.Task[None],
    _kind: type[BaseException] | None,
    error: BaseException | None,
    _trace: TracebackType | None,
) -> None:
    """What ended the follower is raised, unless the block already says what is wrong."""
    task.cancel()
    (broken,) = await asyncio.gather(task, return_exceptions=True)
    if error is None and isinstance(broken, Exception):
        raise broken


def _damaged(epoch: Epoch, fault: str) -> None:
    logger.error("The copy of the log is damaged at epoch %d: %s", epoch, fault)


def _listener_failed(listener: Listener, error: Exception) -> None:
    logger.error("A listener failed: %r", listener, exc_info=error)
