"""Rules about what a step must prove: its barrier, and the receipts of MID."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from audit.transition import Transition
from metadata.barriers import Evidence, moved_with_tables, shortfalls, voter_groups
from metadata.directory import NodeId
from metadata.plans import RangeChange, Step
from metadata.receipts import Receipt, enough_sources
from metadata.sequences import Sequence
from metadata.tokens import Range

Gain = tuple[Range, NodeId]


def barrier(found: Transition) -> Iterator[str]:
    """Where tables are affected, majorities of all groups had applied the step before."""
    sequence = _voting(found)
    if sequence is None:
        return
    given: Evidence | None = getattr(found.entry.transformation, "barrier", None)
    if given is None and found.step is Step.CANCEL:
        return  # A sequence that waits for a node that will not answer can still be cancelled.
    groups = voter_groups(found.before, sequence)
    if not groups:
        return
    if given is None:
        yield f"{found.step} of sequence {sequence.id} carries no evidence of its barrier"
        return
    for short in shortfalls(groups, given, found.before.locations()):
        yield (
            f"{found.step} of sequence {sequence.id}: of the owners {list(short.group)} not "
            f"{short.needed} had applied epoch {sequence.last_epoch}; "
            f"nodes {list(short.missing)} are missing"
        )
    late = _not_closed(sequence, given)
    if late:
        yield (
            f"{found.step} of sequence {sequence.id}: nodes {late} may not have seen its session "
            "close"
        )


def _voting(found: Transition) -> Sequence | None:
    """The sequence before the step; RETIRE may itself declare nodes dead, which do not vote."""
    sequence = found.sequence
    if sequence is None or found.step is not Step.RETIRE:
        return sequence
    declared: tuple[NodeId, ...] = getattr(found.entry.transformation, "dead", ())
    return msgspec.structs.replace(sequence, dead=tuple(sorted({*sequence.dead, *declared})))


def _not_closed(sequence: Sequence, given: Evidence) -> list[NodeId]:
    if sequence.last not in (Step.MID, Step.CANCEL) or sequence.session is None:
        return []
    targets = {node for plan in sequence.plans for _, node in plan.gains()}
    return sorted(targets - set(sequence.dead) - set(given.applied))


def strange_voters(found: Transition) -> Iterator[str]:
    """Evidence names nodes that exist."""
    given: Evidence | None = getattr(found.entry.transformation, "barrier", None)
    nodes = found.before.directory.nodes
    unknown = [] if given is None else [node for node in given.applied if node not in nodes]
    if unknown:
        yield f"the evidence names nodes {unknown}, which are not registered"


def receipts(found: Transition) -> Iterator[str]:
    """MID proves every gained range with tables: enough live sources, and the same rows."""
    sequence = found.sequence
    if found.step is not Step.MID or sequence is None or sequence.epoch_of(Step.START) is None:
        return
    given: tuple[Receipt, ...] = getattr(found.entry.transformation, "receipts", ())
    by_gain: dict[Gain, list[Receipt]] = {}
    for receipt in given:
        by_gain.setdefault((receipt.range, receipt.target), []).append(receipt)
    for plan in moved_with_tables(found.before, sequence):
        for change, target in plan.gains():
            own = by_gain.get((change.range, target), [])
            if len(own) != 1:
                yield f"{change.range} on node {target} has {len(own)} receipts instead of one"
            for receipt in own:
                yield from _receipt_faults(found, sequence, change, receipt)


def _receipt_faults(
    found: Transition, sequence: Sequence, change: RangeChange, receipt: Receipt
) -> Iterator[str]:
    name = f"the receipt for {receipt.range} on node {receipt.target}"
    if receipt.source != receipt.target_rows:
        yield f"{name} has other rows at the target than at the source"
    start = sequence.epoch_of(Step.START) or found.epoch
    for source in receipt.sources:
        if not start <= source.epoch <= found.before.epoch:
            yield f"{name} has source {source.node} flushed at epoch {source.epoch}"
        if source.node in sequence.dead:
            yield f"{name} has source {source.node}, which is declared dead"
    nodes = tuple(sorted({source.node for source in receipt.sources}))
    if not sequence.accept_loss and not enough_sources(change, receipt.target, nodes):
        yield f"{name} has sources {list(nodes)}, which may lack acknowledged rows"
