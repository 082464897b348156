"""What would come of transformations that nobody commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from audit.driving import assumed_step
from encoding.differences import placement_changes
from encoding.json import rejection_json, result_json
from log.batch import Proposal, attempted, founding
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from metadata.plans import Step
from metadata.sequences import Sequence as RangeMovement
from transformations.kinds import AnyTransformation, kind_of
from transformations.outcome import Rejected

TOKENS_TOTAL = 2**64
STEPS_ASSUMED_MAX = 10
"""For one sequence; START, MID, FINISH and RETIRE are enough."""

Plain = dict[str, Any]


class TableSize(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one copy of a table holds."""

    rows: int
    bytes: int | None = None


Sizes = Mapping[str, TableSize]
"""By `keyspace.table`."""


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """One hypothetical entry. `assumed` ones are steps that a driver would take."""

    epoch: Epoch
    kind: str
    assumed: bool
    result: Plain | None = None
    problem: Plain | None = None


class Weakest(msgspec.Struct, frozen=True, kw_only=True):
    """The range with the fewest readers on the way that are not declared dead."""

    epoch: Epoch
    placement: str
    left: str
    right: str
    readers: tuple[NodeId, ...]


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A range that a node would have to get a copy of."""

    sequence: int
    placement: str
    left: str
    right: str
    target: NodeId
    sources: tuple[NodeId, ...]
    rows: int | None
    bytes: int | None


class Imagined(msgspec.Struct, frozen=True, kw_only=True):
    """What a fork came to; `placement` compares its end with where it began.

    `rows` and `bytes` are estimates from the sizes that were given, rows spread evenly over
    the tokens; null without.
    """

    base: Epoch
    accepted: bool
    entries: tuple[Decided, ...]
    placement: tuple[Plain, ...]
    moves: tuple[Move, ...]
    rows: int | None
    bytes: int | None
    weakest: Weakest | None


def imagined(
    base: ClusterMetadata, proposals: Sequence[Proposal], sizes: Sizes | None = None
) -> Imagined:
    """All proposals in order, then every sequence they began to its end. Nothing is committed."""
    fork = _Fork(base)
    for proposal in proposals:
        fork.propose(founding(proposal), assumed=False)
    fork.drive()
    moves = tuple(
        move for found in fork.movements.values() for move in _moves_of(*found, sizes=sizes)
    )
    return Imagined(
        base=base.epoch,
        accepted=all(item.problem is None for item in fork.decided),
        entries=tuple(fork.decided),
        placement=tuple(placement_changes(base, fork.metadata)),
        moves=moves,
        rows=_total(move.rows for move in moves) if sizes is not None else None,
        bytes=_total(move.bytes for move in moves) if sizes is not None else None,
        weakest=fork.weakest,
    )


class _Fork:
    """A log that exists only here.

    `movements` has each sequence that began here and the metadata that its START found: the tables
    there are then are those it copies. One that is cancelled before START copies nothing.
    """

    def __init__(self, base: ClusterMetadata) -> None:
        self.metadata = base
        self.decided: list[Decided] = []
        self.weakest: Weakest | None = None
        self.movements: dict[SequenceId, tuple[ClusterMetadata, RangeMovement]] = {}
        self._before = frozenset(base.sequences.in_progress)

    def propose(self, transformation: AnyTransformation, *, assumed: bool) -> bool:
        outcome = attempted(transformation, self.metadata)
        kind = kind_of(transformation)
        if isinstance(outcome, Rejected):
            problem, epoch = rejection_json(outcome), self.metadata.epoch
            self.decided.append(Decided(epoch=epoch, kind=kind, assumed=assumed, problem=problem))
            return False
        self.metadata = outcome.after
        result = result_json(outcome.result)
        epoch = self.metadata.epoch
        self.decided.append(Decided(epoch=epoch, kind=kind, assumed=assumed, result=result))
        self.weakest = _weaker(self.weakest, _weakest(self.metadata))
        self._note_movements()
        return True

    def _note_movements(self) -> None:
        for item in self.metadata.sequences.in_progress.values():
            if item.id in self._before:
                continue
            if item.due is Step.START:
                self.movements[item.id] = (self.metadata, item)
            elif item.cancelled and item.epoch_of(Step.START) is None:
                self.movements.pop(item.id, None)

    def drive(self) -> None:
        """Only what began here: what was in progress before has a driver of its own."""
        for item in self.metadata.sequences.in_progress:
            for _ in range(STEPS_ASSUMED_MAX):
                sequence = self.metadata.sequences.find(item)
                if item in self._before or sequence is None:
                    break
                if not self.propose(assumed_step(self.metadata, sequence), assumed=True):
                    break


def _weakest(metadata: ClusterMetadata) -> Weakest | None:
    running = metadata.sequences.in_progress.values()
    dead = {node for sequence in running for node in sequence.dead}
    found: Weakest | None = None
    for key, placement in metadata.placements.items():
        for span, group in placement.read_groups():
            readers = tuple(node for node in group.owners if node not in dead)
            if found is None or len(readers) < len(found.readers):
                found = Weakest(
                    epoch=metadata.epoch,
                    placement=key,
                    left=str(span.left),
                    right=str(span.right),
                    readers=readers,
                )
    return found


def _weaker(ours: Weakest | None, theirs: Weakest | None) -> Weakest | None:
    """The earlier one of two that are equally weak."""
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    return theirs if len(theirs.readers) < len(ours.readers) else ours


def _moves_of(
    metadata: ClusterMetadata, sequence: RangeMovement, sizes: Sizes | None
) -> Iterator[Move]:
    """Ranges of placements that hold a table; elsewhere there is nothing to copy."""
    for plan in sequence.plans:
        tables = metadata.schema.tables_placed_by(plan.placement)
        held = [(sizes or {}).get(f"{item.keyspace}.{item.name}") for item in tables]
        rows = _total(None if item is None else item.rows for item in held)
        size_bytes = _total(None if item is None else item.bytes for item in held)
        for change, target in plan.gains() if tables else ():
            loses = change.predecessor_of(target)
            alive = tuple(node for node in change.before if node not in sequence.dead)
            yield Move(
                sequence=sequence.id,
                placement=plan.placement,
                left=str(change.range.left),
                right=str(change.range.right),
                target=target,
                sources=(loses,) if loses in alive and loses is not None else alive,
                rows=_share(rows, change.range.width),
                bytes=_share(size_bytes, change.range.width),
            )


def _share(whole: int | None, width: int) -> int | None:
    return None if whole is None else whole * width // TOKENS_TOTAL


def _total(figures: Iterator[int | None]) -> int | None:
    """Unknown as soon as one of them is."""
    known = list(figures)
    return None if None in known else sum(figure for figure in known if figure is not None)
