"""Reports in a dictionary, for tests and for a CMS that is alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from log.entry import SealedEntry
from log.store import LogStore
from metadata.directory import NodeId
from metadata.epoch import EMPTY, Epoch
from services.cms.progress.memory import MemoryProgress
from services.cms.reports.lineage import Divergence, Lineage
from services.cms.reports.marks import MARK_BYTES, MARKS_KEPT_MAX, Mark
from services.cms.reports.store import (
    STRANGERS_MAX,
    Acknowledgement,
    Heard,
    Highest,
    Kept,
    Stores,
    higher,
    keeping_history,
)

BYTES_MAX = 8 * 1024 * 1024


class _Row(msgspec.Struct, frozen=True):
    kept: Kept
    highest: Highest
    received_at_s: float


class MemoryReports:
    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._rows: dict[NodeId, _Row] = {}
        self._acknowledged: set[tuple[NodeId, Epoch, bytes]] = set()

    async def keep(self, reports: Sequence[Kept]) -> Mapping[NodeId, Highest | None]:
        found: dict[NodeId, Highest | None] = {}
        for kept in reports:
            before = self._rows.pop(kept.node, None)
            found[kept.node] = None if before is None else before.highest
            now_s = self._clock_s()
            self._rows[kept.node] = _Row(
                kept if before is None else _after(before.kept, kept),
                higher(found[kept.node], Highest(kept.epoch, kept.writes)),
                now_s,
            )
        return found

    async def heard(self) -> Sequence[Heard]:
        now_s = self._clock_s()
        rows = sorted(self._rows.values(), key=lambda row: row.kept.node)
        return [_heard(row.kept, now_s - row.received_at_s) for row in rows]

    async def forget_others(self, known: Collection[NodeId]) -> None:
        # The latest are last: a report puts its row behind all others.
        strangers = [node for node in self._rows if node not in known]
        faulty = [node for node in strangers if self._rows[node].kept.fault is not None]
        for node in set(strangers) - set(faulty[-STRANGERS_MAX:]):
            del self._rows[node]

    async def divergences(self) -> Sequence[Divergence]:
        rows = sorted(self._rows.values(), key=lambda row: row.kept.node)
        return [
            Divergence(
                node=kept.node, epoch=kept.epoch, hash=kept.hash, tip=kept.tip, fault=kept.fault
            )
            for kept in (row.kept for row in rows)
            if kept.fault is not None
            and (kept.node, kept.epoch, kept.hash) not in self._acknowledged
        ]

    async def acknowledge(self, given: Acknowledgement) -> bool:
        row = self._rows.get(given.node)
        if row is None or row.kept.fault is None:
            return False
        if (row.kept.epoch, row.kept.hash) != (given.epoch, given.hash):
            return False
        self._acknowledged.add((given.node, given.epoch, given.hash))
        return True


class MemoryTimeline:
    """Hashes and times come from the log itself."""

    def __init__(self, log: LogStore) -> None:
        self._log = log
        self._published: dict[str, list[Mark]] = {}

    async def lineage(self, epochs: Collection[Epoch]) -> Lineage:
        hashes: dict[Epoch, bytes] = {}
        for epoch in epochs:
            hashes |= {item.epoch: item.hash for item in await self._at(epoch)}
        return Lineage(await self._log.tip(), hashes)

    async def committed_at(self, epochs: Collection[Epoch]) -> Mapping[Epoch, int]:
        found: dict[Epoch, int] = {}
        for epoch in epochs:
            found |= {item.epoch: item.entry.committed_at for item in await self._at(epoch)}
        return found

    async def publish(self, relay: str, marks: Sequence[Mark]) -> None:
        kept = [*self._published.get(relay, ()), *marks]
        self._published[relay] = kept[-MARKS_KEPT_MAX:]

    async def published(self) -> Sequence[Sequence[Mark]]:
        return list(self._published.values())

    async def _at(self, epoch: Epoch) -> Sequence[SealedEntry]:
        if epoch == EMPTY:
            return ()
        return await self._log.read_after(Epoch(epoch - 1), entries_max=1, bytes_max=BYTES_MAX)


def memory_stores(log: LogStore) -> Stores:
    return Stores(MemoryReports(), MemoryTimeline(log), MemoryProgress())


def _after(before: Kept, kept: Kept) -> Kept:
    marks = (before.marks + kept.marks)[-MARKS_KEPT_MAX * MARK_BYTES :]
    newer = msgspec.structs.replace(kept, marks=marks)
    return keeping_history(before, newer) if kept.epoch == EMPTY else newer


def _heard(kept: Kept, age_s: float) -> Heard:
    return Heard(
        node=kept.node,
        epoch=kept.epoch,
        hash=kept.hash,
        digest=kept.digest,
        version=kept.version,
        fault=kept.fault,
        drained=kept.drained,
        data=kept.data,
        marks=kept.marks,
        age_s=age_s,
    )
