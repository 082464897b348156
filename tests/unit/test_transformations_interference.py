"""Sequences that go on together leave exactly the owners that the ring gives.

However many of them finish and in whatever order the others are cancelled. A plan that forgets
what another one is about to do would leave a range with owners that never got its rows.
"""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from metadata.directory import NodeId, NodeState
from metadata.plans import Step
from metadata.schema import Network, Simple
from metadata.sequences import SequenceKind
from metadata.tokens import MAXIMUM, MINIMUM, Token
from tests.builders import commit, due_step, joined_cluster, keyspace
from tests.unit.test_metadata_strategies import owners_naively
from transformations.ending import CancelSequence
from transformations.interference import interference, pending, ring_after
from transformations.join import PrepareJoin
from transformations.kinds import execute
from transformations.leave import PrepareLeave
from transformations.move import PrepareMove
from transformations.outcome import Accepted, Reason
from transformations.planning import ring_change
from transformations.replace import PrepareReplace

EDGES = [MINIMUM, MINIMUM + 1, MAXIMUM]


class Draw:
    """Random clusters and operations; the same seed gives the same ones."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.taken = set()

    def tokens(self, count):
        found: set[Token] = set()
        while len(found) < count:
            edge = self.rng.random() < 0.06
            token = self.rng.choice(EDGES) if edge else self.rng.randint(-2000, 2000)
            if token not in self.taken:
                found.add(Token(token))
        return tuple(found)

    def cluster(self, nodes, *, datacenters):
        """So many nodes on up to four racks a datacenter, and three more to come."""
        racks = self.rng.randint(2, 4)
        places = [
            (f"dc{self.rng.randint(1, datacenters)}", f"r{self.rng.randint(1, racks)}")
            for _ in range(nodes + 3)
        ]
        owned = []
        for _ in range(nodes):
            owned.append(self.tokens(self.rng.choice([1, 1, 1, 2])))
            self.taken.update(owned[-1])
        metadata = joined_cluster(nodes, None, places=places, tokens=owned, spare=3)
        for number in range(self.rng.randint(1, 3)):
            replication = self.replication(datacenters)
            metadata = commit(metadata, *keyspace(replication, f"k{number}", tables=0))
        return metadata

    def replication(self, datacenters):
        if self.rng.random() < 0.3:
            return Simple(self.rng.randint(1, 4))
        named = {f"dc{n}": self.rng.randint(0, 4) for n in range(1, datacenters + 1)}
        return Network(named)

    def preparation(self, metadata):
        spare = [
            node.id
            for node in metadata.directory.nodes.values()
            if node.state in (NodeState.REGISTERED, NodeState.LEFT)
        ]
        joined = list(metadata.ring.by_node)
        kind = self.rng.choice(list(SequenceKind) if spare else [SequenceKind.LEAVE])
        node = self.rng.choice(joined) if joined else NodeId(1)
        match kind:
            case SequenceKind.JOIN:
                return PrepareJoin(node=self.rng.choice(spare), tokens=self.tokens(1))
            case SequenceKind.LEAVE:
                return PrepareLeave(node=node, force=self.rng.random() < 0.5)
            case SequenceKind.MOVE:
                return PrepareMove(node=node, tokens=self.tokens(self.rng.choice([1, 2])))
            case SequenceKind.REPLACE:
                return PrepareReplace(node=self.rng.choice(spare), replaced=node)


def concurrent(draw, metadata, count=3, attempts=20):
    """The metadata with up to so many sequences in progress, some of them on their way."""
    for _ in range(attempts):
        outcome = execute(draw.preparation(metadata), metadata)
        if isinstance(outcome, Accepted):
            metadata = outcome.after
            if draw.rng.random() < 0.3:
                sequence = draw.rng.choice(metadata.sequences.in_progress.values())
                metadata = commit(metadata, due_step(metadata, sequence))
        else:
            assert outcome.reason is not Reason.UNSAFE_PLAN, outcome
        if len(metadata.sequences.in_progress) == count:
            break
    return metadata


def brought_to_an_end(draw, metadata):
    """Some finish, the others are cancelled, all steps shuffled."""
    doomed = {item for item in metadata.sequences.in_progress if draw.rng.random() < 0.4}
    while len(metadata.sequences.in_progress):
        sequence = draw.rng.choice(metadata.sequences.in_progress.values())
        turns = sequence.id in doomed and sequence.due is not Step.RETIRE
        step = CancelSequence(sequence=sequence.id) if turns else due_step(metadata, sequence)
        metadata = commit(metadata, step)
    return metadata


def assert_settled(metadata):
    """Readers and writers are those that a fresh cluster with these tokens has."""
    assert not len(metadata.locks.held)
    for item in metadata.schema.keyspaces.values():
        placement = metadata.placements.placed[item.replication.key]
        expected = owners_naively(item.replication, metadata.ring, metadata.locations())
        for side in (placement.read_groups(), placement.write_groups()):
            assert [(span, set(group.owners)) for span, group in side] == expected


@pytest.mark.parametrize("seed", range(60))
def test_any_subset_may_finish_in_any_order(seed):
    draw = Draw(seed)
    before = draw.cluster(draw.rng.randint(6, 12), datacenters=draw.rng.choice([1, 1, 2]))

    after = brought_to_an_end(draw, concurrent(draw, before))

    assert_settled(after)


def test_sequences_do_go_on_together():
    """The property above says something: often two or three are in progress at once."""
    counts = []
    for seed in range(30):
        draw = Draw(seed)
        before = draw.cluster(draw.rng.randint(6, 12), datacenters=1)
        counts.append(len(concurrent(draw, before).sequences.in_progress))

    assert sum(count >= 2 for count in counts) >= 5


@pytest.mark.parametrize("seed", range(60))
def test_what_does_not_interfere_adds_up(seed):
    """By itself, whatever locks would say: no range is changed by two, nor by one for another."""
    draw = Draw(seed)
    before = draw.cluster(draw.rng.randint(4, 9), datacenters=1)
    others = concurrent(draw, before, count=1)
    changed = {token for item in pending(others) for token in item.tokens}
    draw.taken |= changed
    (rival,) = pending(others)

    for _ in range(10):
        ours = _ring_after(draw.preparation(others), others)
        if ours is None or interference(others, ring_change(others, ours)) is not None:
            continue
        _assert_adds_up(others, ours, rival)


def _ring_after(prepare, metadata):
    """The ring that a Prepare leads to, if no one else is at work on its nodes."""
    busy = {node for item in pending(metadata) for node in (item.node, item.replaced)}
    match prepare:
        case PrepareReplace(node=node, replaced=replaced) if not busy & {node, replaced}:
            ring = metadata.ring.without(replaced)
            return ring.with_tokens(node, metadata.ring.tokens_of(replaced))
        case PrepareLeave(node=node) if node not in busy:
            return metadata.ring.without(node)
        case PrepareJoin(node=node) | PrepareMove(node=node) if node not in busy:
            return metadata.ring.with_tokens(node, prepare.tokens)
    return None


def _assert_adds_up(metadata, ours, rival):
    theirs = ring_after(metadata.ring, rival)
    both = ring_after(ours, rival)
    for item in metadata.schema.keyspaces.values():
        cuts = {*ours.tokens, *theirs.tokens}
        now, one, other, all_done = (
            dict(_pieces(item.replication, ring, metadata, cuts))
            for ring in (metadata.ring, ours, theirs, both)
        )
        for token, owners in now.items():
            by_ours, by_theirs = one[token] != owners, other[token] != owners
            assert not (by_ours and by_theirs), token
            assert all_done[token] == (one if by_ours else other)[token], token


def _pieces(replication, ring, metadata, cuts):
    """The owners of some token of every piece into which all the tokens cut the ring."""
    spans = owners_naively(replication, ring, metadata.locations())
    for token in cuts:
        yield token, next((owners for span, owners in spans if token in span), set())


def test_three_neighbours_never_leave_together():
    before = joined_cluster(nodes=9, replication=Simple(3))

    for trio in combinations(range(1, 10), 3):
        metadata = before
        for node in trio:
            outcome = execute(PrepareLeave(node=NodeId(node)), metadata)
            metadata = outcome.after if isinstance(outcome, Accepted) else metadata

        assert len(metadata.sequences.in_progress) < 3


def test_a_node_that_moves_still_counts():
    """Without its token, two replicas of two nodes would seem to be all there is to look for.

    The move makes node 3 an owner of what lies before 1722, while node 3 is being replaced.
    """
    owned = [[MAXIMUM, 470], [1722], [-1714]]
    places = [("dc1", rack) for rack in ("r1", "r1", "r1", "r2")]
    before = joined_cluster(3, Simple(2), tokens=owned, places=places, spare=1)
    replacing = commit(before, PrepareReplace(node=NodeId(4), replaced=NodeId(3)))
    moved = before.ring.with_tokens(NodeId(2), [Token(634)])

    conflict = interference(replacing, ring_change(replacing, moved))

    assert conflict is not None
    assert any(Token(1722) in span for span in conflict.ranges)
