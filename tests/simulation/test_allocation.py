"""A node that joins gets tokens with which every node holds its share."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata.allocation import _numbered, _sides, _walk, allocate
from metadata.directory import NodeId
from metadata.strategies import Zone
from metadata.tokens import MAXIMUM, MINIMUM, Token

CIRCLE = 2**64


class Datacenter(NamedTuple):
    ring: dict[NodeId, tuple[Token, ...]]
    racks: dict[NodeId, str]

    def allocated(self, rack, *, factor=3, count=16, taken=()):
        return allocate(self.ring, self.racks, rack=rack, factor=factor, count=count, taken=taken)

    def joined(self, rack, **wishes):
        node = NodeId(len(self.ring) + 1)
        tokens = self.allocated(rack, **wishes)
        return Datacenter({**self.ring, node: tokens}, {**self.racks, node: rack})

    def held(self, factor):
        """What each node holds by the network strategy, as parts of the circle."""
        zone = self.zone(factor)
        held = dict.fromkeys(self.ring, 0.0)
        for index, token in enumerate(zone.tokens):
            for node in zone.replicas(index):
                held[node] += ((token - zone.tokens[index - 1]) % CIRCLE or CIRCLE) / CIRCLE
        return held

    def zone(self, factor):
        pairs = sorted((token, node) for node in self.ring for token in self.ring[node])
        tokens, owners = zip(*pairs, strict=True)
        return Zone(tokens, owners, self.racks, factor)

    def imbalance(self, factor):
        return imbalance(self.held(factor).values())


EMPTY = Datacenter({}, {})


def imbalance(held):
    """How many times the mean the largest is."""
    return max(held) * len(held) / sum(held)


def grown(racks, **wishes):
    """The datacenter after each of its nodes joined, one per rack named."""
    found = EMPTY
    for rack in racks:
        found = found.joined(rack, **wishes)
        yield found


def in_turn(racks, nodes):
    return [f"r{node % racks}" for node in range(nodes)]


def dealt(nodes, count):
    """Equal ranges, one node after the other."""
    step = CIRCLE // (nodes * count)
    places = {node: range(node, nodes * count + 1, nodes) for node in range(1, nodes + 1)}
    ring = {
        NodeId(node): tuple(Token(MINIMUM + place * step - 1) for place in found)
        for node, found in places.items()
    }
    return Datacenter(ring, dict.fromkeys(ring, "r0"))


def ring_of(*tokens):
    return Datacenter({NodeId(1): tokens}, {NodeId(1): "r0"})


# With three racks and eleven nodes a rack of three must hold a copy: 11/9 is the best there is.
@pytest.mark.parametrize(("racks", "limit"), [(1, 1.06), (2, 1.12), (3, 1.23), (5, 1.1)])
def test_a_cluster_that_grows_node_by_node_stays_balanced(racks, limit):
    for found in list(grown(in_turn(racks, 14)))[9:]:
        assert found.imbalance(3) < limit, len(found.ring)
        assert found.imbalance(1) < 1.15, len(found.ring)


def test_a_cluster_without_copies_stays_balanced():
    for found in list(grown(in_turn(3, 14), factor=1))[9:]:
        assert found.imbalance(1) < 1.06, len(found.ring)


def test_a_large_cluster_stays_balanced():
    found = dealt(nodes=100, count=16)
    for _ in range(3):
        found = found.joined("r0")

    assert found.imbalance(3) < 1.06
    assert found.imbalance(1) < 1.06


@pytest.mark.parametrize(("count", "limit"), [(1, 2.0), (4, 1.25), (8, 1.15), (60, 1.03)])
def test_more_tokens_balance_better(count, limit):
    *_, found = grown(in_turn(1, 10), count=count)

    assert found.imbalance(3) < limit
    assert found.imbalance(1) < limit


def test_many_tokens_are_taken_from_many_nodes():
    *_, found = grown(in_turn(3, 10), count=64)

    assert found.imbalance(1) < 1.06


def test_a_rack_for_each_node_is_as_good_as_one_for_all():
    *_, shared = grown(["r0"] * 8, count=4)
    *_, own = grown(in_turn(8, 8), count=4)

    assert shared.ring == own.ring


def test_the_first_node_is_spread_evenly():
    tokens = EMPTY.allocated("r0")

    assert {right - left for left, right in pairwise(tokens)} == {CIRCLE // 16}
    assert tokens[0] == MINIMUM + CIRCLE // 32


def test_the_first_node_of_another_datacenter_keeps_its_distance():
    elsewhere = EMPTY.allocated("r0")
    tokens = EMPTY.allocated("r0", taken=elsewhere)

    nearest = min(abs(ours - theirs) for ours in tokens for theirs in elsewhere)
    assert nearest == CIRCLE // 64


def test_a_wish_that_is_taken_moves_to_the_next_token():
    found = ring_of(Token(0))
    (wish,) = found.allocated("r0", count=1)

    assert found.allocated("r0", count=1, taken=[wish]) == (wish + 1,)


def test_the_minimum_token_is_nobody_s():
    found = ring_of(Token(0))

    assert found.allocated("r0", count=1) == (MINIMUM + 1,)


def test_a_share_is_in_proportion_to_the_number_of_tokens():
    found = dealt(nodes=10, count=16).joined("r0", count=24)

    assert found.held(1)[11] == pytest.approx(24 / 184, rel=0.05)
    assert found.held(3)[11] == pytest.approx(3 * 24 / 184, rel=0.05)


def test_a_node_that_holds_too_much_is_relieved():
    ring, racks = dealt(nodes=10, count=16)
    # Whoever is dealt next inherits every range of one that is gone.
    lopsided = Datacenter({node: ring[node] for node in ring if node != 10}, racks)
    assert lopsided.held(1)[1] == pytest.approx(2 / 10)

    found = lopsided.joined("r0")

    assert found.held(1)[1] == pytest.approx(1 / 10, rel=0.1)
    assert found.imbalance(3) < 1.1


def test_a_second_node_on_a_needed_rack_takes_half_of_what_the_first_held():
    *_, found = grown(["r0", "r1"] * 5 + ["r2"])
    assert found.held(3)[11] == pytest.approx(1)

    held = found.joined("r2").held(3)

    assert held[11] == pytest.approx(0.5, rel=0.05)
    assert held[12] == pytest.approx(0.5, rel=0.05)


def test_the_only_node_on_a_needed_rack_has_its_share_of_first_copies():
    *_, found = grown(["r0", "r1"] * 5 + ["r2"])

    assert found.held(1)[11] == pytest.approx(1 / 11, rel=0.05)


def test_racks_of_uneven_size_are_balanced_within():
    *_, found = grown(["r0", "r1", "r0", "r2", "r0", "r0"] * 2)
    held = found.held(3)

    for rack in ("r0", "r1", "r2"):
        within = [held[node] for node in held if found.racks[node] == rack]
        assert imbalance(within) < 1.1
    assert found.imbalance(1) < 1.1


@st.composite
def dealt_at_random(draw):
    """Three tokens for each node; some racks are rare."""
    racks = draw(st.lists(st.sampled_from("a" * 9 + "b" * 9 + "cd"), min_size=6, max_size=30))
    owners = draw(st.permutations([*range(len(racks))] * 3))
    nodes = [NodeId(node) for node in range(len(racks))]
    ring = {
        node: tuple(Token(at) for at, own in enumerate(owners) if own == node) for node in nodes
    }
    return Datacenter(ring, dict(zip(nodes, racks, strict=True)))


@given(found=dealt_at_random(), factor=st.integers(2, 5))
@settings(max_examples=30)
def test_copies_are_counted_where_the_network_strategy_puts_them(found, factor):
    ring = _numbered(list(found.ring.values()), list(found.racks.values()))
    *_, side = _sides(factor, np.ones(len(found.ring)), ring.racks)

    held, _ = _walk(ring.owners, side)

    zone = found.zone(side.factor)
    counted = [tuple(nodes) for nodes in held.T.tolist()]
    assert counted == [zone.replicas(index) for index in range(len(zone.tokens))]


anywhere = st.integers(MINIMUM + 1, MAXIMUM) | st.integers(-20, 20)


@st.composite
def datacenters(draw):
    """Any ring: crowded, lopsided, with nodes that have no tokens; any racks."""
    pool = draw(st.lists(anywhere, max_size=40, unique=True))
    nodes = draw(st.integers(1, 6))
    ring = {NodeId(node): tuple(pool[node - 1 :: nodes]) for node in range(1, nodes + 1)}
    return Datacenter(ring, {node: f"r{draw(st.integers(0, 3))}" for node in ring})


@given(
    found=datacenters(),
    taken=st.sets(anywhere, max_size=20),
    rack=st.sampled_from(["r0", "r1", "new"]),
    factor=st.integers(1, 5),
    count=st.integers(1, 40),
)
@settings(max_examples=30)
def test_tokens_are_unused_and_depend_on_no_order(found, taken, rack, factor, count):
    wishes = {"factor": factor, "count": count, "taken": taken}

    tokens = found.allocated(rack, **wishes)

    assert len(tokens) == count
    assert sorted(set(tokens)) == list(tokens)
    assert not taken.union(*found.ring.values()).intersection(tokens)
    assert all(MINIMUM < token <= MAXIMUM for token in tokens)
    backwards = {node: found.ring[node][::-1] for node in reversed(found.ring)}
    assert Datacenter(backwards, found.racks).allocated(rack, **wishes) == tokens
