"""What proves a copy: figures over hashes of rows, fine enough to locate a difference."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from metadata.directory import NodeId
from metadata.receipts import Figures, Receipt, Source
from metadata.schema import TableId
from metadata.tokens import MAXIMUM, MINIMUM, Range, Token, position, token_at

SLICES_MAX = 16
NO_ROWS = Figures(rows=0, xor="0", sum="0")

_CANONICAL = msgspec.json.Encoder(order="deterministic")


class Slice(msgspec.Struct, frozen=True, order=True):
    """Where a row is counted: `number` is its token without the lowest `slice_shift` bits."""

    table: TableId
    range: Range
    number: int

    @property
    def part(self) -> Range:
        """The sub-range. The minimum token sorts first but lies last, so it is one of its own."""
        shift = slice_shift(self.range)
        left = max(self.range.left, (self.number << shift) - 1)
        right = min(position(self.range.right), ((self.number + 1) << shift) - 1)
        if left >= right:
            return Range(MAXIMUM, MINIMUM)
        return Range(Token(left), token_at(right))


class SliceFigures(msgspec.Struct, frozen=True):
    slice: Slice
    figures: Figures


class Difference(msgspec.Struct, frozen=True):
    """A sub-range of a table that is not the same at source and target."""

    slice: Slice
    source: Figures
    target: Figures

    def __str__(self) -> str:
        return (
            f"table {self.slice.table}, {self.slice.part}: {self.source.rows} rows were read and "
            f"{self.target.rows} found"
        )


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """One table's share of what was copied to a target, counted on both sides."""

    target: NodeId
    ranges: tuple[Range, ...]
    sources: Mapping[Range, tuple[Source, ...]]
    source: tuple[SliceFigures, ...]
    target_rows: tuple[SliceFigures, ...]


def slice_shift(whole: Range) -> int:
    """How many bits of a token to drop so that a range falls into about `SLICES_MAX` parts."""
    return max(1, (whole.width // SLICES_MAX).bit_length())


def added(figures: Iterable[Figures]) -> Figures:
    rows, xor, total = 0, 0, 0
    for item in figures:
        rows += item.rows
        xor ^= int(item.xor)
        total += int(item.sum)
    return Figures(rows=rows, xor=str(xor), sum=str(total))


def differences(source: Iterable[SliceFigures], target: Iterable[SliceFigures]) -> list[Difference]:
    """Where the two do not agree, in order; a slice without rows may be left out of either."""
    ours = {item.slice: item.figures for item in source if item.figures != NO_ROWS}
    theirs = {item.slice: item.figures for item in target if item.figures != NO_ROWS}
    return [
        Difference(place, ours.get(place, NO_ROWS), theirs.get(place, NO_ROWS))
        for place in sorted(ours.keys() | theirs.keys())
        if ours.get(place) != theirs.get(place)
    ]


class Details(msgspec.Struct, frozen=True):
    """The finer figures of a receipt, and the document that holds them."""

    content: bytes

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


class Proof(msgspec.Struct, frozen=True):
    receipt: Receipt
    details: Details


def proofs(copied: Iterable[Copied]) -> list[Proof]:
    """One per gained range and target, over all tables, in order."""
    by_gain: dict[tuple[Range, NodeId], list[Copied]] = defaultdict(list)
    for item in copied:
        for span in item.ranges:
            by_gain[span, item.target].append(item)
    return [_proof(span, target, parts) for (span, target), parts in sorted(by_gain.items())]


def _proof(span: Range, target: NodeId, parts: list[Copied]) -> Proof:
    source = [item for part in parts for item in part.source if item.slice.range == span]
    found = [item for part in parts for item in part.target_rows if item.slice.range == span]
    details = Details(_CANONICAL.encode(_document(span, target, source, found)))
    receipt = Receipt(
        left=span.left,
        right=span.right,
        target=target,
        sources=_sources(source for part in parts for source in part.sources[span]),
        source=added(item.figures for item in source),
        target_rows=added(item.figures for item in found),
        details=details.hash,
    )
    return Proof(receipt, details)


def _sources(found: Iterable[Source]) -> tuple[Source, ...]:
    """Each node once. Tables may have been flushed at different epochs: the oldest is honest."""
    oldest: dict[NodeId, Source] = {}
    for item in found:
        known = oldest.get(item.node)
        if known is None or item.epoch < known.epoch:
            oldest[item.node] = item
    return tuple(oldest[node] for node in sorted(oldest))


def _document(
    span: Range, target: NodeId, source: list[SliceFigures], found: list[SliceFigures]
) -> dict[str, Any]:
    return {
        "left": str(span.left),
        "right": str(span.right),
        "target": target,
        "source": [_line(item) for item in sorted(source, key=_place)],
        "target_rows": [_line(item) for item in sorted(found, key=_place)],
    }


def _place(item: SliceFigures) -> Slice:
    return item.slice


def _line(item: SliceFigures) -> dict[str, Any]:
    part = item.slice.part
    return {
        "table": item.slice.table,
        "left": str(part.left),
        "right": str(part.right),
        "figures": item.figures,
    }
