"""Plans look only at the neighbourhood of what changes, and prove what they promise."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import msgspec
import pytest

from metadata.directory import Location, NodeId
from metadata.placements import Group, Placements, RingPlacement, build
from metadata.plans import Handover, PlacementPlan, Step
from metadata.ring import Ring
from metadata.schema import Network, Simple
from metadata.sequences import SequenceKind
from metadata.strategies import owners_at, zones_of
from metadata.tokens import MAXIMUM, MINIMUM, Token, edges, position
from tests.builders import (
    commit,
    in_step,
    joined_cluster,
    only_sequence,
    preparation,
    rejected,
)
from transformations.kinds import execute
from transformations.outcome import Reason
from transformations.planning import (
    RingChange,
    handovers,
    plan,
    plan_placement,
    ring_change,
)
from transformations.proofs import unproved


def random_token(rng, taken):
    while True:
        chance = rng.random()
        token = rng.choice([MINIMUM, MINIMUM + 1, MAXIMUM]) if chance < 0.1 else rng.randint(0, 999)
        if token not in taken:
            taken.add(token)
            return Token(token)


def random_change(rng):
    """A ring of up to three datacenters, and the ring after a join, leave, move or replacement."""
    nodes = [NodeId(number) for number in range(1, rng.randint(2, 10))]
    newcomer = NodeId(len(nodes) + 1)
    places = {
        node: Location(f"dc{rng.randint(1, rng.choice([1, 2, 3]))}", f"r{rng.randint(1, 4)}")
        for node in (*nodes, newcomer)
    }
    taken: set[Token] = set()
    count = rng.choice([1, 1, 2, 4, 16])
    ring = Ring()
    for node in nodes:
        ring = ring.with_tokens(node, [random_token(rng, taken) for _ in range(count)])
    chosen = rng.choice(nodes)
    fresh = [random_token(rng, taken) for _ in range(count)]
    kind = rng.choice(list(SequenceKind))
    after = {
        SequenceKind.JOIN: ring.with_tokens(newcomer, fresh),
        SequenceKind.LEAVE: ring.without(chosen),
        SequenceKind.MOVE: ring.with_tokens(chosen, [*fresh[1:], *ring.tokens_of(chosen)[:1]]),
        SequenceKind.REPLACE: ring.without(chosen).with_tokens(newcomer, ring.tokens_of(chosen)),
    }[kind]
    return RingChange(ring, after, places)


def random_replication(rng):
    if rng.random() < 0.3:
        return Simple(rng.randint(1, 5))
    return Network({f"dc{number}": rng.randint(0, 5) for number in range(1, rng.randint(2, 5))})


def fully(replication, change):
    """Every range whose owners differ, by computing all of them twice."""
    before = zones_of(replication, change.before, change.locations)
    after = zones_of(replication, change.after, change.locations)
    owners = [
        (place, owners_at(before, place), owners_at(after, place))
        for place in edges([*change.before.tokens, *change.after.tokens])
    ]
    return [(place, old, new) for place, old, new in owners if old != new]


@pytest.mark.parametrize("seed", range(20))
def test_the_neighbourhood_is_all_that_changes(seed):
    rng = random.Random(seed)
    for _ in range(15):
        change, replication = random_change(rng), random_replication(rng)

        found = plan_placement(replication, change)

        changed = [(position(item.range.right), item.before, item.after) for item in found.changes]
        assert changed == fully(replication, change), (seed, replication, change)
        assert found.splits == tuple(sorted(set(change.after.tokens) - set(change.before.tokens)))
        assert found.merges == tuple(sorted(set(change.before.tokens) - set(change.after.tokens)))


def test_the_ranges_of_a_plan_are_those_between_the_tokens_before_and_after():
    rng = random.Random(1)
    for _ in range(50):
        change = random_change(rng)

        found = plan_placement(Simple(3), change)

        ends = [MINIMUM, *edges([*change.before.tokens, *change.after.tokens])]
        spans = {(item.range.left, position(item.range.right)) for item in found.changes}
        assert spans <= set(pairwise(ends))


PLACES = {NodeId(n): Location(f"dc{(n - 1) // 3 + 1}", "r1") for n in range(1, 10)}


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        ((1, 2, 3), (1, 2, 3), []),
        ((1, 2, 3), (2, 3, 4), [(4, 1)]),
        ((1, 2), (1, 2, 3), []),
        ((1, 2, 3), (1, 2), []),
        ((1, 4), (2, 5), [(2, 1), (5, 4)]),
        ((1, 4, 5), (2, 3, 6), [(2, 1), (3, 5), (6, 4)]),
        ((7, 8), (1, 4), [(1, 7), (4, 8)]),
    ],
)
def test_each_that_gains_has_one_that_loses_near_it_where_there_is_one(before, after, pairs):
    """Nodes 1 to 3 are in dc1, 4 to 6 in dc2, 7 to 9 in dc3."""
    assert handovers(before, after, PLACES) == tuple(Handover(*pair) for pair in pairs)


def test_no_two_take_the_place_of_one():
    nodes = list(PLACES)[:7]
    for before in combinations(nodes, 3):
        for after in combinations(nodes, 3):
            pairs = handovers(before, after, PLACES)

            assert len({pair.loses for pair in pairs}) == len({pair.gains for pair in pairs})
            assert {pair.gains for pair in pairs} == set(after) - set(before)


# A sound log never leads to what the proofs refuse, so the metadata is broken by hand.


def with_owners(metadata, owners, sides=("reads", "writes")):
    """The only placement has these owners everywhere, on these sides."""
    ((key, placement),) = metadata.placements.items()

    def everywhere(groups):
        return build((place, Group(owners, groups.groups[0].epoch)) for place in groups.places)

    broken = RingPlacement(
        everywhere(placement.reads) if "reads" in sides else placement.reads,
        everywhere(placement.writes) if "writes" in sides else placement.writes,
    )
    placements = Placements(placed={key: broken}, epoch=metadata.placements.epoch)
    return msgspec.structs.replace(metadata, placements=placements)


@pytest.mark.parametrize("sides", [("reads",), ("writes",), ("reads", "writes")])
@pytest.mark.parametrize("kind", SequenceKind)
def test_refuses_a_plan_for_owners_that_are_others(kind, sides):
    before = joined_cluster(nodes=5, spare=1)
    broken = with_owners(before, (NodeId(1), NodeId(4)), sides)

    refused = rejected(execute(preparation(before, kind), broken), Reason.UNSAFE_PLAN)

    assert "is not owned by" in refused.detail


def test_accepts_the_same_plan_for_the_right_owners():
    before = joined_cluster(nodes=5, spare=1)

    for kind in SequenceKind:
        assert only_sequence(commit(before, preparation(before, kind))).last is Step.PREPARE


def test_a_plan_stores_all_that_later_steps_need():
    """They apply it without asking the ring, so that they decide the same for ever."""
    before = in_step(joined_cluster(nodes=5, spare=1), SequenceKind.JOIN, Step.MID)
    elsewhere = msgspec.structs.replace(before, schema=before.schema, ring=Ring())

    (stored,) = only_sequence(elsewhere).plans
    finished = stored.apply(Step.FINISH, before.placements.placed[stored.placement], before.epoch)

    assert [group.owners for group in finished.writes.groups] == [
        group.owners for group in finished.reads.groups
    ]
    assert stored.covering(Token(120)) in stored.changes
    assert stored.covering(Token(220)) is None


class Hasty(PlacementPlan, frozen=True):
    """Reads in START what it writes in MID."""

    def apply(self, step, placement, epoch):
        swapped = {Step.START: Step.MID, Step.MID: Step.START}
        return super().apply(swapped.get(step, step), placement, epoch)


class Stubborn(PlacementPlan, frozen=True):
    """Does not turn back."""

    def undo(self, placement, epoch):
        return self.apply(Step.RETIRE, placement, epoch)


def join_planned():
    before = joined_cluster(nodes=5, replication=Simple(2), spare=1)
    change = ring_change(before, before.ring.with_tokens(NodeId(6), [Token(150)]))
    return before, change, *plan(before, change)


def proof_of(kind=PlacementPlan, **changed):
    """What is said against the plan of a join, made over."""
    before, change, plans, ranges = join_planned()
    fields = msgspec.structs.asdict(plans[Simple(2).key]) | changed
    return unproved(before, change, {Simple(2).key: kind(**fields)}, ranges)


def changes(*owners):
    """The changes of that plan, but with other owners after it."""
    _, _, plans, _ = join_planned()
    after = tuple(map(NodeId, owners))
    return tuple(msgspec.structs.replace(x, after=after) for x in plans[Simple(2).key].changes)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"kind": Hasty}, "at start, (-9223372036854775808, 100] gets readers"),
        ({"kind": Stubborn}, "cancelling after prepare does not restore the owners"),
        ({"changes": changes(2, 5)}, "where the ring after them gives"),
        (
            {"changes": changes(1, 2, 3, 4, 5)},
            "may miss each other: between start and mid",
        ),
    ],
    ids=["reads before writes", "no way back", "another end", "quorums"],
)
def test_refuses_a_plan_that_breaks_a_promise(fields, fault):
    refused = proof_of(**fields)

    assert refused is not None
    assert refused.reason is Reason.UNSAFE_PLAN
    assert fault in refused.detail


def test_finds_nothing_against_the_plan_itself():
    assert proof_of() is None
