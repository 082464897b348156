"""Clusters grown node by node stay balanced at every size."""

from __future__ import annotations

import pytest

from metadata.allocation import allocate
from metadata.directory import NodeId
from metadata.tokens import Token
from tests.simulation.model import Place, owner_lookup, ranges

NODES = 100
TOKENS = 16
MEASURED_FROM = 10
WORST_LOAD = 1.25


def loads(ring: tuple[Place, ...], factor: int) -> dict[int, int]:
    """How much of the token space each node holds, over all replicas, by the naive model."""
    owners = owner_lookup(ring, ("network", (("dc1", factor),)))
    held: dict[int, int] = {}
    for left, right in ranges(place.token for place in ring):
        width = (right - left) % 2**64
        for node in owners(right):
            held[node] = held.get(node, 0) + width
    return held


@pytest.mark.parametrize("racks", [1, 3])
def test_no_node_has_a_quarter_more_than_its_share(racks):
    ring: dict[NodeId, tuple[Token, ...]] = {}
    rack_of: dict[NodeId, str] = {}
    worst = {}
    for node in map(NodeId, range(1, NODES + 1)):
        rack_of[node] = f"r{node % racks}"
        tokens = allocate(ring, rack_of, rack=rack_of[node], factor=3, count=TOKENS)
        ring[node] = tokens
        if node < MEASURED_FROM or (node > 20 and node % 10):
            continue
        places = tuple(
            sorted(Place(token, n, "dc1", rack_of[n]) for n, own in ring.items() for token in own)
        )
        for factor in (1, 3):
            held = loads(places, factor)
            worst[node, factor] = max(held.values()) * len(ring) / sum(held.values())

    assert {size: load for size, load in worst.items() if load > WORST_LOAD} == {}
