"""One node: `python -m services.node`, told everything by its environment."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

import structlog
import uvloop

from services.duties import first_of, until_stopped
from services.http.roles import TokensError
from services.logging import log_to_stderr
from services.node.identity import ForeignDirectoryError
from services.node.running import running
from services.settings import NodeSettings, SettingsError, node_settings
from store.failures import StoreError

logger = structlog.get_logger()


async def run(settings: NodeSettings) -> None:
    async def serve(stop: asyncio.Event, begun: Callable[[], None]) -> None:
        async with running(settings) as node:
            begun()
            logger.info("ready", url=node.url, epoch=node.engine.applied.metadata.epoch)
            await stop.wait()
            logger.info("stopping", epoch=node.engine.applied.metadata.epoch)

    await until_stopped(serve)


def main() -> None:
    log_to_stderr()
    try:
        uvloop.run(run(node_settings(os.environ)))
    except* (SettingsError, TokensError, ForeignDirectoryError, StoreError) as group:
        sys.exit(f"node: {first_of(group)}")


if __name__ == "__main__":
    main()
