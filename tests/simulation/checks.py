"""What must hold of any placements, and what speaks against an operation.

The checks take plain data, so that they can be put to the model and to the real metadata alike.
None of them selects replicas: a fault common to the model and the real code would still be seen.
Each returns sentences about what does not hold; an empty list is a pass.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from tests.simulation.model import (
    MINIMUM,
    Group,
    Model,
    Op,
    Place,
    QuorumGroups,
    Range,
    Replication,
    Ring,
    Sequence,
    carry_epochs,
    owner_lookup,
    ranges,
)

END = 2**63


class Flight(NamedTuple):
    """A sequence before its FINISH, as the places of the ring that it brings and takes."""

    gained: Ring
    lost: Ring
    # Whether it may leave a range with fewer owners than it has now.
    may_thin: bool
    # Whether it may have added writers: from START on, for a first node from PREPARE on.
    started: bool
    # Sorted.
    locks: dict[Replication, list[Range]]


def flights(model: Model) -> list[Flight]:
    return [_flight(model, sequence) for sequence in model.flying()]


def _flight(model: Model, sequence: Sequence) -> Flight:
    before, after = set(joined_ring(model)), set(model.ring_after(sequence))
    return Flight(
        gained=tuple(sorted(place for place in after - before if place.node == sequence.node)),
        lost=tuple(sorted(before - after)),
        may_thin=sequence.forced or sequence.kind != "leave",
        started=sequence.started or sequence.founding,
        locks=sequence.locks,
    )


def joined_ring(model: Model) -> Ring:
    """The ring without a first node that has not finished joining; the checks count in it."""
    return tuple(place for place in model.ring() if place.token in model.nodes[place.node].tokens)


def cover_faults(groups: list[Group], cuts: Iterable[int]) -> list[str]:
    """The ranges cover the ring once, and end exactly at the tokens that cut it."""
    found, wanted = [(left, right) for left, right, *_ in groups], ranges(cuts)
    if found == wanted:
        return []
    missing, odd = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    return [f"the ring is not covered once and in order: missing {missing}, odd {odd}"]


def read_faults(
    reads: list[Group], replication: Replication, ring: Ring, flying: list[Flight]
) -> list[str]:
    """Where nothing moves, a range has its factor of readers, or all nodes if they are fewer.

    Where something does, it has as many as before it or as after it.
    """
    homes = _homes(ring, flying)
    sizes = {scope: _sizes(ring, flying, scope) for scope, _ in _scopes(replication)}
    faults = []
    for left, right, readers, _ in reads:
        over = _over(flying, replication, (left, right))
        elsewhere = set(readers)
        for scope, factor in _scopes(replication):
            here = {node for node in readers if _in(scope, homes.get(node))}
            low, high = _bounds(sizes[scope], [(i, flying[i].may_thin) for i in over], factor)
            if not low <= len(here) <= high:
                wanted = f"{low} to {high} in {scope or 'the cluster'}"
                faults.append(f"({left}, {right}] has readers {sorted(here)}, not {wanted}")
            elsewhere -= here
        if elsewhere:
            faults.append(f"({left}, {right}] has readers from elsewhere: {sorted(elsewhere)}")
    return faults


def write_faults(
    reads: list[Group], writes: list[Group], replication: Replication, flying: list[Flight]
) -> list[str]:
    """Writers are the readers, and what a sequence adds."""
    added_max = [_added_max(f, replication) if f.started else 0 for f in flying]
    faults = []
    for (left, right, readers, _), (*_, writers, _) in zip(reads, writes, strict=True):
        over = _over(flying, replication, (left, right))
        if not readers <= writers:
            faults.append(f"({left}, {right}] has readers that do not write: {readers - writers}")
        if len(writers - readers) > sum(added_max[i] for i in over):
            faults.append(f"({left}, {right}] has too many writers: {writers} for {readers}")
    return faults


def surplus_faults(
    writes: list[Group], replication: Replication, ring: Ring, flying: list[Flight]
) -> list[str]:
    """Only ranges within reach of a moving token have more writers than the replication asks for.

    A node reaches back from its token over ranges until enough other nodes lie between.
    """
    homes = _homes(ring, flying)
    all_ranges = [(left, right) for left, right, *_ in writes]
    reaches = [_reach(all_ranges, ring, f, replication) for f in flying if f.started]
    reached = set().union(*reaches)
    surplus = set()
    for scope, factor in _scopes(replication):
        wanted = min(factor, _sizes(ring, [], scope)[0])
        for left, right, writers, _ in writes:
            if sum(_in(scope, homes.get(node)) for node in writers) > wanted:
                surplus.add((left, right))
    if surplus <= reached:
        return []
    odd = sorted(surplus - reached)
    return [f"{len(surplus)} ranges have too many writers, {len(reached)} may; not {odd}"]


def epoch_faults(earlier: list[Group], later: list[Group], epoch: int) -> list[str]:
    """A range has the new epoch if and only if the owners of some of its tokens changed."""
    wanted = carry_epochs(earlier, [group[:3] for group in later], epoch)
    return [
        f"({group[0]}, {group[1]}] has epoch {group[3]}, not {right[3]}"
        for group, right in zip(later, wanted, strict=True)
        if group != right
    ]


def quorum_faults(earlier: list[QuorumGroups], later: list[QuorumGroups]) -> list[str]:
    """Every majority of readers meets every write quorum of its version and of the one beside it.

    Not for a change of owners in one epoch, which promises nothing of the kind.
    """
    pairs = [(group, group) for group in later]
    for before, after in _overlaps(earlier, later):
        pairs += [(before, after), (after, before)]
    return [
        f"readers {sorted(missed)} of ({reading[0]}, {reading[1]}] miss a write to {writing[3]}"
        for reading, writing in pairs
        if (missed := _missed(reading[2], tuple(writing[3])))
    ]


@lru_cache(maxsize=4096)
def _missed(readers: frozenset[int], groups: tuple[frozenset[int], ...]) -> tuple[int, ...]:
    """A majority of the readers outside of which every group still has a majority, if any."""
    if not groups:
        return ()  # Nobody to write to: no write succeeds.
    for majority in combinations(sorted(readers), len(readers) // 2 + 1):
        if all(len(group.difference(majority)) > len(group) // 2 for group in groups):
            return majority
    return ()


def _added_max(flight: Flight, replication: Replication) -> int:
    """One node comes or goes, and one other makes room or steps in.

    A replacement from elsewhere does both: the search takes it where it would not take the node
    that it replaces, and the other way round.
    """
    locations = {place[2:] for place in flight.gained + flight.lost}
    scopes = [scope for scope, _ in _scopes(replication)]
    return sum(any(_in(scope, location[0]) for scope in scopes) for location in locations)


def _scopes(replication: Replication) -> list[tuple[str, int]]:
    """Where factors are counted: by datacenter, or in the cluster, which has no name."""
    kind, parameter = replication
    return [("", parameter)] if kind == "simple" else list(parameter)


def _in(scope: str, datacenter: str | None) -> bool:
    return datacenter is not None and scope in {"", datacenter}


def _homes(ring: Ring, flying: list[Flight]) -> dict[int, str]:
    coming = [place for flight in flying for place in flight.gained]
    return {place.node: place.datacenter for place in [*coming, *ring]}


def _sizes(ring: Ring, flying: list[Flight], scope: str) -> list[int]:
    """Nodes in the ring now, and after each flight."""
    rings = [ring, *(_after(ring, flight) for flight in flying)]
    return [len({place.node for place in r if _in(scope, place.datacenter)}) for r in rings]


def _bounds(sizes: list[int], over: list[tuple[int, bool]], factor: int) -> tuple[int, int]:
    now, *later = sizes
    fewer = sum(min(0, later[index] - now) for index, may_thin in over if may_thin)
    more = sum(max(0, later[index] - now) for index, _ in over)
    return min(factor, now + fewer), min(factor, now + more)


def _after(ring: Ring, flight: Flight) -> Ring:
    lost = set(flight.lost)
    return tuple(place for place in ring if place not in lost) + flight.gained


def _over(flying: list[Flight], replication: Replication, span: Range) -> list[int]:
    """Which flights have locked some of the range."""
    return [
        index
        for index, flight in enumerate(flying)
        if _any_overlap(flight.locks.get(replication, []), span)
    ]


def _any_overlap(locks: list[Range], span: Range) -> bool:
    index = bisect_right(locks, span[0], key=lambda lock: lock[0])
    near = locks[max(0, index - 1) : index + 1]
    return any(lock[0] < _end(span) and span[0] < _end(lock) for lock in near)


def _overlaps(
    earlier: list[QuorumGroups], later: list[QuorumGroups]
) -> Iterator[tuple[QuorumGroups, QuorumGroups]]:
    first = 0
    for group in later:
        while first < len(earlier) and _end(earlier[first]) <= group[0]:
            first += 1
        index = first
        while index < len(earlier) and earlier[index][0] < _end(group):
            yield earlier[index], group
            index += 1


def _end(span: tuple) -> int:
    return END if span[1] == MINIMUM else span[1]


def _reach(
    all_ranges: list[Range], ring: Ring, flight: Flight, replication: Replication
) -> set[Range]:
    reached: set[Range] = set()
    for side, moving in ((ring, flight.lost), (_after(ring, flight), flight.gained)):
        for scope, factor in _scopes(replication):
            local = {place.token: place for place in side if _in(scope, place.datacenter)}
            # Without datacenters racks mean nothing: each node is then a rack of its own.
            held = {
                t: (place.node, place.rack if scope else place.node) for t, place in local.items()
            }
            for token in {place.token for place in moving} & local.keys():
                reached |= _reach_back(all_ranges, held, token, factor)
    return reached


def _reach_back(
    all_ranges: list[Range], held: dict[int, tuple], token: int, factor: int
) -> set[Range]:
    repeats = max(0, factor - len({rack for _, rack in held.values()}))
    inside = (i for i, span in enumerate(all_ranges) if span[0] < token <= _end(span))
    index = next(inside, -1)  # The minimum ends the last range.
    between, reached = set(), set()
    for step in range(len(all_ranges)):
        left, right = all_ranges[index - step]
        if step and right in held:
            between.add(held[right])
        nodes, racks = len(between), len({rack for _, rack in between})
        if racks + min(repeats, nodes - racks) >= factor:
            break
        reached.add((left, right))
    return reached


def explain(model: Model, op: Op) -> str | None:
    """Why the operation must be refused, or None if nothing that the model knows is against it."""
    return _OBJECTIONS[op.kind](model, op)


def excuse(model: Model, op: Op) -> str | None:
    """Why the operation may be refused: what speaks against it and need not count."""
    if reason := explain(model, op):
        return reason
    if op.kind in _LOCKING:
        return _odd(model, op) or _locked(model, op, wide=True)
    if op.kind == "unregister":
        return _taking_part(model, op)
    placing = op.kind == "alter_topology" or (
        op.kind.endswith("_keyspace") and _changes_settings(model, op)
    )
    return "a sequence is not retired" if model.sequences and placing else None


def _odd(model: Model, op: Op) -> str | None:
    node = model.nodes[op.node]
    if any(sequence.founding for sequence in model.sequences.values()):
        return "the first node has not finished joining"
    if node.state == "LEFT":
        return f"node {op.node} has left"
    if op.kind == "prepare_move" and node.tokens == set(op.tokens):
        return f"node {op.node} has these tokens"
    if op.replaced is not None:
        replaced = model.nodes[op.replaced]
        if (node.datacenter, node.rack) != (replaced.datacenter, replaced.rack):
            return f"node {op.node} is not where node {op.replaced} is"
    if op.kind == "prepare_leave" and (reason := _too_few(model, op, model.flying())):
        return reason
    return _taking_part(model, op)


def _taking_part(model: Model, op: Op) -> str | None:
    for sequence in model.sequences.values():
        if {op.node, op.replaced} & {sequence.node, sequence.replaced} - {None}:
            return "a node takes part in a sequence"
    return None


def _to_register(model: Model, op: Op) -> str | None:
    return f"node {op.node} is registered" if op.node in model.nodes else None


def _to_unregister(model: Model, op: Op) -> str | None:
    return _unfit(model, op.node, {"REGISTERED", "LEFT"})


def _to_join(model: Model, op: Op) -> str | None:
    unfit = _unfit(model, op.node, {"REGISTERED", "LEFT"})
    return unfit or _taken(model, op) or _locked(model, op)


def _to_move(model: Model, op: Op) -> str | None:
    return _unfit(model, op.node, {"JOINED"}) or _taken(model, op) or _locked(model, op)


def _to_leave(model: Model, op: Op) -> str | None:
    unfit = _unfit(model, op.node, {"JOINED"})
    going = [sequence for sequence in model.flying() if not sequence.cancelled]
    return unfit or _too_few(model, op, going) or _locked(model, op)


def _to_assassinate(model: Model, op: Op) -> str | None:
    return _unfit(model, op.node, {"JOINED"}) or _locked(model, op)


def _to_replace(model: Model, op: Op) -> str | None:
    unfit = _unfit(model, op.replaced, {"JOINED"}) or _unfit(model, op.node, {"REGISTERED"})
    return unfit or _locked(model, op)


def _to_step(model: Model, op: Op) -> str | None:
    sequence = model.sequences.get(op.sequence)
    if sequence is None:
        return f"there is no sequence {op.sequence}"
    if op.kind == "cancel":
        return "it is finished or cancelled" if sequence.next == "retire" else None
    return None if sequence.next == op.kind else f"the step due is {sequence.next}"


def _to_change_keyspace(model: Model, op: Op) -> str | None:
    if (op.keyspace in model.keyspaces) == (op.kind == "create_keyspace"):
        return f"there is{' ' if op.kind == 'create_keyspace' else ' no '}keyspace {op.keyspace}"
    changes = _changes_settings(model, op)
    return "placements would change under a sequence" if changes and model.flying() else None


def _changes_settings(model: Model, op: Op) -> bool:
    used = [setting for name, setting in model.keyspaces.items() if name != op.keyspace]
    old = model.keyspaces.get(op.keyspace)
    return {
        "create_keyspace": op.replication not in used,
        "alter_keyspace": op.replication != old,
        "drop_keyspace": old not in used,
    }[op.kind]


def _to_alter_topology(model: Model, op: Op) -> str | None:
    if unknown := [node for node, *_ in op.locations if node not in model.nodes]:
        return f"nodes {unknown} are unknown"
    if model.flying():
        return "a sequence is in flight"
    homes = {node: (datacenter, rack) for node, datacenter, rack in op.locations}
    ring = model.ring()
    moved = tuple(Place(p.token, p.node, *homes.get(p.node, p[2:])) for p in ring)
    for setting in model.settings():
        before, after = owner_lookup(ring, setting), owner_lookup(moved, setting)
        if any(before(place.token) != after(place.token) for place in ring):
            return f"owners would change in {setting}"
    return None


def _unfit(model: Model, node: int | None, states: set[str]) -> str | None:
    if node not in model.nodes:
        return f"node {node} is unknown"
    if model.nodes[node].state not in states:
        return f"node {node} is {model.nodes[node].state}"
    taking_part = [s for s in model.flying() if node in {s.node, s.replaced}]
    return f"node {node} takes part in a sequence" if taking_part else None


def _taken(model: Model, op: Op) -> str | None:
    if not op.tokens or len(set(op.tokens)) < len(op.tokens):
        return "tokens are missing or repeated"
    others = {p.token for p in model.ring() if p.node != op.node}
    taken = others.union(*(sequence.tokens for sequence in model.flying())) & set(op.tokens)
    return f"tokens {sorted(taken)} are taken" if taken else None


def _too_few(model: Model, op: Op, going: list[Sequence]) -> str | None:
    """Count JOINED nodes that stay, and the leaving one; that many must exceed the factor."""
    if op.force:
        return None
    leaving = {sequence.node for sequence in going if sequence.kind == "leave"}
    staying = [
        node.datacenter
        for name, node in model.nodes.items()
        if node.state == "JOINED" and name not in leaving
    ]
    for setting in model.settings():
        for scope, factor in _scopes(setting):
            counts = _in(scope, model.nodes[op.node].datacenter)
            if counts and sum(_in(scope, home) for home in staying) <= factor:
                return f"too few nodes for {setting}"
    return None


def _locked(model: Model, op: Op, *, wide: bool = False) -> str | None:
    wanted = model.planned(op._replace(kind=_LOCKING[op.kind]))
    for name, held in model.sequences.items():
        for setting in wanted.locks:
            pair = [s.wide_locks if wide else s.locks for s in (wanted, held)]
            if _collide(*(locks.get(setting, []) for locks in pair)):
                return f"sequence {name} has locked some of the ranges"
    return None


def _collide(wanted: list[Range], held: list[Range]) -> bool:
    """Whether they overlap, or both touch the minimum token, on whichever side."""
    touching = all(any(MINIMUM in span for span in spans) for spans in (wanted, held))
    return touching or any(_any_overlap(held, span) for span in wanted)


# What locks ranges, and the Prepare that would lock the same.
_LOCKING = {
    "prepare_join": "prepare_join",
    "prepare_leave": "prepare_leave",
    "prepare_move": "prepare_move",
    "prepare_replace": "prepare_replace",
    "unsafe_join": "prepare_join",
    "assassinate": "prepare_leave",
}

_OBJECTIONS = {
    "register": _to_register,
    "unregister": _to_unregister,
    "create_keyspace": _to_change_keyspace,
    "alter_keyspace": _to_change_keyspace,
    "drop_keyspace": _to_change_keyspace,
    "alter_topology": _to_alter_topology,
    "unsafe_join": _to_join,
    "prepare_join": _to_join,
    "prepare_leave": _to_leave,
    "prepare_move": _to_move,
    "prepare_replace": _to_replace,
    "assassinate": _to_assassinate,
    "start": _to_step,
    "mid": _to_step,
    "finish": _to_step,
    "cancel": _to_step,
    "retire": _to_step,
}
