"""Whether one entry broke a rule that holds of all metadata, by what the entry changed.

Checking everything at every epoch would cost more than the replay. What did not change was right
before and still is; so each rule is looked at where one of the components that it is about is
another, and where that would be dear only at the nodes, tables and ranges in question. Entries
that bring metadata with them are checked whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from audit.rules import CONTRADICTIONS
from audit.transition import FORCED, Transition
from metadata.directory import NodeId
from metadata.invariants import (
    Violation,
    both_have,
    node_violations,
    owner_violations,
    state_violations,
    violations,
)
from metadata.locks import SequenceId
from metadata.plans import Step
from metadata.schema import PlacementKey, TableId
from metadata.sequences import Sequence
from metadata.tokens import Token

NODES_COMPARED_MAX = 256
"""In larger clusters only the nodes that an entry names are looked at, and not all compared."""

RANGES_CHECKED_MAX = 256
"""Where a ring with more ranges changed, only those are looked at that the change was about."""

_WHOLE_METADATA = (FORCED, "Initialize")

_Check = Callable[[Transition], Iterator[Violation]]


def changed_violations(found: Transition) -> frozenset[Violation]:
    """What is wrong with the metadata behind an entry, as far as the entry may have broken it."""
    result: set[Violation] = set()
    for check in _relevant(found.kind, found.changed):
        try:
            result.update(check(found))
        except CONTRADICTIONS as error:
            detail = f"the metadata contradicts itself: {error!r}"
            result.add(Violation("contradiction", detail))
    return frozenset(result)


@lru_cache(maxsize=1024)
def _relevant(kind: str, changed: frozenset[str]) -> tuple[_Check, ...]:
    if kind in _WHOLE_METADATA:
        return (lambda found: violations(found.after),)
    about = {
        _nodes: {"directory", "ring"},
        _schema: {"schema", "placements"},
        _edges: {"ring", "sequences", "placements"},
        _sequences: {"sequences", "directory", "locks"},
        _sessions: {"sessions", "sequences"},
        _owners: {"placements", "sequences", "ring"},
    }
    is_moved = kind == "AlterTopology"
    return tuple(
        check
        for check, components in about.items()
        if components & changed or (is_moved and check is _owners)
    )


def _nodes(found: Transition) -> Iterator[Violation]:
    """Tokens, numbers and addresses of the nodes that are not as they were."""
    after = found.after
    changed = _changed_nodes(found)
    yield from node_violations(after, changed)
    for number in changed:
        node = after.directory.nodes.get(number)
        if node is None:
            continue
        if number >= after.directory.next_node:
            yield from violations(after, ["ids"])
        for address in set(node.addresses.values()):
            # The index has one holder only: whoever had the address before may still have it.
            holder = found.before.directory.by_address.get(address, number)
            other = after.directory.nodes.get(holder)
            if holder != number and other is not None and address in other.addresses.values():
                yield Violation("directory", both_have(holder, number, address))


def _changed_nodes(found: Transition) -> list[NodeId]:
    before, after = found.before.directory.nodes, found.after.directory.nodes
    changed = _named_nodes(found)
    if len(after) <= NODES_COMPARED_MAX:
        changed |= {node for node, item in after.items() if before.get(node) is not item}
        changed |= {node for node in before if node not in after}
        changed |= set(found.after.ring.by_node) ^ set(found.before.ring.by_node)
    return sorted(changed)


def _named_nodes(found: Transition) -> set[NodeId]:
    named: list[Any] = [found.entry.result.node]
    for part in (found.entry.transformation, found.sequence):
        named += [getattr(part, "node", None), getattr(part, "replaced", None)]
    return {NodeId(node) for node in named if isinstance(node, int)}


def _schema(found: Transition) -> Iterator[Violation]:
    """Placements are those of the keyspaces; the table that an entry names is in one of them."""
    before, schema = found.before.schema, found.after.schema
    used = {keyspace.replication.key for keyspace in schema.keyspaces.values()}
    is_orphaned = any(
        name not in schema.keyspaces and schema.has_tables(name) for name in before.keyspaces
    )
    number = found.entry.result.table
    table = None if number is None else schema.tables.get(TableId(number))
    is_lost = table is not None and table.keyspace not in schema.keyspaces
    if is_orphaned or is_lost or used ^ set(found.after.placements.placed):
        yield from violations(found.after, ["schema"])
    if table is not None and table.id >= schema.next_table:
        yield from violations(found.after, ["ids"])


def _edges(found: Transition) -> Iterator[Violation]:
    """Where ranges end: other places, or another ring or plan that they should end by."""
    before, after = found.before.placements, found.after.placements
    is_other = "ring" in found.changed or bool(_begun_or_ended(found)) or found.step is Step.FINISH
    for key, placement in after.placed.items():
        earlier = before.find(key)
        is_other = is_other or earlier is None
        if earlier is not None and earlier is not placement:
            is_other = is_other or (earlier.reads.places, earlier.writes.places) != (
                placement.reads.places,
                placement.writes.places,
            )
    if is_other:
        yield from violations(found.after, ["ring", "boundaries"])


def _sequences(found: Transition) -> Iterator[Violation]:
    """Locks, nodes and plans: of all sequences where one begins or ends, else their nodes."""
    if _begun_or_ended(found) or "locks" in found.changed or _has_other_plans(found):
        yield from violations(found.after, ["locks", "sequences"])
    else:
        yield from state_violations(found.after)


def _begun_or_ended(found: Transition) -> set[SequenceId]:
    return set(found.before.sequences.in_progress) ^ set(found.after.sequences.in_progress)


def _has_other_plans(found: Transition) -> bool:
    before = found.before.sequences.in_progress
    return any(
        number in before and before[number].plans is not sequence.plans
        for number, sequence in found.after.sequences.in_progress.items()
    )


def _sessions(found: Transition) -> Iterator[Violation]:
    return violations(found.after, ["sessions"])


def _owners(found: Transition) -> Iterator[Violation]:
    """Ranges whose owners changed, or that a step of a sequence was about; all by another ring."""
    placed = found.after.placements.placed
    is_other_ring = "ring" in found.changed or found.kind == "AlterTopology"
    ranges = sum(len(placement.reads.places) for placement in placed.values())
    if is_other_ring and ranges <= RANGES_CHECKED_MAX:
        yield from violations(found.after, ["owners"])
        return
    rights: dict[PlacementKey, set[Token]] = defaultdict(set)
    for change in found.changes:
        rights[change.placement].add(change.range.right)
    for sequence in _changed_sequences(found):
        for plan in sequence.plans:
            rights[plan.placement].update(change.range.right for change in plan.changes)
    for key in sorted(rights):
        yield from owner_violations(found.after, key, rights[key])


def _changed_sequences(found: Transition) -> Iterator[Sequence]:
    before, after = found.before.sequences.in_progress, found.after.sequences.in_progress
    for number, sequence in after.items():
        if before.get(number) is not sequence:
            yield sequence
    for number, sequence in before.items():
        if number not in after:
            yield sequence
