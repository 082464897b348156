"""Measuring how entries spread, and keeping what is stored about it small."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

import structlog

from log.published import Published
from log.store import StoreUnavailableError
from metadata.cluster import ClusterMetadata
from metadata.epoch import Epoch
from services.cms.progress.store import spoken_of
from services.cms.reports.marks import AppliedTimes, unpacked
from services.cms.reports.propagation import (
    Propagation,
    Spread,
    Stage,
    Standing,
    members_of,
    sampled,
)
from services.cms.reports.store import Heard, Stores
from services.http.metrics import Histogram

logger = structlog.get_logger()

OBSERVE_EVERY_S = 2.0
FORGET_EVERY = 15
"""Rounds of observing between two cleanings."""
SAMPLES_MAX = 16
"""Epochs measured a round and stage."""
MICROSECONDS = 1_000_000
BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0)


class Observer:
    """One process measures, the one that sequences, or each entry would be counted twice.

    `newest` is how the newest entry had spread when it looked last; None in all others.
    """

    def __init__(
        self, stores: Stores, applied: Published, is_measuring: Callable[[], bool]
    ) -> None:
        self.seconds = {stage: Histogram(BOUNDS_S) for stage in Stage}
        self.newest: Propagation | None = None
        self._stores = stores
        self._applied = applied
        self._is_measuring = is_measuring
        self._reached: Mapping[Stage, Epoch] | None = None
        self._round = 0

    async def run(self) -> None:
        while True:
            try:
                await self.observe()
            except StoreUnavailableError as error:
                logger.info("propagation_unknown", error=str(error))
            await asyncio.sleep(OBSERVE_EVERY_S)

    async def observe(self) -> None:
        if not self._is_measuring():
            self._reached = self.newest = None
            return
        metadata = self._applied.applied.metadata
        if self._round % FORGET_EVERY == 0:
            await self._stores.reports.forget_others(list(metadata.directory.nodes))
            await self._stores.progress.forget_others(spoken_of(metadata), up_to=metadata.epoch)
        self._round += 1
        spread = await spread_now(self._stores, metadata)
        self.newest = spread.of(metadata.epoch)
        before, reached = self._reached, spread.frontiers()
        if before is None:
            # Nobody knows which of these the process before this one has counted.
            self._reached = reached
            return
        for stage in Stage:
            await self._measure(spread, stage, before[stage], reached[stage])
        # A member that comes anew holds a stage back; what was counted is not counted again.
        self._reached = {stage: max(before[stage], reached[stage]) for stage in Stage}

    async def _measure(self, spread: Spread, stage: Stage, after: Epoch, upto: Epoch) -> None:
        epochs = sampled(after, upto, SAMPLES_MAX)
        if not epochs:
            return
        committed_at = await self._stores.timeline.committed_at(epochs)
        for epoch, at_us in committed_at.items():
            found = spread.of(epoch).reached(stage)
            if found is not None and found.at_us is not None:
                # Clocks of two machines may disagree by more than this took.
                self.seconds[stage].observe(max(0, found.at_us - at_us) / MICROSECONDS)


async def spread_now(stores: Stores, metadata: ClusterMetadata) -> Spread:
    heard = await stores.reports.heard()
    published = [AppliedTimes(marks) for marks in await stores.timeline.published()]
    return Spread(standings(heard), members_of(metadata.directory), published)


def standings(heard: Iterable[Heard]) -> list[Standing]:
    """A history that is not the log's has applied nothing of it."""
    return [
        Standing(item.node, item.epoch, AppliedTimes(unpacked(item.marks)))
        for item in heard
        if item.fault is None
    ]
