"""From a ring before and a ring after to the plan of each placement."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from metadata.cluster import ClusterMetadata
from metadata.directory import Location, NodeId
from metadata.locks import AffectedRanges, affected
from metadata.plans import Handover, PlacementPlan, RangeChange
from metadata.ring import Ring
from metadata.schema import PlacementKey, Replication
from metadata.strategies import Owners, Zone, Zones, by_datacenter, owners_at, zones_of
from metadata.tokens import FULL, MINIMUM, Range, Token, position, token_at

TOKENS_TOTAL = 2**64

Plans = Mapping[PlacementKey, PlacementPlan]


class RingChange(msgspec.Struct, frozen=True, dict=True):
    """The ring before and after a sequence, and where every node stands."""

    before: Ring
    after: Ring
    locations: Mapping[NodeId, Location]

    @cached_property
    def changed(self) -> dict[NodeId, set[Token]]:
        """Tokens that come, go or change hands, under each node they concern."""
        old, new = self.before.by_node, self.after.by_node
        nodes = {*old, *new}
        pairs = ((node, old.get(node) or (), new.get(node) or ()) for node in nodes)
        return {node: set(ours) ^ set(theirs) for node, ours, theirs in pairs if ours != theirs}

    @cached_property
    def added(self) -> tuple[Token, ...]:
        return self._owned_only_by(self.after, self.before)

    @cached_property
    def removed(self) -> tuple[Token, ...]:
        return self._owned_only_by(self.before, self.after)

    def changed_in(self, datacenter: str) -> set[Token]:
        """The changed tokens of a datacenter; of all, for the nameless zone of the whole ring."""
        found: set[Token] = set()
        for node, tokens in self.changed.items():
            if datacenter in ("", self.locations[node].datacenter):
                found |= tokens
        return found

    def _owned_only_by(self, ring: Ring, other: Ring) -> tuple[Token, ...]:
        tokens = set().union(*self.changed.values())
        return tuple(
            sorted(
                token
                for token in tokens
                if ring.owner_of(token) is not None and other.owner_of(token) is None
            )
        )


def plan(metadata: ClusterMetadata, change: RingChange) -> tuple[Plans, AffectedRanges]:
    """What becomes of every placement in use, and the ranges that this reserves."""
    replications = replications_in_use(metadata)
    plans = {key: plan_placement(item, change) for key, item in replications.items()}
    return plans, affected({key: _touched(item, change) for key, item in plans.items()})


def ring_change(metadata: ClusterMetadata, after: Ring) -> RingChange:
    return RingChange(metadata.ring, after, metadata.locations())


def replications_in_use(metadata: ClusterMetadata) -> dict[PlacementKey, Replication]:
    keyspaces = metadata.schema.keyspaces.values()
    return {item.replication.key: item.replication for item in keyspaces}


def plan_placement(replication: Replication, change: RingChange) -> PlacementPlan:
    before = zones_of(replication, change.before, change.locations)
    after = zones_of(replication, change.after, change.locations)
    if not change.before.tokens:
        return _founding(replication.key, after, change)
    places = sorted({*change.before.places, *map(position, change.added)})
    names = sorted(before.keys() | after.keys())
    suspects = {index for name in names for index in _suspects(name, before, after, change, places)}
    return PlacementPlan(
        placement=replication.key,
        changes=tuple(
            _changes(sorted(suspects), places, (before, after), replication, change.locations)
        ),
        splits=change.added,
        merges=change.removed,
        vacating=not change.after.tokens,
    )


def _founding(key: PlacementKey, after: Zones, change: RingChange) -> PlacementPlan:
    places = change.after.places
    changes = [
        RangeChange(range=span_at(places, index), before=owners, after=owners)
        for index, place in enumerate(places)
        for owners in [owners_at(after, place)]
    ]
    return PlacementPlan(
        placement=key,
        changes=tuple(changes),
        splits=change.added,
        founding=True,
    )


def _suspects(
    name: str,
    before: Zones,
    after: Zones,
    change: RingChange,
    places: Sequence[int],
) -> Iterable[int]:
    """Indexes of the ranges whose owners in this zone may differ."""
    old, new = before.get(name), after.get(name)
    if old is None or new is None or (old.wanted, old.repeats) != (new.wanted, new.repeats):
        return range(len(places))
    tokens = change.changed_in(name)
    if not tokens:
        return ()
    known = sorted({*old.tokens, *tokens})
    return ranges_reaching(tokens, known, [old, new], places)


def ranges_reaching(
    tokens: Iterable[Token],
    known: Sequence[Token],
    zones: Sequence[Zone],
    places: Sequence[int],
) -> set[int]:
    """Indexes of the ranges from which a walk in one of the zones comes by one of the tokens.

    Going back from a token, the first place from which no walk reaches it ends the search:
    from further back no walk does.
    """
    found: set[int] = set()
    for token in tokens:
        index = bisect_left(known, token)
        for back in range(len(known)):
            start = known[index - back]
            if not any(_reaches(zone, start, token) for zone in zones):
                break
            found.update(_indexes_between(places, known[(index - back - 1) % len(known)], start))
    return found


def _reaches(zone: Zone, start: Token, token: Token) -> bool:
    index = zone.index_at(start)
    _, steps = zone.walk(index)
    if steps in (0, len(zone.tokens)):
        return steps > 0
    last = zone.tokens[(index + steps - 1) % len(zone.tokens)]
    return (token - start) % TOKENS_TOTAL <= (last - start) % TOKENS_TOTAL


def _indexes_between(places: Sequence[int], previous: Token, token: Token) -> Iterator[int]:
    """Indexes of the ranges that end in (previous, token], across the end of the ring too."""
    if previous < token:
        yield from range(bisect_right(places, previous), bisect_right(places, token))
    else:
        yield from range(bisect_right(places, previous), len(places))
        yield from range(bisect_right(places, token))


def span_at(places: Sequence[int], index: int) -> Range:
    return Range(Token(places[index - 1]) if index else MINIMUM, token_at(places[index]))


def _changes(
    suspects: Iterable[int],
    places: Sequence[int],
    zones: tuple[Zones, Zones],
    replication: Replication,
    locations: Mapping[NodeId, Location],
) -> Iterator[RangeChange]:
    for index in suspects:
        old, new = (owners_at(side, places[index]) for side in zones)
        if old != new:
            pairs = handovers(old, new, locations)
            yield RangeChange(
                range=span_at(places, index),
                before=old,
                after=new,
                handovers=pairs,
                wanted=replication.copies,
            )


def handovers(
    before: Owners, after: Owners, locations: Mapping[NodeId, Location]
) -> tuple[Handover, ...]:
    """Pairs of a node that gains and one that loses, in the same datacenter where possible."""
    gained = by_datacenter([node for node in after if node not in before], locations)
    lost = by_datacenter([node for node in before if node not in after], locations)
    pairs: list[tuple[NodeId, NodeId]] = []
    for name, nodes in gained.items():
        near = lost.get(name, [])
        pairs += zip(nodes, near, strict=False)
        gained[name], lost[name] = nodes[len(near) :], near[len(nodes) :]
    far_gained = [node for nodes in gained.values() for node in nodes]
    far_lost = [node for nodes in lost.values() for node in nodes]
    pairs += zip(far_gained, far_lost, strict=False)
    return tuple(Handover(gains, loses) for gains, loses in sorted(pairs))


def _touched(item: PlacementPlan, change: RingChange) -> Iterator[Range]:
    """Changed ranges, ranges that are split and ranges that others merge into.

    Where the ring will be empty that is all of it, also where nothing was placed.
    """
    if item.vacating:
        yield FULL
    yield from (part.range for part in item.changes)
    for tokens, places in (
        (item.splits, change.before.places),
        (item.merges, change.after.places),
    ):
        if places:
            yield from (span_at(places, bisect_left(places, position(token))) for token in tokens)
