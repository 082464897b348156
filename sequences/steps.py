"""What must be done before each step of a sequence may be committed."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Listed

import msgspec

from metadata.barriers import Evidence, moved_with_tables
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId, NodeState
from metadata.plans import Step
from metadata.receipts import Receipt
from metadata.sequences import Sequence, SequenceKind
from metadata.tokens import Range, coalesce
from transformations.ending import RetireSequence
from transformations.join import FinishJoin, MidJoin, StartJoin
from transformations.kinds import AnyTransformation
from transformations.leave import FinishLeave, MidLeave, StartLeave
from transformations.move import FinishMove, MidMove, StartMove
from transformations.replace import FinishReplace, MidReplace, StartReplace

STARTS: Mapping[SequenceKind, type[StartJoin | StartLeave | StartMove | StartReplace]] = {
    SequenceKind.JOIN: StartJoin,
    SequenceKind.LEAVE: StartLeave,
    SequenceKind.MOVE: StartMove,
    SequenceKind.REPLACE: StartReplace,
}
MIDS: Mapping[SequenceKind, type[MidJoin | MidLeave | MidMove | MidReplace]] = {
    SequenceKind.JOIN: MidJoin,
    SequenceKind.LEAVE: MidLeave,
    SequenceKind.MOVE: MidMove,
    SequenceKind.REPLACE: MidReplace,
}
FINISHES: Mapping[SequenceKind, type[FinishJoin | FinishLeave | FinishMove | FinishReplace]] = {
    SequenceKind.JOIN: FinishJoin,
    SequenceKind.LEAVE: FinishLeave,
    SequenceKind.MOVE: FinishMove,
    SequenceKind.REPLACE: FinishReplace,
}


def due_step(
    sequence: Sequence, barrier: Evidence | None, receipts: Listed[Receipt] = ()
) -> AnyTransformation:
    """The transformation that takes the step which is due."""
    kind, name = sequence.kind, sequence.id
    match sequence.due:
        case Step.START:
            return STARTS[kind](sequence=name, barrier=barrier)
        case Step.MID:
            return MIDS[kind](sequence=name, barrier=barrier, receipts=tuple(receipts))
        case Step.FINISH:
            return FINISHES[kind](sequence=name, barrier=barrier)
        case _:
            return RetireSequence(sequence=name, barrier=barrier)


def needs_movement(metadata: ClusterMetadata, sequence: Sequence) -> bool:
    """Whether rows have to be copied before the due step."""
    return sequence.due is Step.MID and any(
        plan.changes for plan in moved_with_tables(metadata, sequence)
    )


class Leftovers(msgspec.Struct, frozen=True):
    """Ranges of which some nodes still hold rows that are no longer theirs."""

    nodes: tuple[NodeId, ...]
    ranges: tuple[Range, ...]


def left_behind(metadata: ClusterMetadata, sequence: Sequence) -> Leftovers | None:
    """What is to be cleaned up once the sequence is over, and by whom.

    After FINISH nodes hold what they lost, after CANCEL what they had gained meanwhile. Each
    node deletes only what it does not own, so that ranges may be named for all of them at once.
    Nobody is asked who is dead or leaves, nor where there is no table.
    """
    nodes: set[NodeId] = set()
    ranges: list[Range] = []
    for plan in sequence.plans:
        if not metadata.schema.tables_placed_by(plan.placement):
            continue
        for change in plan.changes:
            holders = {*(change.gained if sequence.cancelled else change.lost)}
            nodes |= holders
            ranges += [change.range] if holders else []
    asked = {node for node in nodes if _stays(metadata, sequence, node)}
    return Leftovers(tuple(sorted(asked)), coalesce(ranges)) if asked else None


def _stays(metadata: ClusterMetadata, sequence: Sequence, node: NodeId) -> bool:
    found = metadata.directory.find(node)
    return node not in sequence.dead and found is not None and found.state is not NodeState.LEFT
