"""The owners of a range, compared with an obvious way to find them."""

from __future__ import annotations

import random

import pytest

from metadata.directory import Location, NodeId
from metadata.ring import Ring
from metadata.schema import Network, Simple
from metadata.strategies import all_owners, by_datacenter, owners_at, zones_of
from metadata.tokens import END, MAXIMUM, MINIMUM, Range, Token, edges, ranges_between


def owners_naively(replication, ring, locations):
    """Every range of the ring with the set of its owners.

    Walk clockwise from the end of the range. Take a node of a new rack; take one of a rack
    already used only as often as there are fewer racks than replicas.
    """
    owned = sorted((token, node) for node, tokens in ring.by_node.items() for token in tokens)
    if not owned:
        return []
    ends = sorted({token for token, _ in owned} - {MINIMUM})
    spans = [
        Range(left, right) for left, right in zip([MINIMUM, *ends], [*ends, MINIMUM], strict=True)
    ]
    return [(span, _walk_naively(replication, owned, locations, span.right)) for span in spans]


def _walk_naively(replication, owned, locations, right):
    # The minimum token closes the ring: whoever has it, or else the first token, comes next.
    turned = [pair for pair in owned if right != MINIMUM and pair[0] >= right]
    walk = turned + [pair for pair in owned if pair not in turned]
    if isinstance(replication, Simple):
        nodes = list(dict.fromkeys(node for _, node in walk))
        return set(nodes[: replication.factor])
    found = set()
    for name, factor in replication.factors.items():
        local = [node for _, node in walk if locations[node].datacenter == name]
        found |= _rack_by_rack(local, {node: locations[node].rack for node in local}, factor)
    return found


def _rack_by_rack(walk, rack_of, factor):
    repeats = factor - len(set(rack_of.values()))
    taken: list[NodeId] = []
    used: list[str] = []
    for node in walk:
        again = rack_of[node] in used
        if len(taken) == factor or node in taken or (again and repeats <= 0):
            continue
        repeats -= again
        taken.append(node)
        used.append(rack_of[node])
    return set(taken)


def random_cluster(rng):
    nodes = [NodeId(number) for number in range(1, rng.randint(2, 13))]
    datacenters, racks = rng.randint(1, 3), rng.randint(1, 4)
    locations = {
        node: Location(f"dc{rng.randint(1, datacenters)}", f"r{rng.randint(1, racks)}")
        for node in nodes
    }
    pool = [MINIMUM, MINIMUM + 1, -1, 0, MAXIMUM, *rng.sample(range(1, 10_000), 200)]
    rng.shuffle(pool)
    ring = Ring()
    for node in nodes:
        ring = ring.with_tokens(node, [Token(pool.pop()) for _ in range(rng.randint(1, 8))])
    return ring, locations


def random_replication(rng):
    if rng.random() < 0.3:
        return Simple(rng.randint(1, 5))
    return Network({f"dc{number}": rng.randint(0, 5) for number in range(1, rng.randint(2, 5))})


@pytest.mark.parametrize("seed", range(30))
def test_agrees_with_the_obvious_way(seed):
    rng = random.Random(seed)
    for _ in range(5):
        ring, locations = random_cluster(rng)
        replication = random_replication(rng)

        found = all_owners(zones_of(replication, ring, locations), ring)

        spans = ranges_between([place for place, _ in found])
        ours = [(span, set(owners)) for span, (_, owners) in zip(spans, found, strict=True)]
        assert ours == owners_naively(replication, ring, locations)
        assert all(list(owners) == sorted(owners) for _, owners in found)


def ring_of(*tokens):
    """Node 1 has the first token, node 2 the second and so on."""
    ring = Ring()
    for number, token in enumerate(tokens, 1):
        ring = ring.with_tokens(NodeId(number), [Token(token)])
    return ring


def placed(replication, ring, *places):
    locations = {NodeId(n): Location(*place) for n, place in enumerate(places, 1)}
    zones = zones_of(replication, ring, locations)
    return [owners_at(zones, place) for place in edges(ring.tokens)]


def test_simple_takes_the_next_nodes_clockwise():
    found = placed(Simple(2), ring_of(100, 200, 300), *[("dc1", "r1")] * 3)

    assert found == [(1, 2), (2, 3), (1, 3), (1, 2)]


def test_simple_cares_for_neither_rack_nor_datacenter():
    places = [("dc1", "r1"), ("dc2", "r1"), ("dc2", "r2")]

    assert placed(Simple(2), ring_of(100, 200, 300), *places)[0] == (1, 2)


def test_network_prefers_racks_not_used_yet():
    places = [("dc1", "r1"), ("dc1", "r1"), ("dc1", "r2")]

    assert placed(Network({"dc1": 2}), ring_of(100, 200, 300), *places)[0] == (1, 3)


def test_network_repeats_a_rack_only_where_racks_are_fewer_than_replicas():
    """Three replicas on two racks: the second node of r1 is taken at once, the third is not."""
    places = [("dc1", "r1"), ("dc1", "r1"), ("dc1", "r1"), ("dc1", "r2")]

    assert placed(Network({"dc1": 3}), ring_of(1, 2, 3, 4), *places)[0] == (1, 2, 4)


def test_network_counts_each_datacenter_by_itself():
    places = [("dc1", "r1"), ("dc2", "r1"), ("dc1", "r1"), ("dc2", "r1")]
    two_and_one = Network({"dc1": 2, "dc2": 1})

    assert placed(two_and_one, ring_of(1, 2, 3, 4), *places)[0] == (1, 2, 3)


def test_fewer_nodes_than_replicas_are_all_owners():
    assert placed(Simple(5), ring_of(100, 200), *[("dc1", "r1")] * 2) == [(1, 2)] * 3


def test_a_datacenter_without_nodes_or_replicas_places_nothing():
    places = [("dc1", "r1")] * 2

    assert set(placed(Network({"dc9": 3}), ring_of(1, 2), *places)) == {()}
    assert set(placed(Network({"dc1": 0}), ring_of(1, 2), *places)) == {()}


def test_an_empty_ring_has_no_ranges():
    assert all_owners(zones_of(Simple(3), Ring(), {}), Ring()) == []


def test_a_node_at_the_minimum_token_owns_the_last_range():
    ring = ring_of(MINIMUM, 200)

    assert placed(Simple(1), ring, *[("dc1", "r1")] * 2) == [(2,), (1,)]
    assert edges(ring.tokens) == [200, END]


def test_nodes_by_datacenter():
    places = {NodeId(n): Location(f"dc{n % 2}", "r1") for n in range(1, 6)}

    assert by_datacenter(list(reversed(places)), places) == {"dc0": [2, 4], "dc1": [1, 3, 5]}


def test_a_ring_keeps_tokens_and_owners_side_by_side():
    ring = ring_of(300, 100).with_tokens(NodeId(3), [Token(200), Token(50)])

    moved = ring.with_tokens(NodeId(3), [Token(400)]).without(NodeId(1))

    assert (ring.tokens, ring.owners) == ((50, 100, 200, 300), (3, 2, 3, 1))
    assert ring.tokens_of(NodeId(3)) == (50, 200)
    assert (moved.tokens, moved.owners) == ((100, 400), (2, 3))
    assert (ring.owner_of(Token(200)), ring.owner_of(Token(201))) == (3, None)
    assert ring.owner_of(Token(999)) is None
    assert ring.tokens_of(NodeId(9)) == ()
    assert len(moved) == 2
