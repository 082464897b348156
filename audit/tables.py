"""A history as tables, in Arrow batches: entries, receipts, and the metadata with its changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TypeAlias

import msgspec
import pyarrow as pa

from audit.errors import ArchiveError
from audit.history import History, metadata_at
from audit.table_rows import ENTRY_ROWS, ITEMS, Row, changes
from audit.transition import STEPS
from log.entry import SealedEntry
from log.replay import apply
from metadata.cluster import ClusterMetadata
from metadata.epoch import EMPTY, Epoch, following
from metadata.plans import Step

Batch: TypeAlias = pa.RecordBatch

BATCH_ROWS_MAX = 4_096
PART_ENTRIES_MIN = 1_000
"""Parts that are shorter cost more to hand out than to read."""


class Table(StrEnum):
    ENTRIES = "entries"
    NODES = "nodes"
    PLACEMENTS = "placements"
    SEQUENCES = "sequences"
    RECEIPTS = "receipts"


_LONGS = pa.list_(pa.int64())
_VERSION = [("epoch", pa.int64()), ("change", pa.string())]

SCHEMAS = {
    Table.ENTRIES: pa.schema(
        [
            ("epoch", pa.int64()),
            ("entry_id", pa.string()),
            ("kind", pa.string()),
            ("actor", pa.string()),
            ("reason", pa.string()),
            ("committed_at", pa.timestamp("us", tz="UTC")),
            ("committed_by", pa.string()),
            ("transformation", pa.string()),
            ("result", pa.string()),
            ("digest", pa.binary()),
            ("hash", pa.binary()),
            ("previous_hash", pa.binary()),
        ]
    ),
    Table.NODES: pa.schema(
        [
            *_VERSION,
            ("node", pa.int64()),
            ("state", pa.string()),
            ("host_id", pa.string()),
            ("datacenter", pa.string()),
            ("rack", pa.string()),
            ("version", pa.string()),
            ("addresses", pa.map_(pa.string(), pa.string())),
            ("tokens", _LONGS),
        ]
    ),
    Table.PLACEMENTS: pa.schema(
        [
            *_VERSION,
            ("placement", pa.string()),
            ("keyspaces", pa.list_(pa.string())),
            ("role", pa.string()),
            ("left", pa.int64()),
            ("right", pa.int64()),
            ("owners", _LONGS),
            ("changed_at", pa.int64()),
        ]
    ),
    Table.SEQUENCES: pa.schema(
        [
            *_VERSION,
            ("sequence", pa.int64()),
            ("kind", pa.string()),
            ("node", pa.int64()),
            ("replaced", pa.int64()),
            ("tokens", _LONGS),
            ("dead", _LONGS),
            ("accept_loss", pa.string()),
            ("session", pa.int64()),
            ("step", pa.string()),
            ("due", pa.string()),
            ("taken", pa.list_(pa.struct([("step", pa.string()), ("epoch", pa.int64())]))),
        ]
    ),
    Table.RECEIPTS: pa.schema(
        [
            ("epoch", pa.int64()),
            ("sequence", pa.int64()),
            ("left", pa.int64()),
            ("right", pa.int64()),
            ("target", pa.int64()),
            ("sources", pa.list_(pa.struct([("node", pa.int64()), ("epoch", pa.int64())]))),
            ("rows", pa.int64()),
            ("xor", pa.string()),
            ("sum", pa.string()),
            ("target_rows", pa.int64()),
            ("target_xor", pa.string()),
            ("target_sum", pa.string()),
            ("details", pa.string()),
        ]
    ),
}
"""Tokens are 64-bit numbers here, where they are exact."""

_MIDS = frozenset(kind for kind, step in STEPS.items() if step is Step.MID)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Entries behind `after` up to `up_to`, of these kinds if any are named.

    With `after` None it is the metadata at `up_to`, as far as the table shows it.
    """

    table: Table
    after: Epoch | None
    up_to: Epoch
    kinds: frozenset[str] | None = None


def parts(history: History, whole: Part) -> Sequence[Part]:
    """The same, cut at snapshots, so that each can be read by itself."""
    if whole.after is None:
        return [whole]
    if whole.after >= whole.up_to:
        return []
    cuts = [whole.after]
    for epoch in history.snapshots():
        if cuts[-1] + PART_ENTRIES_MIN <= epoch < whole.up_to:
            cuts.append(epoch)
    ends = [*cuts[1:], whole.up_to]
    return [
        msgspec.structs.replace(whole, after=after, up_to=up_to)
        for after, up_to in zip(cuts, ends, strict=True)
    ]


def batches(history: History, part: Part) -> Iterator[Batch]:
    schema = SCHEMAS[part.table]
    waiting: list[Row] = []
    for row in _rows(history, part):
        waiting.append(row)
        if len(waiting) >= BATCH_ROWS_MAX:
            yield _batch(waiting, schema)
            waiting = []
    if waiting:
        yield _batch(waiting, schema)


def _rows(history: History, part: Part) -> Iterator[Row]:
    if part.table in ENTRY_ROWS:
        return _rows_of_entries(history, part)
    if part.after is None:
        return _rows_at(history, part)
    return _rows_of_changes(history, part, part.after)


def _rows_of_entries(history: History, part: Part) -> Iterator[Row]:
    """What is of another kind is not decoded."""
    kinds = _MIDS if part.table is Table.RECEIPTS else part.kinds
    for sealed in _entries(history, part.after or EMPTY, part.up_to):
        if kinds is None or sealed.kind in kinds:
            yield from ENTRY_ROWS[part.table](sealed)


def _rows_at(history: History, part: Part) -> Iterator[Row]:
    items, _ = ITEMS[part.table]
    for row in items(metadata_at(history, part.up_to).metadata).values():
        yield (part.up_to, None, *row)


def _rows_of_changes(history: History, part: Part, after: Epoch) -> Iterator[Row]:
    """Every epoch with its changes; from the nearest snapshot, so each part can be read alone."""
    items, components = ITEMS[part.table]
    applied = metadata_at(history, after)
    before = items(applied.metadata)
    for sealed in _entries(history, after, part.up_to):
        earlier, applied = applied.metadata, apply(sealed, applied)
        if _is_same(earlier, applied.metadata, components):
            continue
        now = items(applied.metadata)
        for change, row in changes(before, now):
            yield (sealed.epoch, change, *row)
        before = now


def _entries(history: History, after: Epoch, up_to: Epoch) -> Iterator[SealedEntry]:
    """What cannot be read is told with the first epoch that is missed."""
    due = following(after)
    try:
        for sealed in history.entries(after, up_to):
            due = following(sealed.epoch)
            yield sealed
    except ArchiveError as error:
        epoch = due if error.epoch is None else error.epoch
        raise ArchiveError(error.where, error.fault, epoch=epoch) from error


def _is_same(before: ClusterMetadata, after: ClusterMetadata, components: frozenset[str]) -> bool:
    return all(getattr(before, name) is getattr(after, name) for name in components)


def _batch(rows: Sequence[Row], schema: pa.Schema) -> Batch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
