"""Reservations of ranges by sequences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NewType

import msgspec

from metadata.digest import digest_of
from metadata.epoch import EMPTY, Epoch
from metadata.hashed_map import HashedMap
from metadata.schema import PlacementKey
from metadata.tokens import Range, coalesce, intersections

SequenceId = NewType("SequenceId", int)
"""The epoch of the entry that prepared the sequence."""


class PlacementRanges(msgspec.Struct, frozen=True):
    placement: PlacementKey
    ranges: tuple[Range, ...]


class AffectedRanges(msgspec.Struct, frozen=True):
    """What a sequence touches, by placement; coalesced and in order."""

    by_placement: tuple[PlacementRanges, ...] = ()

    def of(self, key: PlacementKey) -> tuple[Range, ...]:
        return next((item.ranges for item in self.by_placement if item.placement == key), ())

    def conflict_with(self, other: AffectedRanges) -> tuple[PlacementKey, tuple[Range, ...]] | None:
        """The first placement in which the two touch each other, and where.

        Two sets that reach the minimum token conflict although they may share no token: a node
        that comes or goes there changes what both edges of the ring mean.
        """
        for item in self.by_placement:
            theirs = other.of(item.placement)
            common = intersections(item.ranges, theirs)
            if not common and any(found.touches_minimum for found in theirs):
                common = tuple(found for found in item.ranges if found.touches_minimum)
            if common:
                return item.placement, common
        return None

    def overlaps(self, ranges: Sequence[Range]) -> bool:
        """Whether some placement's ranges have a token in common with these."""
        return any(intersections(item.ranges, tuple(ranges)) for item in self.by_placement)

    def __bool__(self) -> bool:
        return any(item.ranges for item in self.by_placement)


def affected(ranges: Mapping[PlacementKey, Iterable[Range]]) -> AffectedRanges:
    coalesced = ((key, coalesce(ranges[key])) for key in sorted(ranges))
    return AffectedRanges(tuple(PlacementRanges(key, found) for key, found in coalesced if found))


class Conflict(msgspec.Struct, frozen=True):
    sequence: SequenceId
    placement: PlacementKey
    ranges: tuple[Range, ...]


class Locks(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    held: HashedMap[SequenceId, AffectedRanges] = HashedMap()
    epoch: Epoch = EMPTY

    @cached_property
    def digest(self) -> bytes:
        return digest_of(self.held.digest, self.epoch)

    def conflict_with(self, wanted: AffectedRanges) -> Conflict | None:
        for sequence, held in self.held.items():
            found = wanted.conflict_with(held)
            if found is not None:
                return Conflict(sequence, *found)
        return None

    def acquire(self, sequence: SequenceId, ranges: AffectedRanges) -> Locks:
        assert sequence not in self.held, sequence
        return Locks(held=self.held.with_item(sequence, ranges), epoch=self.epoch)

    def release(self, sequence: SequenceId) -> Locks:
        assert sequence in self.held, sequence
        return Locks(held=self.held.without([sequence]), epoch=self.epoch)
