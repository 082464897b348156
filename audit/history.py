"""A history to look at: a log with its snapshots, wherever it lies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from log.chain import Tip
from log.entry import SealedEntry
from log.replay import NOTHING_APPLIED, Applied, replay
from metadata.epoch import EMPTY, Epoch

SNAPSHOTS_TRIED_MAX = 20
"""How many snapshots are tried before replaying from the beginning."""


class SnapshotUnusableError(Exception):
    """There is no snapshot at this epoch, or it cannot be read or is not that of its entry."""

    def __init__(self, epoch: Epoch, fault: str) -> None:
        super().__init__(f"The snapshot of epoch {epoch} cannot be used: {fault}")
        self.epoch = epoch
        self.fault = fault


class UnknownEpochError(LookupError):
    """The history does not hold this epoch. The message is one sentence for people."""

    def __init__(self, epoch: int, tip: Epoch) -> None:
        super().__init__(f"There is no epoch {epoch} in this history: it ends at {tip}.")
        self.epoch = epoch


class History(Protocol):
    """An archive or a live log; it is read in order and never changes below its tip."""

    @property
    def tip(self) -> Tip: ...

    def entries(self, after: Epoch, up_to: Epoch) -> Iterator[SealedEntry]:
        """Those of `after` + 1 to `up_to`, dense and in order, as they are asked for."""
        ...

    def snapshots(self) -> Sequence[Epoch]:
        """The epochs at which a snapshot can be had, ascending."""
        ...

    def restored(self, epoch: Epoch) -> Applied:
        """The snapshot at that epoch, its digest verified, or a `SnapshotUnusableError`."""
        ...


def metadata_at(history: History, epoch: Epoch) -> Applied:
    """The version at an epoch: the nearest snapshot that can be used, and the entries from it."""
    check_epoch(history, epoch)
    nearest = nearest_snapshot(history, epoch)
    return replay(history.entries(nearest.metadata.epoch, epoch), nearest)


def metadata_from(history: History, known: Applied, epoch: Epoch) -> Applied:
    """The same, from a version that is at hand already unless a snapshot is nearer."""
    nearest = nearest_snapshot(history, epoch, above=known.metadata.epoch)
    begin = known if nearest.metadata.epoch == EMPTY else nearest
    return replay(history.entries(begin.metadata.epoch, epoch), begin)


def nearest_snapshot(history: History, epoch: Epoch, *, above: Epoch = EMPTY) -> Applied:
    """The newest usable snapshot up to an epoch, or nothing applied; none at or below `above`."""
    candidates = [known for known in history.snapshots() if above < known <= epoch]
    for candidate in reversed(candidates[-SNAPSHOTS_TRIED_MAX:]):
        try:
            return history.restored(candidate)
        except SnapshotUnusableError:
            continue  # An older one and more entries lead to the same metadata.
    return NOTHING_APPLIED


def check_epoch(history: History, epoch: int) -> None:
    if not EMPTY <= epoch <= history.tip.epoch:
        raise UnknownEpochError(epoch, history.tip.epoch)
