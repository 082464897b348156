"""What can be blamed on an entry: a node, a range, a table, a setting, a member."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from encoding.json import as_plain
from encoding.views import component_view
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.placements import Group, ReplicaGroups, RingPlacement
from metadata.tokens import Range, Token, position, token_at

Shown = Any
"""A subject as plain data; None where it is not there."""


class Subject(msgspec.Struct, frozen=True):
    """`shown` is what it is at an epoch; `changed_by` is an epoch behind which it is the same.

    The latter comes from the epochs that components, tables and groups carry, so that whoever
    looks for the last change can jump there.
    """

    name: str
    shown: Callable[[ClusterMetadata], Shown]
    changed_by: Callable[[ClusterMetadata], Epoch]


def node(number: int) -> Subject:
    """Everything about a node: its place in the directory, and its tokens."""

    def shown(metadata: ClusterMetadata) -> Shown:
        found = metadata.directory.find(NodeId(number))
        if found is None:
            return None
        tokens = [str(token) for token in metadata.ring.tokens_of(found.id)]
        return {**as_plain(found), "state": found.state.value, "tokens": tokens}

    return Subject(
        f"node {number}",
        shown,
        lambda metadata: max(metadata.directory.epoch, metadata.ring.epoch),
    )


def tokens_of(number: int) -> Subject:
    return Subject(
        f"the tokens of node {number}",
        lambda metadata: [str(token) for token in metadata.ring.tokens_of(NodeId(number))] or None,
        lambda metadata: metadata.ring.epoch,
    )


def token(keyspace: str, place: Token) -> Subject:
    """Who reads and who writes a token."""

    def shown(metadata: ClusterMetadata) -> Shown:
        groups = _groups(metadata, keyspace, place)
        readers, writers = (None if group is None else list(group.owners) for group in groups)
        return None if readers is None else {"readers": readers, "writers": writers}

    def changed_by(metadata: ClusterMetadata) -> Epoch:
        groups = [group for group in _groups(metadata, keyspace, place) if group is not None]
        found = metadata.schema.find(keyspace)
        if not groups or found is None:
            return max(metadata.schema.epoch, metadata.placements.epoch)
        # A keyspace that took another setting may have found its owners there, stamped earlier.
        return max(found.epoch, *(group.epoch for group in groups))

    return Subject(f"token {place} of keyspace {keyspace}", shown, changed_by)


def span(keyspace: str, wanted: Range) -> Subject:
    """Who reads and who writes any token of a range."""

    def shown(metadata: ClusterMetadata) -> Shown:
        placement = _placement(metadata, keyspace)
        if placement is None:
            return None
        sides = {"reads": placement.reads, "writes": placement.writes}
        return {name: _owned(side, wanted) for name, side in sides.items()}

    return Subject(
        f"range {wanted} of keyspace {keyspace}",
        shown,
        lambda metadata: max(metadata.schema.epoch, metadata.placements.epoch),
    )


def keyspace(name: str) -> Subject:
    def shown(metadata: ClusterMetadata) -> Shown:
        found = metadata.schema.find(name)
        return None if found is None else as_plain(found.replication)

    return Subject(f"keyspace {name}", shown, lambda metadata: _keyspace_epoch(metadata, name))


def table(keyspace_name: str, name: str) -> Subject:
    def shown(metadata: ClusterMetadata) -> Shown:
        found = metadata.schema.table(keyspace_name, name)
        return None if found is None else as_plain(found)

    def changed_by(metadata: ClusterMetadata) -> Epoch:
        found = metadata.schema.table(keyspace_name, name)
        return metadata.schema.epoch if found is None else found.epoch

    return Subject(f"table {keyspace_name}.{name}", shown, changed_by)


def extension(name: str) -> Subject:
    def shown(metadata: ClusterMetadata) -> Shown:
        found = metadata.extensions.by_name.get(name)
        # With its epoch: setting the same value again is touching it.
        return None if found is None else {"value": found.value, "epoch": found.epoch}

    def changed_by(metadata: ClusterMetadata) -> Epoch:
        found = metadata.extensions.by_name.get(name)
        return metadata.extensions.epoch if found is None else found.epoch

    return Subject(f"extension {name}", shown, changed_by)


def member(name: str) -> Subject:
    def shown(metadata: ClusterMetadata) -> Shown:
        members = component_view(metadata, "cms")["members"]
        return next((item for item in members if item["name"] == name), None)

    return Subject(f"CMS member {name}", shown, lambda metadata: metadata.cms.epoch)


def _owned(side: ReplicaGroups, wanted: Range) -> list[Shown]:
    """The owners along the range; neighbours with the same owners are one, however they are cut."""
    found: list[Shown] = []
    for part, group in side.overlapping(wanted):
        right = token_at(min(position(part.right), position(wanted.right)))
        if found and found[-1]["owners"] == list(group.owners):
            found.pop()
        found.append({"right": str(right), "owners": list(group.owners)})
    return found


def _keyspace_epoch(metadata: ClusterMetadata, name: str) -> Epoch:
    found = metadata.schema.find(name)
    return metadata.schema.epoch if found is None else found.epoch


def _placement(metadata: ClusterMetadata, keyspace_name: str) -> RingPlacement | None:
    found = metadata.schema.find(keyspace_name)
    return None if found is None else metadata.placements.find(found.replication.key)


def _groups(
    metadata: ClusterMetadata, keyspace_name: str, place: Token
) -> tuple[Group | None, Group | None]:
    placement = _placement(metadata, keyspace_name)
    if placement is None:
        return None, None
    return placement.readers(place), placement.writers(place)
