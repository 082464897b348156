"""Whether the receipts of MID prove that every gained range was copied whole."""

from __future__ import annotations

from collections.abc import Sequence as Listed

from metadata.barriers import moved_with_tables
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.plans import PlacementPlan, RangeChange, Step
from metadata.receipts import Receipt, enough_sources, sources_needed
from metadata.sequences import Sequence
from metadata.tokens import Range
from transformations.outcome import RANGES_SHOWN_MAX, Reason, Rejected

Gain = tuple[Range, NodeId]


def receipts_refused(
    metadata: ClusterMetadata, sequence: Sequence, receipts: Listed[Receipt]
) -> Rejected | None:
    """Refuse what does not fit the plan, and what leaves a gained range with tables unproved.

    A receipt for a range that holds no table is welcome; whose rows it has does not matter.
    """
    planned = _changes_by_gain(sequence.plans)
    needed = _changes_by_gain(moved_with_tables(metadata, sequence))
    given: dict[Gain, Receipt] = {}
    for receipt in receipts:
        gain = (receipt.range, receipt.target)
        if gain not in planned:
            return _wrong(sequence, receipt, "no such range is gained by that node")
        if gain in given:
            return _wrong(sequence, receipt, "there is another receipt for it")
        given[gain] = receipt
        fault = _early_or_dead(metadata, sequence, receipt) or _fault(
            sequence, receipt, needed.get(gain, ())
        )
        if fault is not None:
            return _wrong(sequence, receipt, fault)

    missing = sorted(needed.keys() - given.keys())
    return _missing(sequence, missing) if missing else None


def _changes_by_gain(plans: Listed[PlacementPlan]) -> dict[Gain, list[RangeChange]]:
    found: dict[Gain, list[RangeChange]] = {}
    for plan in plans:
        for change, node in plan.gains():
            found.setdefault((change.range, node), []).append(change)
    return found


def _early_or_dead(metadata: ClusterMetadata, sequence: Sequence, receipt: Receipt) -> str | None:
    """A source must have applied START before it is flushed, and nobody knows the future."""
    start = sequence.epoch_of(Step.START)
    assert start is not None, sequence.id
    for source in receipt.sources:
        if source.node in sequence.dead:
            return f"source {source.node} is declared dead"
        if source.epoch < start:
            return f"source {source.node} was flushed at epoch {source.epoch}, before START"
        if source.epoch > metadata.epoch:
            return f"source {source.node} was flushed at epoch {source.epoch}, yet to come"
    return None


def _fault(sequence: Sequence, receipt: Receipt, changes: Listed[RangeChange]) -> str | None:
    if receipt.source != receipt.target_rows:
        return "source and target differ"
    nodes = tuple(source.node for source in receipt.sources)
    if len(set(nodes)) < len(nodes):
        return "a source is named twice"
    for change in changes:
        if sequence.accept_loss or enough_sources(change, receipt.target, nodes):
            continue
        whose = change.predecessor_of(receipt.target)
        needed = sources_needed(change.before, change.wanted)
        return (
            f"sources {list(nodes)} may lack acknowledged rows: it takes "
            f"{'' if whose is None else f'node {whose}, or '}{needed} of "
            f"{list(change.before)}"
        )
    return None


def _wrong(sequence: Sequence, receipt: Receipt, fault: str) -> Rejected:
    return Rejected(
        Reason.RECEIPTS_WRONG,
        f"receipt for {receipt.range} on node {receipt.target}: {fault}",
        "copy the range again",
        sequence=sequence.id,
        step=sequence.due,
        ranges=(receipt.range,),
    )


def _missing(sequence: Sequence, missing: Listed[Gain]) -> Rejected:
    span, node = missing[0]
    return Rejected(
        Reason.RECEIPTS_MISSING,
        f"{len(missing)} gained ranges have no receipt, the first is {span} on node {node}",
        "copy the ranges and give a receipt for each",
        sequence=sequence.id,
        step=sequence.due,
        ranges=tuple(span for span, _ in missing[:RANGES_SHOWN_MAX]),
    )
