"""Choosing the owners of a range from the ring: the simple and the network strategy."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, groupby
from typing import assert_never

from metadata.directory import Location, NodeId
from metadata.ring import Ring
from metadata.schema import Network, Replication, Simple
from metadata.tokens import Token

Owners = tuple[NodeId, ...]
"""Ascending node ids: a set with one spelling."""

Rack = str | NodeId


class Zone:
    """The part of the ring in which one factor counts: a datacenter, or all of it.

    Walking clockwise, a node of a new rack is taken at once; one of a rack already used only
    while the factor exceeds the number of racks. The simple strategy is the same walk with
    each node on a rack of its own.

    Fewer tokens never shorten a walk, which is what lets a plan look only at the neighbourhood
    of the tokens it changes.
    """

    def __init__(
        self,
        tokens: Sequence[Token],
        owners: Sequence[NodeId],
        rack_of: Mapping[NodeId, Rack],
        factor: int,
    ) -> None:
        nodes = set(owners)
        self.tokens = tokens
        self.wanted = min(factor, len(nodes))
        self.repeats = max(0, factor - len({rack_of[node] for node in nodes}))
        self._owners = owners
        self._rack_of = rack_of
        self._walks: dict[int, tuple[Owners, int]] = {}

    def index_at(self, place: int) -> int:
        """Where the walk for a range that ends at `place` begins."""
        return bisect_left(self.tokens, place) % len(self.tokens)

    def replicas(self, index: int) -> Owners:
        return self.walk(index)[0]

    def walk(self, index: int) -> tuple[Owners, int]:
        """The nodes taken from here on, and how many tokens were looked at for that."""
        found = self._walks.get(index)
        if found is None:
            found = self._walks[index] = self._walk(index)
        return found

    def _walk(self, index: int) -> tuple[Owners, int]:
        owners, rack_of, wanted = self._owners, self._rack_of, self.wanted
        size = len(owners)
        taken: list[NodeId] = []
        racks: set[Rack] = set()
        repeats = self.repeats
        steps = 0
        while len(taken) < wanted and steps < size:
            node = owners[(index + steps) % size]
            steps += 1
            if node in taken:
                continue
            rack = rack_of[node]
            if rack in racks:
                if not repeats:
                    continue
                repeats -= 1
            racks.add(rack)
            taken.append(node)
        return tuple(taken), steps


Zones = Mapping[str, Zone]
"""By datacenter; the simple strategy has one, named by the empty string."""


def zones_of(replication: Replication, ring: Ring, locations: Mapping[NodeId, Location]) -> Zones:
    """`locations` has every node that owns a token. Zones without tokens are left out."""
    match replication:
        case Simple(factor=factor):
            racks: dict[NodeId, Rack] = {node: node for node in ring.by_node}
            return {"": Zone(ring.tokens, ring.owners, racks, factor)} if ring.tokens else {}
        case Network(factors=factors):
            return dict(_datacenters(factors, ring, locations))
        case unreachable:
            assert_never(unreachable)


def _datacenters(
    factors: Mapping[str, int], ring: Ring, locations: Mapping[NodeId, Location]
) -> Iterator[tuple[str, Zone]]:
    racks: dict[NodeId, Rack] = {node: locations[node].rack for node in ring.by_node}
    where = {node: locations[node].datacenter for node in ring.by_node}
    present = set(where.values())
    for name, factor in sorted(factors.items()):
        if factor and name in present:
            near = [where[node] == name for node in ring.owners]
            tokens = list(compress(ring.tokens, near))
            yield name, Zone(tokens, list(compress(ring.owners, near)), racks, factor)


def owners_at(zones: Zones, place: int) -> Owners:
    """The owners of the range that ends at `place`."""
    if len(zones) == 1:
        (zone,) = zones.values()
        return tuple(sorted(zone.replicas(zone.index_at(place))))
    chosen = [node for zone in zones.values() for node in zone.replicas(zone.index_at(place))]
    return tuple(sorted(chosen))


def all_owners(zones: Zones, ring: Ring) -> list[tuple[int, Owners]]:
    """Every range of the ring, by the place where it ends, with its owners."""
    return [(place, owners_at(zones, place)) for place in ring.places]


def by_datacenter(
    nodes: Sequence[NodeId], locations: Mapping[NodeId, Location]
) -> dict[str, list[NodeId]]:
    def datacenter(node: NodeId) -> str:
        return locations[node].datacenter

    ordered = sorted(nodes, key=lambda node: (datacenter(node), node))
    return {name: list(group) for name, group in groupby(ordered, datacenter)}
