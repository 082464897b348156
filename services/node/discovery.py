"""Which cluster this node belongs to: what its file says, and what the seeds say."""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from client.connection import Connection
from client.errors import ClientError
from client.patience import Patience
from client.transport import Request
from metadata.cluster import ClusterId
from services.node.identity import Identity, check_own, read_identity, settle_identity
from services.settings import NodeSettings, SettingsError
from store.database import Database

logger = structlog.get_logger()

ATTEMPTS_MAX = 60
PAUSE_S = 1.0
QUICK = Patience(attempt_timeout_s=3.0, deadline_s=3.0)


class _Cluster(msgspec.Struct, frozen=True):
    id: str = ""


async def settled(settings: NodeSettings, database: Database, token: str | None) -> Identity:
    """Who this node is. A new one waits for a CMS; a known one also starts without."""
    seeds = Connection(settings.seeds, token=token, cluster=None, patience=QUICK)
    try:
        identity = await read_identity(database)
        if identity is not None:
            check_own(identity, cluster=await cluster_served_by(seeds), name=settings.name)
            return identity
        return await _settled_anew(settings, database, seeds)
    finally:
        await seeds.close()


async def _settled_anew(settings: NodeSettings, database: Database, seeds: Connection) -> Identity:
    cluster = await cluster_awaited(seeds)
    return await settle_identity(database, cluster=cluster, name=settings.name)


async def cluster_awaited(seeds: Connection) -> ClusterId:
    """The cluster of the seeds, as soon as one of them knows it."""
    for _ in range(ATTEMPTS_MAX):
        cluster = await cluster_served_by(seeds)
        if cluster is not None:
            return cluster
        await asyncio.sleep(PAUSE_S)
    raise SettingsError(
        "none of the seeds knows a cluster: is RINGLOG_SEEDS right, and has it been founded?"
    )


async def cluster_served_by(seeds: Connection) -> ClusterId | None:
    """The cluster that the seeds serve; None if they do not answer or it is not founded yet."""
    try:
        body = await seeds.read(Request(path="/v1/metadata/cluster"))
        found = msgspec.json.decode(body, type=_Cluster)
    except (ClientError, ValueError, RecursionError) as error:
        logger.warning("seeds_away", error=str(error))
        return None
    return ClusterId(found.id) if found.id else None
