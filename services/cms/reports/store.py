"""The port to whatever keeps what nodes report: any CMS may write it, any may be asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from metadata.directory import NodeId
from metadata.epoch import Epoch
from services.cms.progress.store import ProgressStore
from services.cms.reports.lineage import Divergence, Fault, Lineage
from services.cms.reports.marks import Mark

STRANGERS_MAX = 100
"""Nodes that the directory does not know and whose history is another; more are forgotten."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A report as it is stored. `marks` are the new ones; `tip` is what `fault` was judged by."""

    node: NodeId
    epoch: Epoch
    hash: bytes
    digest: bytes
    version: str
    tip: Epoch
    fault: Fault | None = None
    drained: Epoch | None = None
    data: bytes | None = None
    writes: int | None = None
    marks: bytes = b""


def keeping_history(before: Kept, newer: Kept) -> Kept:
    """The newer report with what the one before said of the history that the node has."""
    return msgspec.structs.replace(
        newer,
        epoch=before.epoch,
        hash=before.hash,
        digest=before.digest,
        tip=before.tip,
        fault=before.fault,
    )


class Highest(msgspec.Struct, frozen=True):
    """The furthest that a node ever reported, epoch and count of writes each by itself."""

    epoch: Epoch
    writes: int | None = None


def higher(before: Highest | None, said: Highest) -> Highest:
    if before is None:
        return said
    counts = [count for count in (before.writes, said.writes) if count is not None]
    return Highest(max(before.epoch, said.epoch), max(counts, default=None))


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a node. `age_s` is by the store's clock, `marks` are the last ones."""

    node: NodeId
    epoch: Epoch
    hash: bytes
    digest: bytes
    version: str
    fault: Fault | None
    drained: Epoch | None
    data: bytes | None
    marks: bytes
    age_s: float


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """An admin knows of this one and wants to go on without it."""

    node: NodeId
    epoch: Epoch
    hash: bytes
    reason: str


class ReportStore(Protocol):
    """The last report of each node."""

    async def keep(self, reports: Sequence[Kept]) -> Mapping[NodeId, Highest | None]:
        """One for each node at most. Gives how far each had been by its reports before.

        A node that is at epoch 0 has only just started: what it said of its history in an earlier
        life stands.
        """
        ...

    async def heard(self) -> Sequence[Heard]: ...

    async def forget_others(self, known: Collection[NodeId]) -> None:
        """Drop nodes that are not known, but for some whose history is another."""
        ...

    async def divergences(self) -> Sequence[Divergence]:
        """Those that nobody has acknowledged, by node."""
        ...

    async def acknowledge(self, given: Acknowledgement) -> bool:
        """False where no node reports this."""
        ...


class Timeline(Protocol):
    """What happened to entries, and when."""

    async def lineage(self, epochs: Collection[Epoch]) -> Lineage:
        """The tip, and the hashes at these epochs, at some moment after the call."""
        ...

    async def committed_at(self, epochs: Collection[Epoch]) -> Mapping[Epoch, int]:
        """In microseconds; those no longer kept are left out."""
        ...

    async def publish(self, relay: str, marks: Sequence[Mark]) -> None:
        """A relay has handed entries to the fan-out."""
        ...

    async def published(self) -> Sequence[Sequence[Mark]]:
        """The last marks of each relay."""
        ...


class Stores(msgspec.Struct, frozen=True):
    """Everything that processes of a cluster tell of themselves, apart from the log."""

    reports: ReportStore
    timeline: Timeline
    progress: ProgressStore
