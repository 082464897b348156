"""Taking reports in: those of one moment are judged and stored together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import structlog

from log.queue import OverloadedError
from log.sequencer import StoppedError
from metadata.directory import NodeId
from metadata.epoch import Epoch
from services.cms.reports.lineage import Divergence, Fault, Lineage, divergence
from services.cms.reports.marks import Mark, packed, thinned
from services.cms.reports.store import Highest, Kept, Stores, higher, keeping_history
from services.http.reports import Report

logger = structlog.get_logger()

LINGER_S = 0.05
"""So many statements a second at most, however many nodes report."""
WAITING_MAX = 10_000
BATCH_MAX = 2_000

_encode = msgspec.json.Encoder().encode


class Taken(msgspec.Struct, frozen=True):
    """`reported` is how far the node had been by its reports before."""

    tip: Epoch
    reported: Highest | None
    divergence: Divergence | None


class Arrival(msgspec.Struct, frozen=True):
    """A report with its marks by our clock. Of a node that is not known only a fault is kept."""

    report: Report
    marks: Sequence[Mark]
    is_known: bool


class Intake:
    """`run` stores what came; `on_divergence` is called when a history is not the log's."""

    def __init__(self, stores: Stores, on_divergence: Callable[[], None]) -> None:
        self._stores = stores
        self._on_divergence = on_divergence
        self._waiting: list[tuple[Arrival, asyncio.Future[Taken]]] = []
        self._wake = asyncio.Event()
        self._stopped = False

    async def take(self, arrival: Arrival) -> Taken:
        """Returns once it is stored."""
        if self._stopped:
            raise StoppedError
        if len(self._waiting) >= WAITING_MAX:
            raise OverloadedError
        taken: asyncio.Future[Taken] = asyncio.get_running_loop().create_future()
        self._waiting.append((arrival, taken))
        self._wake.set()
        return await taken

    async def run(self) -> None:
        try:
            while True:
                await self._wake.wait()
                await asyncio.sleep(LINGER_S)
                batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
                if not self._waiting:
                    self._wake.clear()
                await self._answer(batch)
        finally:
            self._stopped = True
            for _, taken in self._waiting:
                if not taken.done():
                    taken.set_exception(StoppedError())

    async def _answer(self, batch: Sequence[tuple[Arrival, asyncio.Future[Taken]]]) -> None:
        """Whatever goes wrong with a batch, the next one is another."""
        try:
            found = await self._stored([arrival for arrival, _ in batch])
        except Exception as error:  # noqa: BLE001 - those who wait get it
            for _, taken in batch:
                if not taken.done():
                    taken.set_exception(error)
            return
        for (_, taken), answer in zip(batch, found, strict=True):
            if not taken.done():
                taken.set_result(answer)

    async def _stored(self, arrivals: Sequence[Arrival]) -> list[Taken]:
        lineage = await self._stores.timeline.lineage({item.report.epoch for item in arrivals})
        found = [_judged(item.report, lineage) for item in arrivals]
        rows: dict[NodeId, Kept] = {}
        together: list[Kept | None] = []
        for item, judged in zip(arrivals, found, strict=True):
            earlier = rows.get(item.report.node)
            together.append(earlier)
            if item.is_known or judged is not None:
                fault = None if judged is None else judged.fault
                rows[item.report.node] = _kept(item, lineage.tip.epoch, fault, earlier)
        before = await self._stores.reports.keep(list(rows.values()))
        if any(found):
            self._on_divergence()
        return [
            Taken(lineage.tip.epoch, _before(before.get(item.report.node), earlier), judged)
            for item, judged, earlier in zip(arrivals, found, together, strict=True)
        ]


def _judged(report: Report, lineage: Lineage) -> Divergence | None:
    return divergence(lineage, report.node, report.epoch, bytes.fromhex(report.hash))


def _before(kept: Highest | None, earlier: Kept | None) -> Highest | None:
    """How far a node had been, also by a report that came together with this one."""
    return kept if earlier is None else higher(kept, Highest(earlier.epoch, earlier.writes))


def _kept(item: Arrival, tip: Epoch, fault: Fault | None, earlier: Kept | None) -> Kept:
    """The later report of a node counts, with the marks of both."""
    report = item.report
    marks = packed(thinned(item.marks))
    kept = Kept(
        node=report.node,
        epoch=report.epoch,
        hash=bytes.fromhex(report.hash),
        digest=bytes.fromhex(report.digest),
        version=report.version,
        tip=tip,
        fault=fault,
        drained=report.drained,
        data=None if report.data is None else _encode(report.data),
        writes=earlier.writes if earlier and report.writes is None else report.writes,
        marks=marks if earlier is None else earlier.marks + marks,
    )
    return kept if earlier is None or kept.epoch else keeping_history(earlier, kept)
