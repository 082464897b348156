"""Who reads and who writes each range."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

import msgspec

from metadata import digest
from metadata.directory import NodeId
from metadata.epoch import EMPTY, Epoch
from metadata.schema import PlacementKey
from metadata.strategies import Owners
from metadata.tokens import END, Range, Token, position, ranges_between, token_at


class Group(msgspec.Struct, frozen=True, gc=False):
    """The owners of one range, and the epoch at which they last changed."""

    owners: Owners
    epoch: Epoch


class ReplicaGroups(msgspec.Struct, frozen=True):
    """Every range of the ring with its group; the ranges end at `places`, which ascend.

    A group's epoch tells when the owners of *its tokens* changed: both halves of a split range
    keep it, and merging takes the later one.
    """

    places: tuple[int, ...] = ()
    groups: tuple[Group, ...] = ()
    tree: digest.Tree = None

    @property
    def digest(self) -> bytes:
        return digest.root(self.tree)

    def at(self, token: Token) -> Group | None:
        return self.groups[bisect_left(self.places, position(token))] if self.places else None

    def items(self) -> Iterator[tuple[Range, Group]]:
        return zip(ranges_between(self.places), self.groups, strict=True)

    def overlapping(self, span: Range) -> Iterator[tuple[Range, Group]]:
        """The ranges that have tokens in common with `span`, whole."""
        first = bisect_left(self.places, span.left + 1)
        last = bisect_left(self.places, position(span.right))
        for index in range(first, min(last + 1, len(self.places))):
            left = Token(self.places[index - 1]) if index else Token(-END)
            yield Range(left, token_at(self.places[index])), self.groups[index]

    def split(self, tokens: Iterable[Token]) -> ReplicaGroups:
        """Ranges end at these tokens too. No owner changes."""
        put: dict[int, Group] = {}
        for place in {position(token) for token in tokens}:
            index = bisect_left(self.places, place)
            if self.places[index] != place:
                put[place] = self.groups[index]
        return self._edited(put=put, drop=())

    def merge(self, tokens: Iterable[Token]) -> ReplicaGroups:
        """Ranges no longer end at these tokens; what meets there must have the same owners."""
        put: dict[int, Group] = {}
        drop: list[int] = []
        for place in sorted({position(token) for token in tokens} - {END}):
            index = bisect_left(self.places, place)
            if self.places[index] == place:
                behind = self.places[index + 1]
                ours = put.pop(place, self.groups[index])
                put[behind] = _later(ours, self.groups[index + 1])
                drop.append(place)
        return self._edited(put=put, drop=drop)

    def with_owners(self, changes: Iterable[tuple[Range, Owners]], epoch: Epoch) -> ReplicaGroups:
        """Those ranges with other owners; a range that keeps its owners keeps its epoch."""
        put: dict[int, Group] = {}
        for span, owners in changes:
            place = position(span.right)
            if self.groups[bisect_left(self.places, place)].owners != owners:
                put[place] = Group(owners, epoch)
        return self._edited(put=put, drop=())

    def restamped(self, earlier: ReplicaGroups, epoch: Epoch) -> ReplicaGroups:
        """The same owners, with the epochs that they have if `earlier` comes right before."""

        def stamped(span: Range, group: Group) -> Group:
            known = [item for _, item in earlier.overlapping(span)]
            if not known or any(item.owners != group.owners for item in known):
                return Group(group.owners, epoch)
            return max(known, key=lambda item: item.epoch)

        return build((position(span.right), stamped(span, group)) for span, group in self.items())

    def _edited(self, *, put: dict[int, Group], drop: Sequence[int]) -> ReplicaGroups:
        if not put and not drop:
            return self
        leaves = [digest.leaf(token_at(place), group) for place, group in put.items()]
        changes: list[digest.Change] = [(item.path, item) for item in leaves]
        changes += [(digest.path_of(token_at(place)), None) for place in drop]
        places, groups = list(self.places), list(self.groups)
        for place in drop:
            index = bisect_left(places, place)
            del places[index], groups[index]
        for place, group in put.items():
            index = bisect_left(places, place)
            if index < len(places) and places[index] == place:
                groups[index] = group
            else:
                places.insert(index, place)
                groups.insert(index, group)
        return ReplicaGroups(tuple(places), tuple(groups), digest.updated(self.tree, changes))


def _later(ours: Group, theirs: Group) -> Group:
    assert ours.owners == theirs.owners, (ours, theirs)
    return ours if ours.epoch > theirs.epoch else theirs


def build(owned: Iterable[tuple[int, Group]]) -> ReplicaGroups:
    """Groups from scratch, by the place where each range ends."""
    content = dict(owned)
    return ReplicaGroups()._edited(put=content, drop=())  # noqa: SLF001 - its own constructor


class Placement(Protocol):
    """One way of placing data: what everything outside this package asks of it.

    The token ring's is below; tablets and buckets are other ways to answer the same questions.
    """

    @property
    def digest(self) -> bytes: ...
    def readers(self, token: Token) -> Group | None: ...
    def writers(self, token: Token) -> Group | None: ...
    def read_groups(self) -> Iterator[tuple[Range, Group]]: ...
    def write_groups(self) -> Iterator[tuple[Range, Group]]: ...
    def involves(self, node: NodeId) -> bool: ...


class RingPlacement(msgspec.Struct, frozen=True, dict=True):
    """The placement of all keyspaces with one replication setting on the token ring."""

    reads: ReplicaGroups = ReplicaGroups()
    writes: ReplicaGroups = ReplicaGroups()

    @cached_property
    def digest(self) -> bytes:
        return digest.digest_of(self.reads.digest, self.writes.digest)

    def readers(self, token: Token) -> Group | None:
        return self.reads.at(token)

    def writers(self, token: Token) -> Group | None:
        return self.writes.at(token)

    def read_groups(self) -> Iterator[tuple[Range, Group]]:
        return self.reads.items()

    def write_groups(self) -> Iterator[tuple[Range, Group]]:
        return self.writes.items()

    def involves(self, node: NodeId) -> bool:
        sides = (*self.reads.groups, *self.writes.groups)
        return any(node in group.owners for group in sides)


def restamped(forced: RingPlacement, earlier: RingPlacement | None, epoch: Epoch) -> RingPlacement:
    """A placement put in the place of another: what it changes carries the new epoch."""
    known = earlier or RingPlacement()
    reads = forced.reads.restamped(known.reads, epoch)
    return RingPlacement(reads, forced.writes.restamped(known.writes, epoch))


def settled(owned: Iterable[tuple[int, Owners]], epoch: Epoch) -> RingPlacement:
    """A placement in which readers and writers are the same."""
    groups = build((place, Group(owners, epoch)) for place, owners in owned)
    return RingPlacement(groups, groups)


class Placements(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One placement per distinct replication setting in use."""

    placed: Mapping[PlacementKey, RingPlacement] = {}
    epoch: Epoch = EMPTY

    @cached_property
    def digest(self) -> bytes:
        parts = [(key, placement.digest) for key, placement in self.items()]
        return digest.digest_of(parts, self.epoch)

    def find(self, key: PlacementKey) -> RingPlacement | None:
        return self.placed.get(key)

    def items(self) -> list[tuple[PlacementKey, RingPlacement]]:
        return [(key, self.placed[key]) for key in sorted(self.placed)]

    def with_placements(self, changed: Mapping[PlacementKey, RingPlacement]) -> Placements:
        return Placements(placed={**self.placed, **changed}, epoch=self.epoch)

    def without(self, key: PlacementKey) -> Placements:
        rest = {other: placement for other, placement in self.placed.items() if other != key}
        return Placements(placed=rest, epoch=self.epoch)
