"""Any history that ends in the same tokens has the same placements."""

from __future__ import annotations

import random

import pytest

from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.schema import Network, Replication, Simple
from metadata.tokens import MAXIMUM, MINIMUM, Token
from tests.builders import commit, due_step, founded, registration
from transformations.join import PrepareJoin, UnsafeJoin
from transformations.leave import PrepareLeave
from transformations.move import PrepareMove
from transformations.schema import CreateKeyspace

NODES = 6
SETTINGS: tuple[Replication, ...] = (Simple(3), Network({"dc1": 3}), Network({"dc1": 2}))


def driven(metadata: ClusterMetadata, transformation) -> ClusterMetadata:
    """Prepared, and every step taken to the end."""
    metadata = commit(metadata, transformation)
    while sequences := metadata.sequences.in_progress.values():
        metadata = commit(metadata, due_step(metadata, sequences[0]))
    return metadata


def registered(places: list[tuple[str, str]]) -> ClusterMetadata:
    metadata = founded()
    for number, place in enumerate(places, start=1):
        metadata = commit(metadata, registration(number, place))
    for number, setting in enumerate(SETTINGS):
        metadata = commit(metadata, CreateKeyspace(name=f"k{number}", replication=setting))
    return metadata


def owners(metadata: ClusterMetadata) -> dict:
    return {
        key: [(span, group.owners) for span, group in placement.read_groups()]
        for key, placement in metadata.placements.items()
    }


@pytest.mark.parametrize("seed", range(25))
def test_the_way_to_the_tokens_does_not_matter(seed):
    """Joined at once in one order; or joined by steps in another, elsewhere first, then moved."""
    rng = random.Random(seed)
    print(f"seed {seed}")
    places = [("dc1", f"r{rng.randint(1, 3)}") for _ in range(NODES + 1)]
    tokens = {
        NodeId(node): tuple(
            Token(rng.randint(MINIMUM, MAXIMUM)) for _ in range(rng.choice([1, 2, 4]))
        )
        for node in range(1, NODES + 1)
    }
    straight = winding = registered(places)
    for node, own in tokens.items():
        straight = commit(straight, UnsafeJoin(node=node, tokens=own))

    for node in rng.sample(sorted(tokens), NODES):
        elsewhere = (Token(rng.randint(MINIMUM, MAXIMUM)),)
        first = tokens[node] if rng.random() < 0.5 else elsewhere
        winding = driven(winding, PrepareJoin(node=node, tokens=first))
    guest = NodeId(NODES + 1)
    winding = driven(winding, PrepareJoin(node=guest, tokens=(Token(rng.randint(0, MAXIMUM)),)))
    for node in rng.sample(sorted(tokens), NODES):
        winding = driven(winding, PrepareMove(node=node, tokens=tokens[node]))
    winding = driven(winding, PrepareLeave(node=guest))

    assert winding.ring.tokens == straight.ring.tokens
    assert owners(winding) == owners(straight)
