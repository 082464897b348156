"""What a quorum acknowledged survives every sequence.

One row is followed through a history. Whoever is against it chooses: which majority the row was
written to, and from which sources, among those that receipts may name, each range is copied.
"""

from __future__ import annotations

import random
from itertools import combinations

import msgspec
import pytest

from metadata.directory import NodeId, NodeState
from metadata.plans import Step
from metadata.quorums import majority
from metadata.receipts import enough_sources
from metadata.schema import Network, Simple
from metadata.sequences import SequenceKind
from metadata.tokens import Token
from tests.builders import (
    STEPS,
    accepted,
    commit,
    due_step,
    everyone_applied,
    honest_receipts,
    joined_cluster,
    receipt,
    rejected,
)
from transformations.ending import CancelSequence
from transformations.join import PrepareJoin
from transformations.kinds import execute
from transformations.leave import PrepareLeave
from transformations.move import PrepareMove
from transformations.outcome import Accepted, Reason
from transformations.replace import PrepareReplace


class Row:
    """Where one row of the only table is, while sequences come and go."""

    def __init__(self, metadata, token, holders):
        self.metadata = metadata
        self.token = Token(token)
        self.holders = set(map(NodeId, holders))

    def owners(self, side="readers"):
        ((_, placement),) = self.metadata.placements.items()
        group = getattr(placement, side)(self.token)
        return () if group is None else group.owners

    @property
    def found(self):
        """Whether every majority of the readers has the row."""
        readers = self.owners()
        missing = [node for node in readers if node not in self.holders]
        return len(missing) < majority(len(readers))

    def take(self, step):
        self.metadata = accepted(execute(step, self.metadata)).after

    def run(self, sequence, *, cancel_at=None):
        """Take a sequence to its end, or back from before the step given.

        Returns the steps after which some quorum of the readers would not find the row.
        """
        lost = []
        while (item := self.metadata.sequences.find(sequence)) is not None:
            if item.due is cancel_at:
                self.take(CancelSequence(sequence=sequence))
            elif item.due is Step.MID:
                self.take(self.copied(item))
            else:
                self.take(due_step(self.metadata, item))
            if not self.found:
                lost.append((item.due, self.owners(), sorted(self.holders)))
        # Whoever owns the range no longer cleans it up.
        self.holders &= set(self.owners("writers"))
        return lost

    def copied(self, sequence):
        """MID, with receipts from as few sources as will do, without the row if possible."""
        receipts = []
        for honest in honest_receipts(self.metadata, sequence):
            changes = [
                x for plan in sequence.plans for x in plan.changes if x.range == honest.range
            ]
            choices = _minimal(changes[0], honest.target, sequence.dead)
            sources = min(choices, key=lambda some: len(some & self.holders))
            receipts.append(
                receipt(honest.left, honest.right, honest.target, sources, sequence.last_epoch)
            )
            if self.token in honest.range and self.holders & set(sources):
                self.holders.add(honest.target)
        barrier = everyone_applied(self.metadata, sequence)
        mid = STEPS[sequence.kind][1]
        return mid(sequence=sequence.id, barrier=barrier, receipts=tuple(receipts))


def _minimal(change, target, dead):
    """Sets of sources that are enough, and would not be with one fewer."""
    alive = [node for node in change.before if node not in dead]
    subsets = [set(some) for size in range(len(alive) + 1) for some in combinations(alive, size)]
    enough = [some for some in subsets if enough_sources(change, target, tuple(some))]
    return [some for some in enough if not any(other < some for other in enough)]


def random_preparation(rng, metadata):
    joined = list(metadata.ring.by_node)
    spare = [x.id for x in metadata.directory.nodes.values() if x.state is NodeState.REGISTERED]
    dead = (rng.choice(joined),) if rng.random() < 0.4 else ()
    node = rng.choice(joined)
    tokens = (Token(rng.randrange(-150, 950)),)
    match rng.choice(list(SequenceKind)):
        case SequenceKind.JOIN if spare:
            return PrepareJoin(node=rng.choice(spare), tokens=tokens, dead=dead)
        case SequenceKind.REPLACE if spare:
            return PrepareReplace(node=rng.choice(spare), replaced=node, dead=dead)
        case SequenceKind.MOVE:
            return PrepareMove(node=node, tokens=tokens, dead=dead)
        case _:
            return PrepareLeave(node=node, dead=dead, force=rng.random() < 0.5)


@pytest.mark.parametrize("seed", range(80))
def test_a_row_that_a_majority_has_is_always_found(seed):
    rng = random.Random(seed)
    nodes, racks, datacenters = rng.randint(3, 8), rng.randint(1, 4), rng.choice([1, 1, 2])
    places = [
        (f"dc{rng.randint(1, datacenters)}", f"r{rng.randint(1, racks)}") for _ in range(nodes + 4)
    ]
    factors = {f"dc{number}": rng.randint(1, 4) for number in range(1, datacenters + 1)}
    replication = Simple(rng.randint(1, 5)) if rng.random() < 0.4 else Network(factors)
    before = joined_cluster(nodes, replication, places=places, spare=4)
    row = Row(before, rng.randrange(-100, 100 * nodes + 100), ())
    row.holders = set(rng.sample(row.owners(), majority(len(row.owners()))))

    for _ in range(8):
        outcome = execute(random_preparation(rng, row.metadata), row.metadata)
        if isinstance(outcome, Accepted):
            row.metadata = outcome.after
            cancel = rng.choice([None, None, None, Step.START, Step.MID, Step.FINISH])
            assert not row.run(outcome.after.epoch, cancel_at=cancel)

    assert row.found


ELSEWHERE = [("dc1", "r1"), ("dc1", "r1"), ("dc1", "r1"), ("dc2", "r1")]


@pytest.mark.parametrize(
    ("metadata", "transformation"),
    [
        (joined_cluster(nodes=2), PrepareLeave(node=NodeId(2), force=True)),
        (joined_cluster(nodes=1), PrepareLeave(node=NodeId(1), force=True)),
        (
            joined_cluster(3, Network({"dc1": 3}), places=ELSEWHERE, spare=1),
            PrepareReplace(node=NodeId(4), replaced=NodeId(3)),
        ),
    ],
    ids=["too far below the factor", "the last node", "replaced from another datacenter"],
)
def test_no_range_gets_too_few_owners_unless_loss_is_accepted(metadata, transformation):
    refused = rejected(execute(transformation, metadata), Reason.TOO_FEW_REPLICAS)

    assert refused.ranges
    assert refused.remedy is not None
    assert "accept_loss" in refused.remedy
    commit(metadata, msgspec.structs.replace(transformation, accept_loss="so be it"))


def test_a_copy_after_a_range_got_fewer_owners_reads_all_that_are_left():
    """The row is on nodes 2 and 3. Node 3 leaves, node 4 joins; node 1 alone would not do."""
    row = Row(joined_cluster(nodes=3, spare=1), 150, [2, 3])
    row.take(PrepareLeave(node=NodeId(3), force=True))
    assert not row.run(row.metadata.epoch)
    assert row.holders == {2}

    row.take(PrepareJoin(node=NodeId(4), tokens=(Token(350),)))
    lost = row.run(row.metadata.epoch)

    assert not lost
    assert row.holders == {2, 4}


def test_a_datacenter_without_nodes_is_not_forgotten():
    """The row is on nodes 1 and 2. Node 1, all of dc2, leaves, and node 4 comes in its place."""
    places = [("dc2", "r1"), ("dc1", "r1"), ("dc1", "r1"), ("dc2", "r1")]
    before = joined_cluster(3, Network({"dc1": 2, "dc2": 1}), places=places, spare=1)
    row = Row(before, 150, [1, 2])
    row.take(PrepareLeave(node=NodeId(1), force=True))
    assert not row.run(row.metadata.epoch)
    assert (row.owners(), row.holders) == ((2, 3), {2})

    row.take(PrepareJoin(node=NodeId(4), tokens=(Token(350),)))
    lost = row.run(row.metadata.epoch)

    assert not lost
    assert row.holders == {2, 4}


def test_two_fewer_owners_may_miss_the_row_at_once():
    """Five owners, and three of them have the row: why the second leave needs accept_loss."""
    row = Row(joined_cluster(nodes=5, replication=Simple(5)), 150, [3, 4, 5])
    row.take(PrepareLeave(node=NodeId(5), force=True))
    assert not row.run(row.metadata.epoch)

    rejected(
        execute(PrepareLeave(node=NodeId(4), force=True), row.metadata), Reason.TOO_FEW_REPLICAS
    )
    row.take(PrepareLeave(node=NodeId(4), force=True, accept_loss="so be it"))
    lost = row.run(row.metadata.epoch)

    assert lost[0] == (Step.MID, (1, 2, 3), [3, 4])


def test_a_copy_from_one_source_would_lose_the_row():
    """The adversary is real: with receipts that name too few, the row would be gone."""
    before = joined_cluster(nodes=4, spare=1)
    row = Row(before, 120, [2, 3])
    row.take(PrepareReplace(node=NodeId(5), replaced=NodeId(3), dead=(NodeId(3),)))
    sequence = row.metadata.epoch

    row.metadata = commit(
        row.metadata, due_step(row.metadata, row.metadata.sequences.in_progress[sequence])
    )
    item = row.metadata.sequences.in_progress[sequence]
    (change,) = [x for plan in item.plans for x in plan.changes if Token(120) in x.range]

    assert change.before == (2, 3, 4)
    assert _minimal(change, NodeId(5), item.dead) == [{2, 4}]
