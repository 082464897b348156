"""Rows of tables that are read from a history: what an entry or a version of the metadata gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from encoding.json import result_json, transformation_json
from log.entry import SealedEntry
from metadata.cluster import ClusterMetadata
from metadata.locks import SequenceId
from metadata.placements import Group
from metadata.receipts import Receipt
from metadata.sequences import Sequence
from metadata.tokens import Range

Row = tuple[object, ...]
"""Values in the order of a table's columns."""

Items = Mapping[object, Row]
"""What stands in one version of the metadata, by what tells it apart; without epoch and change."""


def entry_rows(sealed: SealedEntry) -> Iterator[Row]:
    entry = sealed.entry
    yield (
        entry.epoch,
        str(entry.entry_id),
        entry.kind,
        entry.actor,
        entry.reason,
        entry.committed_at,
        entry.committed_by,
        msgspec.json.encode(transformation_json(entry.transformation)).decode(),
        msgspec.json.encode(result_json(entry.result)).decode(),
        entry.digest,
        sealed.hash,
        sealed.previous_hash,
    )


def receipt_rows(sealed: SealedEntry) -> Iterator[Row]:
    """One per receipt that a MID step carries."""
    transformation = sealed.entry.transformation
    receipts: tuple[Receipt, ...] = getattr(transformation, "receipts", ())
    sequence: SequenceId | None = getattr(transformation, "sequence", None)
    for receipt in receipts:
        yield (
            sealed.epoch,
            sequence,
            receipt.left,
            receipt.right,
            receipt.target,
            [{"node": source.node, "epoch": source.epoch} for source in receipt.sources],
            *_figures(receipt),
            receipt.details,
        )


def _figures(receipt: Receipt) -> Row:
    source, target = receipt.source, receipt.target_rows
    return (source.rows, source.xor, source.sum, target.rows, target.xor, target.sum)


def nodes(metadata: ClusterMetadata) -> Items:
    return {
        node.id: (
            node.id,
            node.state.value,
            node.host_id,
            node.location.datacenter,
            node.location.rack,
            node.version,
            sorted(node.addresses.items()),
            list(metadata.ring.tokens_of(node.id)),
        )
        for node in metadata.directory.nodes.values()
    }


def placements(metadata: ClusterMetadata) -> Items:
    found: dict[object, Row] = {}
    for key, placement in metadata.placements.items():
        keyspaces = list(metadata.schema.keyspaces_placed_by(key))
        for role, groups in (("read", placement.reads), ("write", placement.writes)):
            for span, group in groups.items():
                row = (key, keyspaces, role, *_owned(span, group))
                found[key, role, span] = row
    return found


def _owned(span: Range, group: Group) -> Row:
    return (span.left, span.right, list(group.owners), group.epoch)


def sequences(metadata: ClusterMetadata) -> Items:
    return {item.id: _sequence(item) for item in metadata.sequences.in_progress.values()}


def _sequence(sequence: Sequence) -> Row:
    return (
        sequence.id,
        sequence.kind.value,
        sequence.node,
        sequence.replaced,
        list(sequence.tokens),
        list(sequence.dead),
        sequence.accept_loss or None,
        sequence.session,
        sequence.last.value,
        sequence.due.value,
        [{"step": item.step.value, "epoch": item.epoch} for item in sequence.taken],
    )


ENTRY_ROWS: Mapping[str, Callable[[SealedEntry], Iterator[Row]]] = {
    "entries": entry_rows,
    "receipts": receipt_rows,
}
ITEMS: Mapping[str, tuple[Callable[[ClusterMetadata], Items], frozenset[str]]] = {
    "nodes": (nodes, frozenset(["directory", "ring"])),
    "placements": (placements, frozenset(["placements", "schema"])),
    "sequences": (sequences, frozenset(["sequences"])),
}
"""How to get a table's rows from metadata, and the components they depend on."""


def changes(before: Items, after: Items) -> Iterator[tuple[str, Row]]:
    """What is to be done to the rows before to get those after."""
    for key, row in before.items():
        if key not in after:
            yield "delete", row
    for key, row in after.items():
        if key not in before:
            yield "insert", row
        elif before[key] != row:
            yield "update", row
