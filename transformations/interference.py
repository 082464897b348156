"""Whether a change of the ring and those already under way leave each other alone.

A plan is computed from the ring as it is, without the tokens that other sequences are about to
bring or take. Locks keep plans from touching the same ranges. That is not enough: a walk that
grows longer because one node leaves may come by another node that leaves too, and two nodes of
one rack may leave together and change how racks are counted. Such plans do not add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import assert_never

from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.locks import Conflict, SequenceId
from metadata.plans import Step
from metadata.ring import Ring
from metadata.schema import Network, PlacementKey, Replication, Simple
from metadata.sequences import Sequence as RingSequence
from metadata.sequences import SequenceKind
from metadata.strategies import zones_of
from metadata.tokens import FULL, Token
from transformations.planning import (
    RingChange,
    ranges_reaching,
    replications_in_use,
    ring_change,
    span_at,
)

OURS = SequenceId(0)
"""Stands for the sequence that is being prepared and has no id yet."""

_PAIR = 2


def ring_after(ring: Ring, sequence: RingSequence) -> Ring:
    """The ring once the sequence has finished."""
    match sequence.kind:
        case SequenceKind.LEAVE:
            return ring.without(sequence.node)
        case SequenceKind.REPLACE:
            assert sequence.replaced is not None, sequence.id
            return ring.without(sequence.replaced).with_tokens(sequence.node, sequence.tokens)
        case SequenceKind.JOIN | SequenceKind.MOVE:
            return ring.with_tokens(sequence.node, sequence.tokens)
        case unreachable:
            assert_never(unreachable)


def pending(metadata: ClusterMetadata) -> list[RingSequence]:
    """Sequences that may still change the ring."""
    return [
        sequence
        for sequence in metadata.sequences.in_progress.values()
        if sequence.last in (Step.PREPARE, Step.START, Step.MID)
    ]


def interference(metadata: ClusterMetadata, change: RingChange) -> Conflict | None:
    """The first sequence in progress whose plan and ours would not add up."""
    others = pending(metadata)
    if not others:
        return None
    changes = {item.id: ring_change(metadata, ring_after(metadata.ring, item)) for item in others}
    changes[OURS] = change
    for key, replication in replications_in_use(metadata).items():
        found = _in_placement(key, replication, changes, metadata)
        if found is not None:
            return found
    return None


def _in_placement(
    key: PlacementKey,
    replication: Replication,
    changes: Mapping[SequenceId, RingChange],
    metadata: ClusterMetadata,
) -> Conflict | None:
    fewest, most = _extremes(metadata.ring, changes)
    least = zones_of(replication, fewest, metadata.locations())
    present = zones_of(replication, metadata.ring, metadata.locations())
    for name, zone in zones_of(replication, most, metadata.locations()).items():
        touching = _tokens_in_zone(name, changes)
        rivals = sorted(touching.keys() - {OURS})
        if OURS not in touching or not rivals:
            continue
        narrow = least.get(name)
        if narrow is None or not _same_rules(replication, name, list(changes.values())):
            return Conflict(rivals[0], key, (FULL,))
        # A node whose every token moves is missing in the narrow zone, yet it is always there.
        narrow.wanted, narrow.repeats = present[name].wanted, present[name].repeats
        known = sorted({*zone.tokens, *chain.from_iterable(touching.values())})
        reach = {
            item: ranges_reaching(tokens, known, [narrow], most.places)
            for item, tokens in touching.items()
        }
        for rival in rivals:
            common = sorted(reach[OURS] & reach[rival])
            if common:
                return Conflict(rival, key, tuple(span_at(most.places, index) for index in common))
    return None


def _same_rules(replication: Replication, name: str, changes: Sequence[RingChange]) -> bool:
    """Counting of nodes and racks must not depend on which of the sequences finish."""
    certain, possible, swapped = _presence(name, changes)
    match replication:
        case Simple(factor=factor):
            fewest_racks, most_racks = len(certain) + swapped, len(possible) - swapped
        case Network(factors=factors):
            factor = factors[name]
            locations = changes[0].locations
            fewest_racks = len({locations[node].rack for node in certain})
            most_racks = len({locations[node].rack for node in possible})
        case unreachable:
            assert_never(unreachable)
    nodes = (len(certain) + swapped, len(possible) - swapped)
    wanted = {min(factor, count) for count in nodes}
    repeats = {max(0, factor - racks) for racks in (fewest_racks, most_racks)}
    return len(wanted) == len(repeats) == 1


def _presence(name: str, changes: Sequence[RingChange]) -> tuple[set[NodeId], set[NodeId], int]:
    """The nodes of a zone that stay whatever happens, those that may be there, and how many
    places are certain to be filled by one of two nodes."""
    locations = changes[0].locations

    def here(nodes: set[NodeId]) -> set[NodeId]:
        return {node for node in nodes if name in ("", locations[node].datacenter)}

    certain = set(changes[0].before.by_node)
    possible = set(certain)
    swapped = 0
    for change in changes:
        going = set(change.before.by_node) - set(change.after.by_node)
        coming = set(change.after.by_node) - set(change.before.by_node)
        certain -= going
        possible |= coming
        swapped += bool(going and coming) and len(here(going | coming)) == _PAIR
    return here(certain), here(possible), swapped


def _extremes(ring: Ring, changes: Mapping[SequenceId, RingChange]) -> tuple[Ring, Ring]:
    """The ring with everything gone that may go, and the one with everything there that may come.

    A token that changes hands within a rack is in both: a walk goes as far with either owner.
    """
    fewest = dict(zip(ring.tokens, ring.owners, strict=True))
    most = dict(fewest)
    for change in changes.values():
        for token in set().union(*change.changed.values()):
            old, new = ring.owner_of(token), change.after.owner_of(token)
            if new is not None:
                most.setdefault(token, new)
            if old is not None and not _alike(change, old, new):
                fewest.pop(token, None)
    return _ring_of(fewest), _ring_of(most)


def _alike(change: RingChange, old: NodeId, new: NodeId | None) -> bool:
    return new is not None and change.locations[old] == change.locations[new]


def _ring_of(owner_of: Mapping[Token, NodeId]) -> Ring:
    ordered = sorted(owner_of.items())
    by_node: dict[NodeId, list[Token]] = {}
    for token, node in ordered:
        by_node.setdefault(node, []).append(token)
    ring = Ring()
    return Ring(
        by_node=ring.by_node.with_items({node: tuple(found) for node, found in by_node.items()}),
        tokens=tuple(token for token, _ in ordered),
        owners=tuple(node for _, node in ordered),
    )


def _tokens_in_zone(
    name: str, changes: Mapping[SequenceId, RingChange]
) -> dict[SequenceId, set[Token]]:
    found = {}
    for item, change in changes.items():
        tokens = change.changed_in(name)
        if tokens:
            found[item] = tokens
    return found
