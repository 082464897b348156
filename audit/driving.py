"""The steps that a driver would commit if all went well, for histories that are only imagined."""

from __future__ import annotations

from metadata.barriers import Evidence, Level, moved_with_tables
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.plans import Step
from metadata.receipts import Figures, Receipt, Source
from metadata.sequences import Sequence
from metadata.tokens import Range
from sequences.steps import due_step
from transformations.kinds import AnyTransformation

NO_ROWS = Figures(rows=0, xor="0", sum="0")


def assumed_step(metadata: ClusterMetadata, sequence: Sequence) -> AnyTransformation:
    """The step that is due, with the evidence and receipts of a cluster where everybody answers."""
    alive = tuple(node for node in metadata.directory.nodes if node not in sequence.dead)
    barrier = Evidence(Level.EACH_QUORUM, alive)
    receipts = _receipts(metadata, sequence) if sequence.due is Step.MID else ()
    return due_step(sequence, barrier, receipts)


def _receipts(metadata: ClusterMetadata, sequence: Sequence) -> tuple[Receipt, ...]:
    """One per gained range and target, from all owners that are alive."""
    sources: dict[tuple[Range, NodeId], set[NodeId]] = {}
    for plan in moved_with_tables(metadata, sequence):
        for change, target in plan.gains():
            known = sources.setdefault((change.range, target), set())
            known.update(node for node in change.before if node not in sequence.dead)
    return tuple(
        Receipt(
            left=span.left,
            right=span.right,
            target=target,
            sources=tuple(Source(node, sequence.last_epoch) for node in sorted(nodes)),
            source=NO_ROWS,
            target_rows=NO_ROWS,
        )
        for (span, target), nodes in sorted(sources.items())
    )
