"""A naive model of the token ring, to compare the real metadata with.

It shares no code with what it checks. It keeps the few facts that entries state (nodes, keyspaces,
sequences) and derives every answer from whole rings: the ring as it is, and for each sequence in
flight the ring as it would be if that one had finished and no other. A range that no sequence
changes belongs to its owners in the first; one that a sequence changes passes to its owners in the
second, for writes at START, for reads at MID. Nothing is carried over from PREPARE, so a plan that
another sequence makes wrong while it waits shows as a difference, and `drift` names it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

MINIMUM = -(2**63)

# ("simple", factor) or ("network", ((datacenter, factor), …)).
Replication = tuple
Range = tuple[int, int]
Owned = tuple[int, int, frozenset[int]]
Group = tuple[int, int, frozenset[int], int]
Change = tuple[int, int, frozenset[int], frozenset[int]]
# The owners found, and the tokens looked at to find them.
Search = tuple[frozenset[int], frozenset[int]]
# Readers, and groups of which a quorum write needs a majority each.
QuorumGroups = tuple[int, int, frozenset[int], list[frozenset[int]]]


class Place(NamedTuple):
    """One token of the ring and who holds it."""

    token: int
    node: int
    datacenter: str
    rack: str


Ring = tuple[Place, ...]


class Op(NamedTuple):
    """One entry, by name; only the fields that its kind has are given."""

    kind: str
    node: int = 0
    replaced: int | None = None
    tokens: tuple[int, ...] = ()
    datacenter: str = ""
    rack: str = ""
    keyspace: str = ""
    replication: Replication = ()
    force: bool = False
    sequence: int = 0
    locations: tuple[tuple[int, str, str], ...] = ()


@dataclass
class Node:
    state: str
    datacenter: str
    rack: str
    tokens: frozenset[int] = frozenset()


@dataclass
class Sequence:
    """A sequence from its PREPARE to its RETIRE.

    A founding one is a join that found an empty ring: its node owns everything from PREPARE on.
    """

    kind: str
    node: int
    tokens: frozenset[int]
    replaced: int | None = None
    forced: bool = False
    founding: bool = False
    next: str = "start"
    started: bool = False
    cancelled: bool = False
    # As they were at PREPARE: locks outlive FINISH.
    changes: dict[Replication, list[Change]] = field(default_factory=dict)
    locks: dict[Replication, list[Range]] = field(default_factory=dict)
    wide_locks: dict[Replication, list[Range]] = field(default_factory=dict)

    @property
    def in_flight(self) -> bool:
        return self.cancelled or self.next != "retire"

    @property
    def adds_writers(self) -> bool:
        return self.started and self.in_flight

    @property
    def moves_reads(self) -> bool:
        return self.next == "finish"


class Model:
    """The cluster after the entries applied so far; it trusts that they were rightly accepted."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.keyspaces: dict[str, Replication] = {}
        self.sequences: dict[int, Sequence] = {}
        self.reads: dict[Replication, list[Group]] = {}
        self.writes: dict[Replication, list[Group]] = {}

    def apply(self, op: Op, epoch: int) -> None:
        """Apply an accepted entry; a Prepare's epoch names its sequence."""
        if op.kind.startswith("prepare_"):
            self.sequences[epoch] = self.planned(op)
            if op.kind == "prepare_move":
                self.nodes[op.node].state = "MOVING"
        elif op.kind in {"start", "mid", "finish", "cancel", "retire"}:
            self._step(op)
        else:
            self._change_at_once(op)
        self._settle(epoch)

    def ring(self) -> Ring:
        """Tokens of nodes that finished joining, and of a founding node."""
        held = {node: self.nodes[node].tokens for node in self.nodes}
        for sequence in self.sequences.values():
            if sequence.founding and sequence.in_flight:
                held[sequence.node] = sequence.tokens
        return tuple(sorted(place for node in held for place in self._places(node, held[node])))

    def ring_after(self, sequence: Sequence) -> Ring:
        """The ring as it would be if this sequence had finished and no other."""
        leaving = {sequence.replaced, sequence.node}
        staying = [place for place in self.ring() if place.node not in leaving]
        return tuple(sorted([*staying, *self._places(sequence.node, sequence.tokens)]))

    def cuts(self) -> set[int]:
        """Where ranges end: at tokens in the ring and at tokens on their way into it."""
        coming = [sequence.tokens for sequence in self.flying()]
        return {place.token for place in self.ring()}.union(*coming)

    def flying(self) -> list[Sequence]:
        return [sequence for sequence in self.sequences.values() if sequence.in_flight]

    def settings(self) -> list[Replication]:
        return sorted(set(self.keyspaces.values()))

    def changes(self, sequence: Sequence) -> dict[Replication, list[Change]]:
        """Ranges whose owners this sequence changes, with their owners before and after."""
        return self._changes(self.ring(), self.ring_after(sequence))

    def quorum_groups(self, replication: Replication) -> list[QuorumGroups]:
        """Readers of each range, and the groups that a quorum write needs a majority of, each."""
        reads, writes = self._owned(replication)
        flights = [self.changes(sequence)[replication] for sequence in self.flying()]
        changed = {(left, right): [x, y] for flight in flights for left, right, x, y in flight}
        found = []
        for (left, right, readers), (_, _, writers) in zip(reads, writes, strict=True):
            groups = [writers] if writers == readers else changed[left, right]
            found.append((left, right, readers, [group for group in groups if group]))
        return found

    def drift(self) -> list[str]:
        """Plans that are no longer what they were at PREPARE, because the ring changed since."""
        found = []
        for name, sequence in self.sequences.items():
            if not sequence.in_flight or sequence.founding:
                continue
            for setting, now in self.changes(sequence).items():
                then = sequence.changes.get(setting, [])
                pieces = ranges({edge for change in then + now for edge in change[:2]})
                if [_within(then, p) for p in pieces] != [_within(now, p) for p in pieces]:
                    found.append(f"sequence {name} in {setting}: {then} became {now}")
        return found

    def planned(self, op: Op) -> Sequence:
        """What a Prepare would begin; nothing changes yet."""
        kind = op.kind.removeprefix("prepare_")
        tokens = frozenset(op.tokens)
        if op.replaced is not None:
            tokens = self.nodes[op.replaced].tokens
        ring = self.ring()
        sequence = Sequence(kind, op.node, tokens, op.replaced, forced=op.force)
        sequence.founding = kind == "join" and not any(node.tokens for node in self.nodes.values())
        sequence.locks = self._locks(ring, self.ring_after(sequence))
        sequence.wide_locks = self._wide_locks(ring, self.ring_after(sequence))
        if not sequence.founding:
            sequence.changes = self.changes(sequence)
        return sequence

    def _step(self, op: Op) -> None:
        sequence = self.sequences[op.sequence]
        if op.kind == "retire":
            del self.sequences[op.sequence]
            if sequence.cancelled:
                enters = sequence.kind in {"join", "replace"}
                self.nodes[sequence.node].state = "REGISTERED" if enters else "JOINED"
        elif op.kind == "cancel":
            sequence.cancelled, sequence.next = True, "retire"
        else:
            assert sequence.next == op.kind
            sequence.next = {"start": "mid", "mid": "finish", "finish": "retire"}[op.kind]
            if op.kind == "start":
                self._started(sequence)
            elif op.kind == "finish":
                self._finished(sequence)

    def _started(self, sequence: Sequence) -> None:
        sequence.started = True
        states = {"join": "BOOTSTRAPPING", "replace": "BOOT_REPLACING", "leave": "LEAVING"}
        node = self.nodes[sequence.node]
        node.state = states.get(sequence.kind, node.state)

    def _finished(self, sequence: Sequence) -> None:
        if sequence.kind == "leave":
            self._exit(sequence.node)
        else:
            self._enter(sequence.node, sequence.tokens)
        if sequence.replaced is not None:
            self._exit(sequence.replaced)

    def _change_at_once(self, op: Op) -> None:
        match op.kind:
            case "register":
                self.nodes[op.node] = Node("REGISTERED", op.datacenter, op.rack)
            case "unregister":
                del self.nodes[op.node]
            case "alter_topology":
                for node, datacenter, rack in op.locations:
                    self.nodes[node].datacenter, self.nodes[node].rack = datacenter, rack
            case "create_keyspace" | "alter_keyspace":
                self.keyspaces[op.keyspace] = op.replication
            case "drop_keyspace":
                del self.keyspaces[op.keyspace]
            case "unsafe_join":
                self._enter(op.node, frozenset(op.tokens))
            case "assassinate":
                self._exit(op.node)
            case _:
                raise ValueError(op.kind)

    def _enter(self, node: int, tokens: frozenset[int]) -> None:
        self.nodes[node].state, self.nodes[node].tokens = "JOINED", tokens

    def _exit(self, node: int) -> None:
        self.nodes[node].state, self.nodes[node].tokens = "LEFT", frozenset()

    def _places(self, node: int, tokens: Iterable[int]) -> list[Place]:
        return [
            Place(token, node, self.nodes[node].datacenter, self.nodes[node].rack)
            for token in tokens
        ]

    def _settle(self, epoch: int) -> None:
        owned = {replication: self._owned(replication) for replication in self.settings()}
        self.reads = {
            replication: carry_epochs(self.reads.get(replication, []), reads, epoch)
            for replication, (reads, _) in owned.items()
        }
        self.writes = {
            replication: carry_epochs(self.writes.get(replication, []), writes, epoch)
            for replication, (_, writes) in owned.items()
        }

    def _owned(self, replication: Replication) -> tuple[list[Owned], list[Owned]]:
        before = owner_lookup(self.ring(), replication)
        flights = [
            (sequence, owner_lookup(self.ring_after(sequence), replication))
            for sequence in self.flying()
        ]
        reads: list[Owned] = []
        writes: list[Owned] = []
        for left, right in ranges(self.cuts()):
            readers = writers = owners = before(right)
            for sequence, after in flights:
                if sequence.adds_writers:
                    writers |= after(right)
                if sequence.moves_reads and after(right) != owners:
                    readers = after(right)
            reads.append((left, right, readers))
            writes.append((left, right, writers))
        return reads, writes

    def _changes(self, ring: Ring, ring_after: Ring) -> dict[Replication, list[Change]]:
        pieces = ranges(self.cuts() | {place.token for place in ring_after})
        found: dict[Replication, list[Change]] = {}
        for replication in self.settings():
            before, after = owner_lookup(ring, replication), owner_lookup(ring_after, replication)
            all_owners = [(left, right, before(right), after(right)) for left, right in pieces]
            found[replication] = [change for change in all_owners if change[2] != change[3]]
        return found

    def _locks(self, ring: Ring, ring_after: Ring) -> dict[Replication, list[Range]]:
        """Ranges that change owners, or that are split or merged under owners."""
        old, new = ({place.token for place in places} for places in (ring, ring_after))
        moved = (old ^ new) - {MINIMUM}  # The ring is cut at the minimum with or without a token.
        found = {}
        for replication in self.settings():
            before, after = owner_lookup(ring, replication), owner_lookup(ring_after, replication)
            found[replication] = [
                (left, right)
                for left, right in ranges(old | new)
                if before(right) != after(right) or ({left, right} & moved and before(right))
            ]
        return found

    def _wide_locks(self, ring: Ring, ring_after: Ring) -> dict[Replication, list[Range]]:
        """Ranges whose search for owners passes a token that comes or goes.

        Locks on owners that change are not enough: a token that a search passes without effect, or
        never reaches, may decide once another sequence has taken an owner away. The search from
        behind a token that no longer counts as it did goes at least as far as those that pass it.
        """
        old, new = set(ring), set(ring_after)
        lost, gained = ({place.token for place in places} for places in (old - new, new - old))
        homes = {place.token: place[2:] for place in ring_after}
        differing = {place.token for place in ring if homes.get(place.token) != place[2:]}
        found = {}
        for replication, narrow in self._locks(ring, ring_after).items():
            before, after = visit_lookup(ring, replication), visit_lookup(ring_after, replication)
            locked = set(narrow)
            found[replication] = [
                (left, right)
                for left, right in ranges(place.token for place in ring + ring_after)
                if before(right) & lost
                or after(right) & gained
                or (left in differing and before(right))
                or (left, right) in locked
                or {left, right} & (lost | gained)
            ]
        return found


def ranges(cuts: Iterable[int]) -> list[Range]:
    """The whole ring cut at these tokens and at the minimum; without tokens there is none."""
    tokens = sorted(set(cuts))
    if not tokens:
        return []
    return list(pairwise([MINIMUM, *(token for token in tokens if token != MINIMUM), MINIMUM]))


def carry_epochs(earlier: list[Group], owned: list[Owned], epoch: int) -> list[Group]:
    """Give each range the epoch at which the owners of its tokens last changed.

    A range keeps the largest epoch of the earlier ranges that it overlaps, if it has their owners.
    """
    lefts = [left for left, *_ in earlier]
    found = []
    for left, right, owners in owned:
        first = max(0, bisect_right(lefts, left) - 1)
        last = len(earlier) if right == MINIMUM else bisect_left(lefts, right)
        overlapped = earlier[first:last]
        same = overlapped and all(group[2] == owners for group in overlapped)
        kept = max(group[3] for group in overlapped) if same else epoch
        found.append((left, right, owners, kept))
    return found


def _within(changes: list[Change], piece: Range) -> list[tuple[frozenset[int], frozenset[int]]]:
    left, right = piece
    return [
        (before, after)
        for outer_left, outer_right, before, after in changes
        if outer_left <= left and (outer_right == MINIMUM or MINIMUM != right <= outer_right)
    ]


def owner_lookup(ring: Ring, replication: Replication) -> Callable[[int], frozenset[int]]:
    """Owners of a range by its right end; the minimum wraps to the first token."""
    return _lookup(ring, [owners for owners, _ in _searches(ring, replication)])


def visit_lookup(ring: Ring, replication: Replication) -> Callable[[int], frozenset[int]]:
    """Tokens that the search for a range's owners looks at, whether or not it takes their nodes."""
    return _lookup(ring, [visited for _, visited in _searches(ring, replication)])


def _lookup(ring: Ring, answers: list[frozenset[int]]) -> Callable[[int], frozenset[int]]:
    tokens = [place.token for place in ring]

    def answer(right: int) -> frozenset[int]:
        return answers[bisect_left(tokens, right) % len(tokens)] if tokens else frozenset()

    return answer


@lru_cache(maxsize=256)
def _searches(ring: Ring, replication: Replication) -> list[Search]:
    """The search for owners from each place of the ring."""
    kind, parameter = replication
    if kind == "simple":
        return _local_searches(ring, ring, parameter, repeats=parameter)
    found: list[Search] = [(frozenset(), frozenset())] * len(ring)
    for datacenter, factor in parameter:
        local = tuple(place for place in ring if place.datacenter == datacenter)
        repeats = max(0, factor - len({place.rack for place in local}))
        more = _local_searches(ring, local, factor, repeats=repeats)
        found = [(x[0] | y[0], x[1] | y[1]) for x, y in zip(found, more, strict=True)]
    return found


def _local_searches(ring: Ring, local: Ring, factor: int, *, repeats: int) -> list[Search]:
    wanted = min(factor, len({place.node for place in local}))
    tokens = [place.token for place in local]
    starts = [bisect_left(tokens, place.token) for place in ring]
    return [_search(local, start, wanted, repeats) for start in starts]


def _search(local: Ring, start: int, wanted: int, repeats: int) -> Search:
    """Once around from `start`, take nodes, of a rack already used only while repeats remain."""
    nodes: set[int] = set()
    racks: set[str] = set()
    visited: set[int] = set()
    for index in range(start, start + len(local)):
        if len(nodes) == wanted:
            break
        place = local[index % len(local)]
        visited.add(place.token)
        if place.node in nodes or (place.rack in racks and not repeats):
            continue
        repeats -= place.rack in racks
        nodes.add(place.node)
        racks.add(place.rack)
    return frozenset(nodes), frozenset(visited)
