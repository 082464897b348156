"""Telling the CMS how far this node is, so that everybody can see who lags."""

from __future__ import annotations

import asyncio
import time
from collections import deque

import structlog

from client.connection import Connection
from log.replay import NOTHING_APPLIED, Applied
from metadata.directory import NodeId
from metadata.epoch import EMPTY, Epoch
from services.http.reports import MARKS_MAX, REPORT_EVERY_S, REPORTS_PATH, Report, ReportAnswer
from services.node.data.fitness import Fitness
from services.node.data.upkeep import Upkeep
from services.node.engine import NodeEngine
from services.telling import Teller
from store.failures import StoreError

logger = structlog.get_logger()

MICROSECONDS = 1_000_000
FIRST_EVERY_S = 0.1
"""Until the CMS has answered once, because no data is served before."""


class Marks:
    """When which epoch was applied, since the last report; the oldest go first."""

    def __init__(self) -> None:
        self._marks: deque[tuple[Epoch, int]] = deque(maxlen=MARKS_MAX)

    def observe(self, applied: Applied) -> None:
        self._marks.append((applied.metadata.epoch, _now_us()))

    def taken(self) -> tuple[tuple[Epoch, int], ...]:
        found = tuple(self._marks)
        self._marks.clear()
        return found


class Reporter:
    """Goes on in whatever state the node is: a log that lost its tail is noticed by this."""

    def __init__(
        self,
        engine: NodeEngine,
        connection: Connection,
        marks: Marks,
        fitness: Fitness,
        upkeep: Upkeep,
    ) -> None:
        self._engine = engine
        self._teller = Teller(connection, REPORTS_PATH, "report_failed")
        self._marks = marks
        self._fitness = fitness
        self._upkeep = upkeep

    async def run(self, version: str) -> None:
        while True:
            was_unknown = self._engine.was_set_back is None
            if self._engine.node is not None:
                await self._report(self._engine.node, version)
            await asyncio.sleep(FIRST_EVERY_S if was_unknown else REPORT_EVERY_S)

    async def _report(self, node: NodeId, version: str) -> None:
        # Until the CMS has said how far this node was in an earlier life, it says nothing of how
        # far it is: an answer that is lost would otherwise make the next one speak of this life.
        is_known = self._engine.was_set_back is not None
        drained = self._engine.gate.drained if is_known else EMPTY
        applied = self._engine.applied if is_known else NOTHING_APPLIED
        marks = self._marks.taken() if is_known else ()
        report = Report(
            node=node,
            epoch=applied.metadata.epoch,
            hash=applied.hash.hex(),
            digest=applied.metadata.digest.hex(),
            sent_at_us=_now_us(),
            version=version,
            applied=tuple(mark for mark in marks if mark[0] > EMPTY),
            drained=drained,
            data=self._upkeep.figures,
            writes=await self._fitness.writes() if is_known else None,
        )
        told = await self._teller.tell(report, ReportAnswer)
        if told is not None:
            self._engine.heard_from_cms(told)
            await self._settle(told)

    async def _settle(self, told: ReportAnswer) -> None:
        """What cannot be kept just now is settled after the next report."""
        try:
            await self._fitness.settle(told)
        except StoreError as error:
            if not error.retriable:
                raise
            logger.warning("fitness_not_kept", error=str(error))


def _now_us() -> int:
    return int(time.time() * MICROSECONDS)
