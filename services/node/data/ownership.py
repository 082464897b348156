"""Which ranges a node reads or writes, by one version of the metadata."""

from __future__ import annotations

from collections.abc import Iterator

from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.placements import Placement
from metadata.schema import Table
from metadata.tokens import Range
from store.ranges import coalesced


def owned_ranges(metadata: ClusterMetadata, node: NodeId) -> tuple[Range, ...]:
    """Of any placement."""
    placed = metadata.placements.placed.values()
    return coalesced(span for placement in placed for span in _owned(placement, node))


def owned_of(metadata: ClusterMetadata, table: Table, node: NodeId) -> tuple[Range, ...]:
    """What the node reads or writes of one table."""
    placement = _placement_of(metadata, table)
    return () if placement is None else coalesced(_owned(placement, node))


def written_of(metadata: ClusterMetadata, table: Table, node: NodeId) -> tuple[Range, ...]:
    placement = _placement_of(metadata, table)
    if placement is None:
        return ()
    return coalesced(span for span, group in placement.write_groups() if node in group.owners)


def _placement_of(metadata: ClusterMetadata, table: Table) -> Placement | None:
    keyspace = metadata.schema.find(table.keyspace)
    return None if keyspace is None else metadata.placements.find(keyspace.replication.key)


def _owned(placement: Placement, node: NodeId) -> Iterator[Range]:
    for groups in (placement.read_groups(), placement.write_groups()):
        yield from (span for span, group in groups if node in group.owners)
