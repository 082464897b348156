"""Not following a log that lost its tail: commits are refused while any history differs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from log.chain import Tip
from log.store import StoreUnavailableError
from services.cms.reports.lineage import Divergence, divergence
from services.cms.reports.store import Stores
from services.http.problems import Code, ProblemError

logger = structlog.get_logger()

LOOK_EVERY_S = 1.0
"""How soon this process knows what another one learnt from a node."""


class Watch:
    """Knows of every divergence that nobody has acknowledged, whichever process learnt of it.

    `applied` is the newest version of this process: a log that ends before it has lost
    entries as well.
    """

    def __init__(self, stores: Stores, applied: Callable[[], Tip]) -> None:
        self.divergences: Sequence[Divergence] = ()
        self._stores = stores
        self._applied = applied
        self._due = asyncio.Event()

    @property
    def divergence(self) -> Divergence | None:
        """One of them, to speak of."""
        return self.divergences[0] if self.divergences else None

    def check(self) -> None:
        """Raise a problem while the log cannot be trusted."""
        found = self.divergence
        if found is not None:
            raise ProblemError(
                Code.DIVERGED_LOG,
                f"{found.sentence} Nothing is committed.",
                epoch=found.epoch,
                tip=found.tip,
                remedy=found.remedy,
            )

    def look_soon(self) -> None:
        self._due.set()

    async def look(self) -> None:
        # Taken first: what was applied before the look must be in what is looked at.
        own = self._applied()
        reported = await self._stores.reports.divergences()
        epochs = {own.epoch, *(item.epoch for item in reported)}
        lineage = await self._stores.timeline.lineage(epochs)
        # Judged again, because the lost entries may have been restored since the report.
        has = [(item.node, item.epoch, item.hash) for item in reported]
        has.append((None, own.epoch, own.hash))
        found = (divergence(lineage, *each) for each in has)
        self._learn([item for item in found if item is not None])

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except StoreUnavailableError as error:
                # What was known stays; nothing can be committed without the store anyway.
                logger.info("divergences_unknown", error=str(error))
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._due.wait()
            except TimeoutError:
                continue
            self._due.clear()

    def _learn(self, found: Sequence[Divergence]) -> None:
        known = {(item.node, item.epoch, item.hash) for item in self.divergences}
        for item in found:
            if (item.node, item.epoch, item.hash) not in known:
                logger.critical(
                    "log_diverged",
                    node=item.node,
                    epoch=item.epoch,
                    hash=item.hash.hex(),
                    tip=item.tip,
                    fault=item.fault.value,
                    detail=item.sentence,
                    remedy=item.remedy,
                )
        if self.divergences and not found:
            logger.warning("log_trusted_again")
        self.divergences = tuple(found)
