"""When entries were handed to the fan-out, as the relay of this process says."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from log.store import StoreUnavailableError
from metadata.epoch import Epoch
from services.cms.reports.marks import Mark, thinned
from services.cms.reports.store import Timeline

logger = structlog.get_logger()

HAND_IN_EVERY_S = 1.0
WAITING_MAX = 256


class RelayMarks:
    """Collects marks and stores a few of them now and then; the oldest are lost first."""

    def __init__(self, name: str, timeline: Timeline, clock_us: Callable[[], int]) -> None:
        self._name = name
        self._timeline = timeline
        self._clock_us = clock_us
        self._waiting: deque[Mark] = deque(maxlen=WAITING_MAX)

    def published(self, epoch: Epoch) -> None:
        """Everything up to `epoch` has just been handed over; repeated ones count once."""
        if not self._waiting or self._waiting[-1][0] < epoch:
            self._waiting.append((epoch, self._clock_us()))

    async def run(self) -> None:
        while True:
            try:
                await self.hand_in()
            except StoreUnavailableError as error:
                logger.info("published_marks_waiting", error=str(error))
            await asyncio.sleep(HAND_IN_EVERY_S)

    async def hand_in(self) -> None:
        if not self._waiting:
            return
        marks = list(self._waiting)
        self._waiting.clear()
        try:
            await self._timeline.publish(self._name, thinned(marks))
        except StoreUnavailableError:
            self._waiting = deque([*marks, *self._waiting], maxlen=WAITING_MAX)
            raise
