"""Clusters in one line, and what an honest driver would hand in with each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from metadata.barriers import Evidence, Level, moved_with_tables
from metadata.cluster import NOTHING_YET, ClusterMetadata
from metadata.columns import ColumnType
from metadata.directory import NodeId, NodeState
from metadata.epoch import Epoch
from metadata.invariants import broken_between, violations
from metadata.locks import SequenceId
from metadata.placements import RingPlacement
from metadata.plans import RangeChange, Step
from metadata.receipts import Figures, Receipt, Source
from metadata.schema import Column, Replication, Simple
from metadata.sequences import Sequence as RangeMovement
from metadata.sequences import SequenceKind
from metadata.tokens import Range, Token
from transformations.directory import Register
from transformations.ending import CancelSequence, RetireSequence
from transformations.initialize import Initialize
from transformations.join import FinishJoin, MidJoin, PrepareJoin, StartJoin, UnsafeJoin
from transformations.kinds import AnyTransformation, execute
from transformations.leave import FinishLeave, MidLeave, PrepareLeave, StartLeave
from transformations.move import FinishMove, MidMove, PrepareMove, StartMove
from transformations.outcome import Accepted, Outcome, Reason, Rejected
from transformations.replace import FinishReplace, MidReplace, PrepareReplace, StartReplace
from transformations.schema import CreateKeyspace, CreateTable

CLUSTER = "00000000-0000-4000-8000-000000000001"
SPACING = 100
"""Node 1 has token 100, node 2 token 200, and so on."""

Place = tuple[str, str]
"""Datacenter and rack."""

STEPS: dict[SequenceKind, tuple] = {
    SequenceKind.JOIN: (StartJoin, MidJoin, FinishJoin),
    SequenceKind.LEAVE: (StartLeave, MidLeave, FinishLeave),
    SequenceKind.MOVE: (StartMove, MidMove, FinishMove),
    SequenceKind.REPLACE: (StartReplace, MidReplace, FinishReplace),
}
"""What starts, what moves the reads and what finishes."""

FIGURES = Figures(rows=7, xor="123", sum="456")
THREE = Simple(3)


def accepted(outcome: Outcome) -> Accepted:
    assert isinstance(outcome, Accepted), outcome
    return outcome


def rejected(outcome: Outcome, reason: Reason) -> Rejected:
    assert isinstance(outcome, Rejected), "accepted"
    assert outcome.reason is reason, outcome
    return outcome


def commit(metadata: ClusterMetadata, *transformations: AnyTransformation) -> ClusterMetadata:
    """The metadata after all of these, each of which must be accepted and leave no violation."""
    for transformation in transformations:
        before, metadata = metadata, accepted(execute(transformation, metadata)).after
        faults = [*violations(metadata), *broken_between(before, metadata)]
        assert not faults, (transformation, faults)
    return metadata


def founded(name: str = "test") -> ClusterMetadata:
    return commit(NOTHING_YET, Initialize(name=name, cluster=CLUSTER))


def registration(number: int, place: Place = ("dc1", "r1")) -> Register:
    return Register(
        host_id=f"host-{number}",
        addresses={"native": f"10.0.0.{number}:9042"},
        datacenter=place[0],
        rack=place[1],
        version="1",
    )


def keyspace(replication: Replication, name: str = "shop", tables: int = 1) -> list:
    """What creates a keyspace and its tables."""
    return [CreateKeyspace(name=name, replication=replication), *_tables(name, tables)]


def _tables(keyspace_name: str, count: int) -> list[CreateTable]:
    columns = (Column("id", ColumnType.BIGINT), Column("text", ColumnType.STRING))
    return [
        CreateTable(
            keyspace=keyspace_name, name=f"t{number}", columns=columns, partition_key=("id",)
        )
        for number in range(1, count + 1)
    ]


def span(left: int, right: int) -> Range:
    return Range(Token(left), Token(right))


def spread(nodes: int, datacenters: int = 1, racks: int = 1) -> list[Place]:
    """Places that take turns: first through the datacenters, then through the racks of each."""
    return [
        (f"dc{index % datacenters + 1}", f"r{index // datacenters % racks + 1}")
        for index in range(nodes)
    ]


def joined_cluster(
    nodes: int = 4,
    replication: Replication | None = THREE,
    *,
    tables: int = 1,
    spare: int = 0,
    places: Sequence[Place] | None = None,
    tokens: Sequence[Sequence[int]] | None = None,
) -> ClusterMetadata:
    """So many nodes that have joined, and `spare` ones that are registered only.

    Without `replication` there is no keyspace.
    """
    where = tuple(places or spread(nodes + spare))
    owned = tokens or [[SPACING * number] for number in range(1, nodes + 1)]
    metadata = _ring_of(where, tuple(map(tuple, owned[:nodes])))
    return commit(metadata, *keyspace(replication, tables=tables)) if replication else metadata


@lru_cache(maxsize=256)
def _ring_of(places: tuple[Place, ...], tokens: tuple[tuple[Token, ...], ...]) -> ClusterMetadata:
    registered = commit(founded(), *(registration(n, place) for n, place in enumerate(places, 1)))
    return commit(
        registered,
        *(UnsafeJoin(node=NodeId(n), tokens=own) for n, own in enumerate(tokens, 1)),
    )


Owned = dict[tuple[int, int], tuple[int, ...]]


def reads(metadata: ClusterMetadata, replication: Replication | None = None) -> Owned:
    """The readers of each range, of the only placement unless one is named."""
    placement = _placement(metadata, replication)
    return {(span.left, span.right): group.owners for span, group in placement.read_groups()}


def writes(metadata: ClusterMetadata, replication: Replication | None = None) -> Owned:
    placement = _placement(metadata, replication)
    return {(span.left, span.right): group.owners for span, group in placement.write_groups()}


def _placement(metadata: ClusterMetadata, replication: Replication | None) -> RingPlacement:
    if replication is not None:
        return metadata.placements.placed[replication.key]
    (placement,) = metadata.placements.placed.values()
    return placement


def state_of(metadata: ClusterMetadata, node: int) -> NodeState:
    return metadata.directory.nodes[NodeId(node)].state


def only_sequence(metadata: ClusterMetadata) -> RangeMovement:
    (sequence,) = metadata.sequences.in_progress.values()
    return sequence


def everyone_applied(
    metadata: ClusterMetadata,
    sequence: RangeMovement,
    *,
    level: Level = Level.EACH_QUORUM,
    but: Iterable[int] = (),
) -> Evidence:
    """Every node that is not declared dead has applied the last step, save those in `but`."""
    absent = {*sequence.dead, *but}
    return Evidence(level, tuple(node for node in metadata.directory.nodes if node not in absent))


def applied_by(*nodes: int, level: Level = Level.EACH_QUORUM) -> Evidence:
    return Evidence(level, tuple(map(NodeId, nodes)))


def honest_receipts(metadata: ClusterMetadata, sequence: RangeMovement) -> tuple[Receipt, ...]:
    """One per gained range and target, from all owners that are alive."""
    changes: dict[tuple, list[RangeChange]] = {}
    for plan in moved_with_tables(metadata, sequence):
        for change, target in plan.gains():
            changes.setdefault((change.range, target), []).append(change)
    return tuple(
        receipt(
            span.left,
            span.right,
            target,
            {node for change in found for node in change.before} - set(sequence.dead),
            sequence.last_epoch,
        )
        for (span, target), found in sorted(changes.items())
    )


def receipt(
    left: int,
    right: int,
    target: int,
    sources: Iterable[int],
    epoch: int,
    *,
    source: Figures = FIGURES,
    target_rows: Figures = FIGURES,
) -> Receipt:
    return Receipt(
        left=Token(left),
        right=Token(right),
        target=NodeId(target),
        sources=tuple(Source(NodeId(node), Epoch(epoch)) for node in sorted(sources)),
        source=source,
        target_rows=target_rows,
    )


def due_step(metadata: ClusterMetadata, sequence: RangeMovement) -> AnyTransformation:
    """What an honest driver commits next."""
    barrier = everyone_applied(metadata, sequence)
    if sequence.due is Step.RETIRE:
        return RetireSequence(sequence=sequence.id, barrier=barrier)
    start, mid, finish = STEPS[sequence.kind]
    if sequence.due is Step.START:
        return start(sequence=sequence.id, barrier=barrier)
    if sequence.due is Step.MID:
        receipts = honest_receipts(metadata, sequence)
        return mid(sequence=sequence.id, barrier=barrier, receipts=receipts)
    return finish(sequence=sequence.id, barrier=barrier)


def advanced(
    metadata: ClusterMetadata, sequence: SequenceId | None = None, steps: int = 1
) -> ClusterMetadata:
    """So many steps further; the only sequence unless one is named."""
    found = only_sequence(metadata).id if sequence is None else sequence
    for _ in range(steps):
        step = due_step(metadata, metadata.sequences.in_progress[found])
        metadata = commit(metadata, step)
    return metadata


def advanced_to(
    metadata: ClusterMetadata, step: Step, sequence: SequenceId | None = None
) -> ClusterMetadata:
    """The metadata in which a sequence has just taken the step."""
    found = only_sequence(metadata).id if sequence is None else sequence
    if step is Step.CANCEL:
        return commit(metadata, CancelSequence(sequence=found))
    forward = [Step.PREPARE, Step.START, Step.MID, Step.FINISH, Step.RETIRE]
    taken = forward.index(metadata.sequences.in_progress[found].last)
    return advanced(metadata, found, forward.index(step) - taken)


def cancelled(metadata: ClusterMetadata, sequence: SequenceId | None = None) -> ClusterMetadata:
    """The metadata after CANCEL and RETIRE."""
    found = only_sequence(metadata).id if sequence is None else sequence
    return advanced(advanced_to(metadata, Step.CANCEL, found), found)


def preparation(metadata: ClusterMetadata, kind: SequenceKind) -> AnyTransformation:
    """A Prepare that suits a cluster from `joined_cluster`: of node 1, or of its first spare."""
    spare = next(
        (node for node in metadata.directory.nodes if node not in metadata.ring.by_node), NodeId(0)
    )
    first = next(iter(metadata.ring.by_node), NodeId(0))
    match kind:
        case SequenceKind.JOIN:
            return PrepareJoin(node=spare, tokens=(Token(SPACING + SPACING // 2),))
        case SequenceKind.LEAVE:
            return PrepareLeave(node=first)
        case SequenceKind.MOVE:
            return PrepareMove(node=first, tokens=(Token(2 * SPACING + SPACING // 2),))
        case SequenceKind.REPLACE:
            return PrepareReplace(node=spare, replaced=first)


@lru_cache(maxsize=512)
def in_step(metadata: ClusterMetadata, kind: SequenceKind, step: Step) -> ClusterMetadata:
    """A sequence of this kind has just taken this step."""
    return advanced_to(commit(metadata, preparation(metadata, kind)), step)
