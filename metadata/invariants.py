"""What is true of every metadata that a log can lead to, and of every step between two.

Tests ask after each entry, and audits do so for a whole history. Placements are compared with
what the ring gives, computed from scratch: `violations` is no part of deciding.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain, combinations, pairwise
from typing import assert_never

import msgspec

from metadata.cluster import ClusterMetadata
from metadata.directory import Node, NodeId, NodeState
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from metadata.placements import Group, ReplicaGroups
from metadata.plans import RangeChange, Step
from metadata.quorums import disjoint_quorums
from metadata.schema import PlacementKey, Replication
from metadata.sequences import Sequence, SequenceKind
from metadata.sessions import Purpose
from metadata.strategies import Owners, Zones, owners_at, zones_of
from metadata.tokens import END, Range, Token, edges, position, token_at

OWNING = (NodeState.JOINED, NodeState.MOVING, NodeState.LEAVING)


class Violation(msgspec.Struct, frozen=True):
    rule: str
    detail: str


def violations(
    metadata: ClusterMetadata, rules: Iterable[str] | None = None
) -> Iterator[Violation]:
    """Everything that is wrong with the metadata by itself, or by these rules."""
    for rule in _RULES if rules is None else rules:
        yield from (Violation(rule, detail) for detail in _RULES[rule](metadata))


def node_violations(metadata: ClusterMetadata, nodes: Iterable[NodeId]) -> Iterator[Violation]:
    """What is wrong with these nodes: the rule `directory`, but for addresses that two have."""
    for node in nodes:
        found = metadata.directory.nodes.get(node)
        detail = _stranger(metadata, node) if found is None else _misplaced(metadata, found)
        if detail is not None:
            yield Violation("directory", detail)


def owner_violations(
    metadata: ClusterMetadata, key: PlacementKey, rights: Iterable[Token]
) -> Iterator[Violation]:
    """What is wrong with the ranges of a placement that end at these tokens: the rule `owners`."""
    placement = metadata.placements.find(key)
    for replication in _replications(metadata, key):
        if placement is not None:
            expected = _expected(metadata, replication)
            for name, side in (("reads", placement.reads), ("writes", placement.writes)):
                groups = _ending_at(side, rights)
                details = _differences(f"{name} of {key}", groups, expected[name])
                yield from (Violation("owners", detail) for detail in details)


def _epochs(metadata: ClusterMetadata) -> Iterator[str]:
    for name, component in metadata.components():
        if component.epoch > metadata.epoch:
            yield f"{name} was changed at {component.epoch}, after {metadata.epoch}"
    for key, placement in metadata.placements.items():
        for span, group in chain(placement.read_groups(), placement.write_groups()):
            if group.epoch > metadata.placements.epoch:
                yield f"{key} {span} was changed at {group.epoch}, after its component"


def _ids(metadata: ClusterMetadata) -> Iterator[str]:
    directory, schema = metadata.directory, metadata.schema
    if any(node >= directory.next_node for node in directory.nodes):
        yield f"a node has a number that {directory.next_node} was to be given before"
    if any(table >= schema.next_table for table in schema.tables):
        yield f"a table has a number that {schema.next_table} was to be given before"
    for sequence in metadata.sequences.in_progress.values():
        if (
            sequence.taken[0].step is not Step.PREPARE
            or int(sequence.taken[0].epoch) != sequence.id
        ):
            yield f"sequence {sequence.id} was not prepared at {sequence.id}"


def _directory(metadata: ClusterMetadata) -> Iterator[str]:
    addresses: dict[str, NodeId] = {}
    for node in metadata.directory.nodes.values():
        for address in set(node.addresses.values()):
            if addresses.setdefault(address, node.id) != node.id:
                yield both_have(addresses[address], node.id, address)
        detail = _misplaced(metadata, node)
        if detail is not None:
            yield detail
    for stranger in sorted(set(metadata.ring.by_node) - set(metadata.directory.nodes)):
        yield f"node {stranger} has tokens and is not registered"


def both_have(one: NodeId, other: NodeId, address: str) -> str:
    return f"nodes {min(one, other)} and {max(one, other)} both have {address}"


def _misplaced(metadata: ClusterMetadata, node: Node) -> str | None:
    owns = bool(metadata.ring.tokens_of(node.id))
    if owns == (node.state in OWNING):
        return None
    return f"node {node.id} is {node.state} and has {'some' if owns else 'no'} tokens"


def _stranger(metadata: ClusterMetadata, node: NodeId) -> str | None:
    owns = node in metadata.ring.by_node
    return f"node {node} has tokens and is not registered" if owns else None


def _ring(metadata: ClusterMetadata) -> Iterator[str]:
    tokens = metadata.ring.tokens
    for left, right in pairwise(tokens):
        if left >= right:
            yield f"token {right} is owned twice, or out of order"


def _schema(metadata: ClusterMetadata) -> Iterator[str]:
    keyspaces = metadata.schema.keyspaces
    for table in metadata.schema.tables.values():
        if table.keyspace not in keyspaces:
            yield f"table {table.id} is in no keyspace"
    used = {keyspace.replication.key for keyspace in keyspaces.values()}
    for key in sorted(used ^ set(metadata.placements.placed)):
        yield f"{key} is {'not placed' if key in used else 'placed and not used'}"


def _boundaries(metadata: ClusterMetadata) -> Iterator[str]:
    """Ranges end at the tokens of the ring and at those on their way, and nowhere else."""
    places = tuple(edges([*metadata.ring.tokens, *_tokens_in_flight(metadata)]))
    for key, placement in metadata.placements.items():
        for name, side in (("reads", placement.reads), ("writes", placement.writes)):
            if side.places != places:
                yield f"{name} of {key} end at other tokens than the ring gives"


def _tokens_in_flight(metadata: ClusterMetadata) -> Iterator[Token]:
    for sequence in metadata.sequences.in_progress.values():
        if sequence.last is not Step.FINISH:
            yield from (token for plan in sequence.plans for token in plan.splits)


def _owners(metadata: ClusterMetadata) -> Iterator[str]:
    """Reads and writes are what the ring gives, but for what sequences have in hand."""
    replications = {
        keyspace.replication.key: keyspace.replication
        for keyspace in metadata.schema.keyspaces.values()
    }
    for key, placement in metadata.placements.items():
        if key in replications:
            expected = _expected(metadata, replications[key])
            for name, side in (("reads", placement.reads), ("writes", placement.writes)):
                yield from _differences(f"{name} of {key}", side.items(), expected[name])


def _replications(metadata: ClusterMetadata, key: PlacementKey) -> Iterator[Replication]:
    """The one that a placement is made by, if any keyspace has it."""
    for name in metadata.schema.keyspaces_placed_by(key)[:1]:
        yield metadata.schema.keyspaces[name].replication


def _ending_at(side: ReplicaGroups, rights: Iterable[Token]) -> Iterator[tuple[Range, Group]]:
    """The ranges that hold these tokens, whole, each once."""
    places = side.places
    for index in sorted({bisect_left(places, position(right)) for right in rights}):
        if index < len(places):
            left = Token(places[index - 1] if index else -END)
            yield Range(left, token_at(places[index])), side.groups[index]


def _expected(
    metadata: ClusterMetadata, replication: Replication
) -> dict[str, Callable[[Token], Owners]]:
    @cache
    def zones() -> Zones:
        return zones_of(replication, metadata.ring, metadata.locations())

    @cache
    def given(place: int) -> Owners:
        return owners_at(zones(), place)

    moving: dict[int, tuple[RangeChange, Sequence]] = {}
    for sequence in metadata.sequences.in_progress.values():
        for plan in sequence.plans:
            if plan.placement == replication.key:
                changes = () if sequence.last is Step.FINISH else plan.changes
                moving.update({position(item.range.right): (item, sequence) for item in changes})

    def reads(right: Token) -> Owners:
        if position(right) not in moving:
            return given(position(right))
        change, sequence = moving[position(right)]
        return change.after if sequence.last is Step.MID else change.before

    def writes(right: Token) -> Owners:
        if position(right) not in moving:
            return given(position(right))
        change, sequence = moving[position(right)]
        return change.before if sequence.epoch_of(Step.START) is None else change.during

    return {"reads": reads, "writes": writes}


def _differences(
    name: str, groups: Iterable[tuple[Range, Group]], expected: Callable[[Token], Owners]
) -> Iterator[str]:
    for span, group in groups:
        wanted = expected(span.right)
        if group.owners != wanted:
            yield f"{name}: {span} has {list(group.owners)} and should have {list(wanted)}"


def _locks(metadata: ClusterMetadata) -> Iterator[str]:
    sequences, held = metadata.sequences.in_progress, metadata.locks.held
    for odd in sorted(set(sequences) ^ set(held)):
        yield f"sequence {odd} has {'a lock but no steps' if odd in held else 'no lock'}"
    for ours, theirs in combinations(held, 2):
        if held[ours].conflict_with(held[theirs]) is not None:
            yield f"sequences {ours} and {theirs} hold the same ranges"
    for sequence in sequences.values():
        if sequence.id in held:
            yield from _unlocked(metadata, sequence)


def _unlocked(metadata: ClusterMetadata, sequence: Sequence) -> Iterator[str]:
    for plan in sequence.plans:
        spans = metadata.locks.held[sequence.id].of(plan.placement)
        for change in plan.changes:
            if not any(_covers(span, change.range) for span in spans):
                yield f"sequence {sequence.id} changes {change.range} without holding it"


def _covers(span: Range, inner: Range) -> bool:
    return span.left <= inner.left and position(inner.right) <= position(span.right)


def state_violations(metadata: ClusterMetadata) -> Iterator[Violation]:
    """The part of the rule `sequences` that a step may break without another plan."""
    return (Violation("sequences", detail) for detail in _node_states(metadata))


def _node_states(metadata: ClusterMetadata) -> Iterator[str]:
    for sequence in metadata.sequences.in_progress.values():
        state = metadata.directory.nodes[sequence.node].state
        if state not in _states(sequence):
            yield f"node {sequence.node} is {state} at {sequence.last} of a {sequence.kind}"


def _sequences(metadata: ClusterMetadata) -> Iterator[str]:
    yield from _node_states(metadata)
    busy: dict[NodeId, SequenceId] = {}
    for sequence in metadata.sequences.in_progress.values():
        for node in filter(None, (sequence.node, sequence.replaced)):
            if busy.setdefault(node, sequence.id) != sequence.id:
                yield f"node {node} is in sequences {busy[node]} and {sequence.id}"
        for change in chain.from_iterable(plan.changes for plan in sequence.plans):
            if disjoint_quorums(change) is not None:
                yield f"sequence {sequence.id}: quorums of {change.range} may miss each other"


def _states(sequence: Sequence) -> tuple[NodeState, ...]:
    """The states in which a node may be after the last step of its sequence."""
    started = sequence.epoch_of(Step.START) is not None
    finished = sequence.last is Step.FINISH
    match sequence.kind:
        case SequenceKind.JOIN:
            before, during = (NodeState.REGISTERED, NodeState.LEFT), NodeState.BOOTSTRAPPING
            after = NodeState.JOINED
        case SequenceKind.REPLACE:
            before, during = (NodeState.REGISTERED, NodeState.LEFT), NodeState.BOOT_REPLACING
            after = NodeState.JOINED
        case SequenceKind.LEAVE:
            before, during = (NodeState.JOINED, NodeState.JOINED), NodeState.LEAVING
            after = NodeState.LEFT
        case SequenceKind.MOVE:
            before, during = (NodeState.MOVING, NodeState.MOVING), NodeState.MOVING
            after = NodeState.JOINED
        case unreachable:
            assert_never(unreachable)
    return (after,) if finished else (during,) if started else before


def _sessions(metadata: ClusterMetadata) -> Iterator[str]:
    for session in metadata.sessions.open.values():
        if session.purpose is Purpose.MOVEMENT:
            owner = session.sequence and metadata.sequences.find(session.sequence)
            if not owner or owner.session != session.id or owner.last is not Step.START:
                yield f"session {session.id} is open and its sequence is not moving data"
    for sequence in metadata.sequences.in_progress.values():
        moving = sequence.last is Step.START and sequence.session is not None
        if moving and sequence.session not in metadata.sessions.open:
            yield f"sequence {sequence.id} moves data without an open session"


_RULES: Mapping[str, Callable[[ClusterMetadata], Iterator[str]]] = {
    "epochs": _epochs,
    "ids": _ids,
    "directory": _directory,
    "ring": _ring,
    "schema": _schema,
    "boundaries": _boundaries,
    "owners": _owners,
    "locks": _locks,
    "sequences": _sequences,
    "sessions": _sessions,
}


def broken_between(before: ClusterMetadata, after: ClusterMetadata) -> Iterator[Violation]:
    """Everything that is wrong with the step from one metadata to the next."""
    if after.epoch != before.epoch + 1:
        yield Violation("dense", f"epoch {before.epoch} is followed by {after.epoch}")
    for name, component in after.components():
        earlier = getattr(before, name)
        if (component.digest != earlier.digest) != (component.epoch == after.epoch):
            yield Violation("modified", f"{name} says it changed at {component.epoch}")
    if after.directory.next_node < before.directory.next_node:
        yield Violation("ids", "numbers of nodes would be given again")
    if after.schema.next_table < before.schema.next_table:
        yield Violation("ids", "numbers of tables would be given again")
    for key, placement in after.placements.items():
        earlier_placement = before.placements.find(key)
        if earlier_placement is not None:
            yield from _bumps(key, "reads", earlier_placement.reads, placement.reads, after.epoch)
            yield from _bumps(
                key, "writes", earlier_placement.writes, placement.writes, after.epoch
            )


def _bumps(
    key: PlacementKey, name: str, before: ReplicaGroups, after: ReplicaGroups, epoch: Epoch
) -> Iterator[Violation]:
    """A group has the new epoch if and only if the owners of its tokens changed."""
    for span, group in after.items():
        earlier = [item for _, item in before.overlapping(span)]
        changed = any(item.owners != group.owners for item in earlier) or not earlier
        if changed != (group.epoch == epoch):
            yield Violation("bumped", f"{name} of {key}: {span} is stamped {group.epoch}")
