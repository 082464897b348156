"""One driver: `python -m services.driver`, told everything by its environment."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

import structlog

from services.driver.running import running
from services.duties import first_of, until_stopped
from services.http.roles import TokensError
from services.logging import log_to_stderr
from services.settings import DriverSettings, SettingsError, driver_settings

logger = structlog.get_logger()


async def run(settings: DriverSettings) -> None:
    async def serve(stop: asyncio.Event, begun: Callable[[], None]) -> None:
        async with running(settings) as driver:
            begun()
            logger.info("ready", url=driver.url)
            await stop.wait()
            logger.info("stopping")

    await until_stopped(serve)


def main() -> None:
    log_to_stderr()
    try:
        asyncio.run(run(driver_settings(os.environ)))
    except* (SettingsError, TokensError) as group:
        sys.exit(f"driver: {first_of(group)}")


if __name__ == "__main__":
    main()
