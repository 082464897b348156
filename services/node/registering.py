"""Making sure that the directory knows this node, and as what."""

from __future__ import annotations

import asyncio
import random

import structlog

from client.answers import Committed, Rejected
from client.client import Client
from client.errors import ClientError
from log.backoff import Backoff
from metadata.directory import NodeId
from services.node.engine import NodeEngine
from services.node.identity import Identity
from services.node.starting import Known, Wanted, next_start
from transformations.directory import Register, Startup, Unregister

logger = structlog.get_logger()

APPLY_TIMEOUT_S = 10.0
ATTEMPTS = Backoff(first_s=0.2, last_s=10.0)


async def registered(
    engine: NodeEngine, client: Client, identity: Identity, wanted: Wanted
) -> NodeId:
    """The node's number, once the directory says of it what is wanted.

    Tries for as long as it takes: an address that another node holds may become free, and a CMS
    that is away comes back. Each failure is in the log.
    """
    failures = 0
    while True:
        # What the metadata at hand says of this node may be old until the log has answered.
        await engine.following.in_touch.wait()
        due = next_start(identity, wanted, engine.applied.metadata)
        if isinstance(due, Known):
            return due.node
        if not await _committed(engine, client, due):
            failures += 1
            chance = random.random()  # noqa: S311 spreads nodes, guards nothing
            await asyncio.sleep(ATTEMPTS.pause_s(failures, chance=chance))


async def _committed(
    engine: NodeEngine, client: Client, due: Register | Startup | Unregister
) -> bool:
    kind = type(due).__name__
    if not isinstance(due, Register):
        client.send_as(due.node)
    try:
        outcome = await client.commit(due, actor=engine.name, reason="node start")
    except ClientError as error:
        logger.warning("start_failed", kind=kind, error=str(error))
        return False
    match outcome:
        case Committed():
            logger.info("start_committed", kind=kind, epoch=outcome.epoch)
            await engine.reached(outcome.epoch, APPLY_TIMEOUT_S)
            return True
        case Rejected():
            logger.error("start_refused", kind=kind, code=outcome.code, detail=outcome.detail)
            return False
