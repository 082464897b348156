"""Who has to answer: at every step of every sequence, reads meet writes of the versions beside."""

from __future__ import annotations

from itertools import chain, combinations, pairwise, product

import pytest

from metadata.cluster import NOTHING_YET
from metadata.plans import Step
from metadata.quorums import version_at, version_cancelled
from metadata.replicas import Consistency, replicas_of
from metadata.schema import Network, Simple
from metadata.sequences import SequenceKind
from metadata.tokens import Token, token_at
from tests.builders import (
    advanced,
    advanced_to,
    commit,
    in_step,
    joined_cluster,
    keyspace,
    only_sequence,
    preparation,
    spread,
)
from transformations.schema import AlterKeyspace, CreateKeyspace, DropKeyspace

FORWARD = (Step.PREPARE, Step.START, Step.MID, Step.FINISH, Step.RETIRE)
CLUSTERS = {
    "four of three": joined_cluster(4, spare=1),
    "three of three": joined_cluster(3, spare=1),
    "too few": joined_cluster(2, spare=1),
    "five of five": joined_cluster(5, Simple(5), spare=1),
    "two of two": joined_cluster(4, Simple(2), spare=1),
    "two datacenters": joined_cluster(
        6, Network({"dc1": 2, "dc2": 3}), spare=1, places=spread(7, datacenters=2)
    ),
}


def tokens_of(metadata):
    """One inside each range of any version, and the edges."""
    (placement,) = metadata.placements.placed.values()
    places = {place for side in (placement.reads, placement.writes) for place in side.places}
    return [token_at(place) for place in sorted(places)]


def histories(metadata, kind):
    """The versions of the metadata on the way forward, and on each way back."""
    forward = [metadata, commit(metadata, preparation(metadata, kind))]
    for step in FORWARD[1:]:
        forward.append(advanced_to(forward[-1], step, only_sequence(forward[-1]).id))
    yield forward
    for index in (1, 2, 3):
        back = advanced_to(forward[index], Step.CANCEL)
        yield [*forward[: index + 1], back, advanced(back)]


def possible(kind, metadata):
    return kind is not SequenceKind.LEAVE or len(metadata.ring.by_node) > 3


CASES = [
    pytest.param(kind, name, id=f"{kind}, {name}")
    for kind in SequenceKind
    for name, cluster in CLUSTERS.items()
    if possible(kind, cluster) and not (kind is SequenceKind.LEAVE and name == "five of five")
]


def at(metadata, token):
    found = replicas_of(metadata, "shop", token)
    assert found is not None
    return found


def quorums(nodes, is_met):
    """The smallest sets of nodes that are enough."""
    found: list[set] = []
    for size in range(len(nodes) + 1):
        for chosen in map(set, combinations(nodes, size)):
            if is_met(chosen) and not any(less <= chosen for less in found):
                found.append(chosen)
    return found


def read_quorums(replicas):
    return quorums(replicas.readers, lambda nodes: replicas.read_met(Consistency.QUORUM, nodes))


def write_quorums(replicas):
    return quorums(replicas.writers, lambda nodes: replicas.write_met(Consistency.QUORUM, nodes))


def beside(history):
    """Versions that may be in use at the same time: each with itself and with the next one."""
    for ours, theirs in pairwise(history):
        yield from ((ours, ours), (ours, theirs), (theirs, ours), (theirs, theirs))


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_every_read_quorum_meets_every_write_quorum_of_the_same_and_the_next_version(kind, name):
    for history in histories(CLUSTERS[name], kind):
        tokens = sorted(set(chain.from_iterable(map(tokens_of, history))))
        for (reading, writing), token in product(beside(history), tokens):
            reads, writes = read_quorums(at(reading, token)), write_quorums(at(writing, token))
            assert writes
            assert all(read & write for read in reads for write in writes)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_the_groups_are_those_of_the_proof(kind, name):
    cluster = CLUSTERS[name]
    for step in (*FORWARD[:4], Step.CANCEL):
        before = Step.MID if step is Step.CANCEL else None
        metadata = in_step(cluster, kind, before or step)
        if before is not None:
            metadata = advanced_to(metadata, Step.CANCEL)
        for change in only_sequence(metadata).plans[0].changes:
            wanted = version_cancelled(change, before) if before else version_at(change, step)
            found = at(metadata, change.range.right)
            assert set(found.readers) == set(wanted.readers)
            assert {frozenset(group) for group in found.write_groups} == {
                frozenset(group) for group in wanted.write_groups
            }


def test_a_range_tells_since_when_it_is_read_and_written_so():
    prepared = in_step(CLUSTERS["four of three"], SequenceKind.JOIN, Step.PREPARE)
    moved, still = Token(150), Token(250)
    known = at(prepared, moved)
    start = in_step(CLUSTERS["four of three"], SequenceKind.JOIN, Step.START)
    assert at(start, moved).write_epoch == start.epoch
    assert at(start, moved).read_epoch == known.read_epoch
    mid = in_step(CLUSTERS["four of three"], SequenceKind.JOIN, Step.MID)
    assert at(mid, moved).read_epoch == mid.epoch
    assert at(mid, moved).write_epoch == mid.epoch, "writes need other groups since then"
    for metadata in (start, mid):
        assert at(metadata, still) == at(prepared, still)


def test_a_keyspace_that_was_altered_is_placed_anew_since_then():
    """Its new placement may have been there for long, for another keyspace."""
    metadata = commit(
        joined_cluster(4, None),
        *keyspace(Simple(3), "shop", tables=0),
        *keyspace(Simple(2), "other", tables=0),
    )
    older = replicas_of(metadata, "other", Token(150))
    assert older is not None
    altered = commit(metadata, AlterKeyspace(name="shop", replication=Simple(2)))
    found = at(altered, Token(150))
    assert found.readers == older.readers
    assert found.read_epoch == found.write_epoch == altered.epoch
    assert older.read_epoch < altered.epoch


def test_nobody_owns_what_is_not_there():
    assert replicas_of(NOTHING_YET, "shop", Token(1)) is None
    metadata = commit(joined_cluster(0, None), CreateKeyspace(name="shop", replication=Simple(3)))
    assert replicas_of(metadata, "shop", Token(1)) is None
    gone = commit(joined_cluster(1, Simple(1), tables=0), DropKeyspace(name="shop"))
    assert replicas_of(gone, "shop", Token(1)) is None


def test_where_no_node_is_placed_nothing_is_ever_enough():
    metadata = joined_cluster(2, Network({"elsewhere": 3}))
    found = at(metadata, Token(1))
    assert (found.readers, found.write_groups) == ((), ())
    for consistency in Consistency:
        assert not found.read_met(consistency, (1, 2))
        assert not found.write_met(consistency, (1, 2))


@pytest.mark.parametrize(
    ("consistency", "enough"), [(Consistency.ONE, 1), (Consistency.QUORUM, 2), (Consistency.ALL, 3)]
)
def test_how_many_of_three_are_enough(consistency, enough):
    found = at(joined_cluster(4), Token(150))
    strangers = {99}
    for count in range(4):
        nodes = {*found.readers[:count], *strangers}
        assert found.read_met(consistency, nodes) == (count >= enough)
        assert found.write_met(consistency, nodes) == (count >= enough)


def test_while_a_range_moves_a_majority_of_the_writers_is_not_enough():
    start = in_step(CLUSTERS["three of three"], SequenceKind.REPLACE, Step.START)
    found = at(start, Token(150))
    assert (set(found.readers), set(found.writers)) == ({1, 2, 3}, {1, 2, 3, 4})
    assert not found.write_met(Consistency.QUORUM, {1, 2})
    assert not found.write_met(Consistency.QUORUM, {2, 4})
    assert found.write_met(Consistency.QUORUM, {2, 3})
    assert found.write_met(Consistency.QUORUM, {1, 2, 4})
    assert not found.write_met(Consistency.ONE, {1})
    assert found.write_met(Consistency.ONE, {2})
    assert not found.write_met(Consistency.ALL, {1, 2, 3})
