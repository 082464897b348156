"""Everything that a CMS process does with reports, as one part of its engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from log.published import Published
from log.store import StoreUnavailableError
from services.cms.reports.intake import Intake
from services.cms.reports.observing import Observer
from services.cms.reports.relaying import RelayMarks
from services.cms.reports.store import Stores
from services.cms.reports.watch import Watch

MICROSECONDS = 1_000_000


def system_clock_us() -> int:
    return int(time.time() * MICROSECONDS)


class Reporting:
    """`relay.published` is where a relay of this process says what it has published."""

    def __init__(
        self,
        name: str,
        stores: Stores,
        published: Published,
        is_measuring: Callable[[], bool],
        clock_us: Callable[[], int] = system_clock_us,
    ) -> None:
        self.stores = stores
        self.clock_us = clock_us
        self.watch = Watch(stores, lambda: published.applied.tip)
        self.intake = Intake(stores, self.watch.look_soon)
        self.observer = Observer(stores, published, is_measuring)
        self.relay = RelayMarks(name, stores.timeline, clock_us)

    async def prepare(self) -> None:
        """Know what others know before the first commit is taken."""
        try:
            await self.watch.look()
        except StoreUnavailableError:
            # Without the store there is no commit either, and `run` looks again.
            return

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.intake.run())
            group.create_task(self.watch.run())
            group.create_task(self.observer.run())
            group.create_task(self.relay.run())
