"""Refusals that many transformations share."""

from __future__ import annotations

from collections.abc import Iterable

from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.locks import Conflict
from metadata.sequences import Sequence
from transformations.outcome import RANGES_SHOWN_MAX, Reason, Rejected


def unknown_node(node: NodeId) -> Rejected:
    return Rejected(Reason.UNKNOWN_NODE, f"node {node} is not registered", "register it first")


def first_unknown(metadata: ClusterMetadata, nodes: Iterable[NodeId]) -> Rejected | None:
    missing = next((node for node in nodes if metadata.directory.find(node) is None), None)
    return None if missing is None else unknown_node(missing)


def in_progress(sequence: Sequence, subject: str) -> Rejected:
    return Rejected(
        Reason.SEQUENCE_IN_PROGRESS,
        f"{subject}: sequence {sequence.id} ({sequence.kind} of node {sequence.node}) is not over",
        how_to_end(sequence),
        sequence=sequence.id,
        step=sequence.due,
    )


def locked(metadata: ClusterMetadata, subject: str) -> Rejected | None:
    """Refuse what must not happen while any sequence has its plan."""
    held = metadata.sequences.in_progress.values()
    if not held:
        return None
    sequence = held[0]
    ranges = [
        span for item in metadata.locks.held[sequence.id].by_placement for span in item.ranges
    ]
    return Rejected(
        Reason.RANGES_LOCKED,
        f"{subject} while sequence {sequence.id} ({sequence.kind} of node {sequence.node}) "
        "holds ranges",
        how_to_end(sequence),
        sequence=sequence.id,
        step=sequence.due,
        ranges=tuple(ranges[:RANGES_SHOWN_MAX]),
    )


def conflicting(metadata: ClusterMetadata, conflict: Conflict) -> Rejected:
    sequence = metadata.sequences.in_progress[conflict.sequence]
    return Rejected(
        Reason.RANGES_LOCKED,
        f"sequence {sequence.id} ({sequence.kind} of node {sequence.node}) holds ranges of "
        f"{conflict.placement} that this plan needs, {conflict.ranges[0]} among them",
        how_to_end(sequence),
        sequence=sequence.id,
        step=sequence.due,
        ranges=conflict.ranges[:RANGES_SHOWN_MAX],
    )


def how_to_end(sequence: Sequence) -> str:
    return f"wait until sequence {sequence.id} is retired; its next step is {sequence.due}"
