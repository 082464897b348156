"""What a sequence does to a placement, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import assert_never

import msgspec

from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.placements import RingPlacement, settled
from metadata.schema import PlacementKey
from metadata.strategies import Owners
from metadata.tokens import Range, Token, position


class Step(StrEnum):
    PREPARE = "prepare"
    START = "start"
    MID = "mid"
    FINISH = "finish"
    CANCEL = "cancel"
    RETIRE = "retire"


class Handover(msgspec.Struct, frozen=True, gc=False):
    gains: NodeId
    loses: NodeId


class RangeChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owners of one range before a sequence and after it.

    `wanted` is how many owners the range has when no node is missing.

    `handovers` pairs a node that gains the range with the one whose place it takes. What the
    losing node holds is enough to copy; where several change, each has one of its own.
    """

    range: Range
    before: Owners
    after: Owners
    handovers: tuple[Handover, ...] = ()
    wanted: int = 0

    @property
    def during(self) -> Owners:
        """The writers while the range is being moved."""
        return tuple(sorted({*self.before, *self.after}))

    @property
    def gained(self) -> Owners:
        return tuple(node for node in self.after if node not in self.before)

    @property
    def lost(self) -> Owners:
        return tuple(node for node in self.before if node not in self.after)

    def predecessor_of(self, gaining: NodeId) -> NodeId | None:
        return next((pair.loses for pair in self.handovers if pair.gains == gaining), None)


class PlacementPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that changes in one placement.

    `founding`: the ring was empty, so the first node owns everything from PREPARE on.
    `vacating`: the ring will be empty, so no range is left after FINISH.
    """

    placement: PlacementKey
    changes: tuple[RangeChange, ...] = ()
    splits: tuple[Token, ...] = ()
    merges: tuple[Token, ...] = ()
    founding: bool = False
    vacating: bool = False

    def apply(self, step: Step, placement: RingPlacement, epoch: Epoch) -> RingPlacement:
        """The placement after a step; each step starts from what the one before it left."""
        match step:
            case Step.PREPARE:
                return self._prepared(placement, epoch)
            case Step.START:
                during = ((change.range, change.during) for change in self.changes)
                return RingPlacement(placement.reads, placement.writes.with_owners(during, epoch))
            case Step.MID:
                reads = placement.reads.with_owners(self._after(), epoch)
                return RingPlacement(reads, placement.writes)
            case Step.FINISH:
                return self._finished(placement, epoch)
            case Step.CANCEL:
                reads = placement.reads.with_owners(self._before(), epoch)
                return RingPlacement(reads, placement.writes)
            case Step.RETIRE:
                return placement
            case unreachable:
                assert_never(unreachable)

    def undo(self, placement: RingPlacement, epoch: Epoch) -> RingPlacement:
        """RETIRE after CANCEL: drop the added writers and undo the split."""
        if self.founding:
            return RingPlacement()
        writes = placement.writes.with_owners(self._before(), epoch)
        return RingPlacement(placement.reads.merge(self.splits), writes.merge(self.splits))

    def covering(self, token: Token) -> RangeChange | None:
        return next((change for change in self.changes if token in change.range), None)

    def gains(self) -> Iterator[tuple[RangeChange, NodeId]]:
        return ((change, node) for change in self.changes for node in change.gained)

    def _prepared(self, placement: RingPlacement, epoch: Epoch) -> RingPlacement:
        if not self.founding:
            reads, writes = placement.reads, placement.writes
            return RingPlacement(reads.split(self.splits), writes.split(self.splits))
        return settled(
            ((position(change.range.right), change.after) for change in self.changes), epoch
        )

    def _finished(self, placement: RingPlacement, epoch: Epoch) -> RingPlacement:
        if self.vacating:
            return RingPlacement()
        writes = placement.writes.with_owners(self._after(), epoch)
        return RingPlacement(placement.reads.merge(self.merges), writes.merge(self.merges))

    def _before(self) -> Iterator[tuple[Range, Owners]]:
        return ((change.range, change.before) for change in self.changes)

    def _after(self) -> Iterator[tuple[Range, Owners]]:
        return ((change.range, change.after) for change in self.changes)
