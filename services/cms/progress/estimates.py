"""What a sequence would move, by what nodes say they hold; pure.

A node reports how many rows and bytes of each table it holds in all. They are taken to lie evenly
over the token ranges that it reads of that table's placement, so a range has the part of them that
it has of the tokens: a hashed key makes that so but for very few, very large partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.plans import PlacementPlan, RangeChange
from metadata.receipts import sources_needed
from metadata.sequences import Sequence
from services.cms.progress.bodies import Transfer
from services.cms.reports.store import Heard

ROWS = "rows"
BYTES = "bytes"


class Amount(msgspec.Struct, frozen=True):
    rows: float
    bytes: float

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.rows + other.rows, self.bytes + other.bytes)

    def times(self, part: float) -> Amount:
        return Amount(self.rows * part, self.bytes * part)


class Estimate(msgspec.Struct, frozen=True):
    """`total` is what targets gain; where several sources are merged, each transfer has it all."""

    transfers: list[Transfer]
    total: Amount | None


Densities = Mapping[NodeId, Amount]
"""Rows and bytes by token, of all tables of one placement."""


def estimated(
    metadata: ClusterMetadata, sequence: Sequence, heard: Mapping[NodeId, Heard]
) -> Estimate:
    amounts: dict[tuple[NodeId, NodeId], Amount | None] = {}
    ranges: dict[tuple[NodeId, NodeId], int] = defaultdict(int)
    total: Amount | None = None
    for plan in sequence.plans:
        # Without a table there are no rows to move, whatever the owners of its ranges.
        if not metadata.schema.tables_placed_by(plan.placement):
            continue
        densities = _densities(metadata, plan, heard)
        for change, target in plan.gains():
            found = _held(change, densities)
            total = _sum(total, found)
            for source in sources_of(change, target, sequence.dead):
                ranges[source, target] += 1
                amounts[source, target] = _sum(amounts.get((source, target)), found)
    return Estimate(
        [_transfer(pair, ranges[pair], amounts[pair]) for pair in sorted(ranges)], total
    )


def sources_of(change: RangeChange, target: NodeId, dead: Iterable[NodeId]) -> tuple[NodeId, ...]:
    """The node whose place the target takes, or else as many others as have every row."""
    alive = [node for node in change.before if node not in set(dead)]
    predecessor = change.predecessor_of(target)
    if predecessor in alive:
        return (predecessor,)
    return tuple(alive[: sources_needed(change.before, change.wanted)])


def weakest(sequence: Sequence) -> int | None:
    """The fewest replicas that any range is read from on the way; the dead are none.

    Once it is cancelled, the way leads back: new owners are read no more.
    """
    dead = set(sequence.dead)
    counts = [
        sum(node not in dead for node in owners)
        for plan in sequence.plans
        for change in plan.changes
        for owners in ((change.before,) if sequence.cancelled else (change.before, change.after))
        if owners
    ]
    return min(counts, default=None)


def _densities(
    metadata: ClusterMetadata, plan: PlacementPlan, heard: Mapping[NodeId, Heard]
) -> Densities:
    """Of the nodes that say what they hold."""
    tables = metadata.schema.tables_placed_by(plan.placement)
    names = {f"{table.keyspace}.{table.name}" for table in tables}
    placement = metadata.placements.find(plan.placement)
    if placement is None:
        return {}
    widths: dict[NodeId, int] = defaultdict(int)
    for span, group in placement.read_groups():
        for node in group.owners:
            widths[node] += span.width
    held = {node: _told(heard.get(node), names) for node in widths}
    return {
        node: amount.times(1 / widths[node]) for node, amount in held.items() if amount is not None
    }


def _told(heard: Heard | None, names: set[str]) -> Amount | None:
    """What a node holds of these tables; None where it does not say."""
    if heard is None or heard.data is None:
        return None
    tables: dict[str, dict[str, int]] = msgspec.json.decode(heard.data)
    listed = [tables[name] for name in names & tables.keys()]
    if not listed:
        return None
    return Amount(
        sum(item.get(ROWS, 0) for item in listed), sum(item.get(BYTES, 0) for item in listed)
    )


def _held(change: RangeChange, densities: Densities) -> Amount | None:
    """What the range holds, by those who own it; if none of them says, by all who do."""
    known = [densities[node] for node in change.before if node in densities]
    known = known or list(densities.values())
    if not known:
        return None
    mean = sum(known, Amount(0, 0)).times(1 / len(known))
    return mean.times(change.range.width)


def _sum(first: Amount | None, second: Amount | None) -> Amount | None:
    """Of what is known."""
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _transfer(pair: tuple[NodeId, NodeId], ranges: int, amount: Amount | None) -> Transfer:
    source, target = pair
    return Transfer(
        source=source,
        target=target,
        ranges=ranges,
        rows=None if amount is None else round(amount.rows),
        bytes=None if amount is None else round(amount.bytes),
    )
