"""Who has to answer a read or a write of one token, at one version of the metadata."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import assert_never

import msgspec

from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.plans import RangeChange
from metadata.quorums import majority
from metadata.schema import PlacementKey
from metadata.strategies import Owners
from metadata.tokens import Token


class Consistency(StrEnum):
    """How many must answer: any one, a quorum so that reads meet writes, or everybody."""

    ONE = "one"
    QUORUM = "quorum"
    ALL = "all"


class Replicas(msgspec.Struct, frozen=True, kw_only=True):
    """The owners of one token.

    `write_groups` are its readers; while it has writers that are not readers, its owners before
    the sequence and its owners after it. A write needs its consistency in *each* of them.

    `read_epoch` and `write_epoch` tell since when reads and writes are as they are here: whoever
    chose the owners by older metadata may have chosen wrong.
    """

    readers: Owners
    writers: Owners
    write_groups: tuple[Owners, ...]
    read_epoch: Epoch
    write_epoch: Epoch

    def read_met(self, consistency: Consistency, answered: Collection[NodeId]) -> bool:
        return bool(self.readers) and _met(consistency, self.readers, answered)

    def write_met(self, consistency: Consistency, acknowledged: Collection[NodeId]) -> bool:
        return bool(self.write_groups) and all(
            _met(consistency, group, acknowledged) for group in self.write_groups
        )


def replicas_of(metadata: ClusterMetadata, keyspace: str, token: Token) -> Replicas | None:
    """None if the keyspace does not exist or no node owns anything yet."""
    found = metadata.schema.find(keyspace)
    if found is None:
        return None
    placement = metadata.placements.find(found.replication.key)
    reads = None if placement is None else placement.readers(token)
    writes = None if placement is None else placement.writers(token)
    if reads is None or writes is None:
        return None
    # A keyspace that was altered uses another placement, whose groups may be older than that.
    read_epoch = max(reads.epoch, found.epoch)
    return Replicas(
        readers=reads.owners,
        writers=writes.owners,
        write_groups=_write_groups(
            metadata, found.replication.key, token, readers=reads.owners, writers=writes.owners
        ),
        read_epoch=read_epoch,
        # MID moves the readers alone and yet changes which groups a write must reach.
        write_epoch=max(read_epoch, writes.epoch),
    )


def _write_groups(
    metadata: ClusterMetadata,
    key: PlacementKey,
    token: Token,
    *,
    readers: Owners,
    writers: Owners,
) -> tuple[Owners, ...]:
    if set(readers) == set(writers):
        return (readers,) if readers else ()
    change = _change_at(metadata, key, token)
    return tuple(group for group in (change.before, change.after) if group)


def _change_at(metadata: ClusterMetadata, key: PlacementKey, token: Token) -> RangeChange:
    """Of the one sequence that moves this token; locks keep others away from it."""
    found = [
        change
        for sequence in metadata.sequences.in_progress.values()
        for plan in sequence.plans
        if plan.placement == key and (change := plan.covering(token)) is not None
    ]
    assert len(found) == 1, (key, token)
    return found[0]


def _met(consistency: Consistency, group: Owners, answered: Collection[NodeId]) -> bool:
    count = sum(node in answered for node in group)
    match consistency:
        case Consistency.ONE:
            return count > 0
        case Consistency.QUORUM:
            return count >= majority(len(group))
        case Consistency.ALL:
            return count == len(group)
        case unreachable:
            assert_never(unreachable)
