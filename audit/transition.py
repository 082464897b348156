"""One entry with the metadata on both sides of it, and what it changed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from operator import attrgetter

import msgspec

from encoding.entries import Entry
from metadata.cluster import COMPONENTS, ClusterMetadata
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from metadata.placements import Group, ReplicaGroups, RingPlacement
from metadata.plans import Step
from metadata.schema import PlacementKey
from metadata.sequences import Sequence
from metadata.tokens import END, Range, Token, token_at

STEPS = {
    **dict.fromkeys(("PrepareJoin", "PrepareLeave", "PrepareMove", "PrepareReplace"), Step.PREPARE),
    **dict.fromkeys(("StartJoin", "StartLeave", "StartMove", "StartReplace"), Step.START),
    **dict.fromkeys(("MidJoin", "MidLeave", "MidMove", "MidReplace"), Step.MID),
    **dict.fromkeys(("FinishJoin", "FinishLeave", "FinishMove", "FinishReplace"), Step.FINISH),
    "CancelSequence": Step.CANCEL,
    "RetireSequence": Step.RETIRE,
}
"""The kinds that are steps of sequences."""

AT_ONCE = ("UnsafeJoin", "Assassinate", "AlterKeyspace")
"""The kinds that change owners in one epoch."""

FORCED = "ForceSnapshot"

_parts = attrgetter(*COMPONENTS)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A range of a placement whose owners are not as they were."""

    placement: PlacementKey
    range: Range
    readers_before: tuple[NodeId, ...]
    readers: tuple[NodeId, ...]
    writers_before: tuple[NodeId, ...]
    writers: tuple[NodeId, ...]


class Transition(msgspec.Struct, frozen=True, dict=True):
    before: ClusterMetadata
    entry: Entry
    after: ClusterMetadata

    @property
    def epoch(self) -> Epoch:
        return self.after.epoch

    @cached_property
    def kind(self) -> str:
        return self.entry.kind

    @cached_property
    def changed(self) -> frozenset[str]:
        """The components that are other objects than before; the rest needs no look."""
        sides = zip(COMPONENTS, _parts(self.before), _parts(self.after), strict=True)
        return frozenset([name for name, old, new in sides if old is not new])

    @cached_property
    def step(self) -> Step | None:
        return STEPS.get(self.kind)

    @cached_property
    def sequence(self) -> Sequence | None:
        """The sequence of which this entry is a later step, as it was before the step."""
        named = getattr(self.entry.transformation, "sequence", None)
        if self.step in (None, Step.PREPARE) or named is None:
            return None
        return self.before.sequences.find(SequenceId(named))

    @cached_property
    def accept_loss(self) -> str | None:
        found = getattr(self.entry.transformation, "accept_loss", None)
        return found if isinstance(found, str) and found else None

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Every range, cut wherever either side is, whose readers or writers differ."""
        if "placements" not in self.changed:
            return ()
        return tuple(
            change
            for key in sorted({*self.before.placements.placed, *self.after.placements.placed})
            for change in owner_changes(
                key, self.before.placements.find(key), self.after.placements.find(key)
            )
        )


def owner_changes(
    key: PlacementKey, before: RingPlacement | None, after: RingPlacement | None
) -> Iterator[Change]:
    old, new = before or RingPlacement(), after or RingPlacement()
    places = sorted(_other_places(old.reads, new.reads) | _other_places(old.writes, new.writes))
    for place in places:
        right = token_at(place)
        sides = [side.at(right) for side in (old.reads, new.reads, old.writes, new.writes)]
        before_read, read, before_written, written = map(_owners, sides)
        if before_read != read or before_written != written:
            yield Change(
                placement=key,
                range=Range(_left_of(place, old, new), right),
                readers_before=before_read,
                readers=read,
                writers_before=before_written,
                writers=written,
            )


def other_groups(old: ReplicaGroups, new: ReplicaGroups) -> Iterator[tuple[Range, Group]]:
    """The ranges of `new` that are not, with the same edges and the same group, in `old`."""
    if old is new:
        return
    lefts = (-END, *old.places)
    known = dict(zip(old.places, zip(lefts, old.groups, strict=False), strict=True))
    left = -END
    for place, group in zip(new.places, new.groups, strict=True):
        earlier = known.get(place)
        if earlier is None or earlier[1] is not group or earlier[0] != left:
            yield Range(Token(left), token_at(place)), group
        left = place


def _other_places(old: ReplicaGroups, new: ReplicaGroups) -> set[int]:
    """Where groups end that the other side does not have in this place."""
    if old is new:
        return set()
    ours = dict(zip(old.places, old.groups, strict=True))
    theirs = dict(zip(new.places, new.groups, strict=True))
    places = {place for place, group in ours.items() if theirs.get(place) is not group}
    return places | {place for place, group in theirs.items() if ours.get(place) is not group}


def _left_of(place: int, old: RingPlacement, new: RingPlacement) -> Token:
    """The nearest place to the left where either side is cut."""
    lefts = []
    for groups in (old.reads, old.writes, new.reads, new.writes):
        index = bisect_left(groups.places, place)
        lefts.append(groups.places[index - 1] if index else -END)
    return Token(max(lefts))


def _owners(group: Group | None) -> tuple[NodeId, ...]:
    return () if group is None else group.owners
