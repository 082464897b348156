"""Found a cluster: `python -m services.founding`, told everything by its environment.

Commits the first entry, lists the CMS processes, and lets the first nodes take their tokens. Does
only what is missing, so it may run at every start.
"""

from __future__ import annotations

import asyncio
import os
import sys
from uuid import uuid4

import msgspec
import structlog

from client.client import Client
from services.founding.settings import FoundingSettings, founding_settings
from services.local.failure import LocalServerError
from services.local.first_tokens import take_first_tokens
from services.local.founding import found, founder, wait_until
from services.local.membership import agree, member_names
from services.local.state import Kept, StateDir
from services.local.turn import turn
from services.logging import log_to_stderr
from services.settings import SettingsError, bearer_token

ACTOR = "founding"
ROLE = "admin"
NODES_TIMEOUT_S = 300.0
"""A node starts, hears of the first entry and registers; others may keep the machine busy."""

logger = structlog.get_logger()


async def run(settings: FoundingSettings) -> None:
    state = StateDir(settings.state_dir)
    # Of two foundings at once the second finds everything done.
    async with turn(state.path):
        kept = _kept(state, settings)
        token = bearer_token(state.tokens, ROLE)
        urls = list(settings.cms.values())
        await wait_until("/healthz", urls, give_up=_go_on)
        async with founder(urls, token) as client:
            await found(client, kept)
            state.write_kept(msgspec.structs.replace(kept, founded=True))
            await agree(client, member_names(settings.cms), actor=ACTOR)
            await _seat_nodes(client, settings.nodes)
            status = await client.status()
    logger.info("founded", cluster=status.cluster, epoch=status.epoch)


def _kept(state: StateDir, settings: FoundingSettings) -> Kept:
    """The entry id is settled before anything is committed: whoever dies founds the same again."""
    kept = state.read_kept()
    if kept is None:
        kept = Kept(
            port=0,
            own_ports=(),
            partitioner=settings.partitioner,
            founding_entry_id=uuid4(),
            own_postgres=False,
            name=settings.name,
            tokens=True,
        )
        state.write_kept(kept)
    return kept


async def _seat_nodes(client: Client, nodes: tuple[str, ...]) -> None:
    """Only where nobody owns anything yet: later nodes join by a sequence."""
    ring = await client.component("ring")
    if ring["tokens"] or not nodes:
        return
    await wait_until("/readyz", nodes, give_up=_go_on, timeout_s=NODES_TIMEOUT_S)
    await take_first_tokens(client, nodes, actor=ACTOR)


def _go_on() -> None:
    """Others start the processes, and start them again."""


def main() -> None:
    log_to_stderr()
    try:
        asyncio.run(run(founding_settings(os.environ)))
    except (SettingsError, LocalServerError) as error:
        sys.exit(f"founding: {error}")


if __name__ == "__main__":
    main()
