"""What proves that a range was copied whole."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from metadata.directory import KnownNode, NodeId
from metadata.epoch import Epoch
from metadata.limits import ID_MAX, Count, Decimal, Hash
from metadata.plans import RangeChange
from metadata.quorums import majority
from metadata.strategies import Owners
from metadata.tokens import BoundedToken, Range


class Source(msgspec.Struct, frozen=True):
    """A node that was read from, and the epoch it had applied when it was flushed."""

    node: KnownNode
    epoch: Annotated[Epoch, Meta(ge=0, le=ID_MAX)]


class Figures(msgspec.Struct, frozen=True):
    """How many rows, and two sums over their hashes, as decimal text: they exceed 64 bits."""

    rows: Count
    xor: Decimal
    sum: Decimal


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One range on one target: the rows read at the sources and the rows found at the target."""

    left: BoundedToken
    right: BoundedToken
    target: KnownNode
    sources: tuple[Source, ...]
    source: Figures
    target_rows: Figures
    details: Hash | None = None

    @property
    def range(self) -> Range:
        return Range(self.left, self.right)


def holders_least(owners: int, wanted: int) -> int:
    """How many of the owners surely have a row that a majority once acknowledged.

    Where nodes have left without a successor, the majority was one of `wanted` owners, and those
    who left may all have been among it.
    """
    missing = max(0, wanted - owners)
    return max(0, majority(owners + missing) - missing)


def sources_needed(before: Owners, wanted: int) -> int:
    """How many owners together have every row that was acknowledged."""
    return min(len(before), len(before) - holders_least(len(before), wanted) + 1)


def thins_out(change: RangeChange) -> bool:
    """True if so few owners would be left that a majority of them may miss an acknowledged row."""
    left = len(change.after)
    if left >= len(change.before):
        return False
    holders = holders_least(left, max(change.wanted, len(change.before)))
    return not left or holders + majority(left) <= left


def enough_sources(change: RangeChange, target: NodeId, sources: Owners) -> bool:
    """True if these nodes have, between them, all that the target must hold of the range."""
    owners = {node for node in sources if node in change.before}
    needed = sources_needed(change.before, change.wanted)
    return change.predecessor_of(target) in owners or len(owners) >= needed
