"""Who is in the cluster, where it stands and how to reach it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, NewType

import immutables
import msgspec
from msgspec import Meta

from metadata.digest import digest_of
from metadata.epoch import EMPTY, Epoch
from metadata.hashed_map import HashedMap
from metadata.limits import ID_MAX, PlaceName

NodeId = NewType("NodeId", int)
"""Given once by the directory, never again, whatever becomes of the node."""


KnownNode = Annotated[NodeId, Meta(ge=1, le=ID_MAX)]


class NodeState(StrEnum):
    REGISTERED = "registered"
    BOOTSTRAPPING = "bootstrapping"
    BOOT_REPLACING = "boot_replacing"
    JOINED = "joined"
    MOVING = "moving"
    LEAVING = "leaving"
    LEFT = "left"


class Location(msgspec.Struct, frozen=True, gc=False):
    datacenter: PlaceName
    rack: PlaceName

    def __str__(self) -> str:
        return f"{self.datacenter}/{self.rack}"


class Node(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What the cluster knows of one node; its tokens are in the ring."""

    id: NodeId
    host_id: str
    addresses: Mapping[str, str]
    location: Location
    version: str
    state: NodeState = NodeState.REGISTERED


class Directory(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All nodes by id, those that left included until they are unregistered.

    `by_address` and `by_host` are indexes of `nodes`: whoever changes one changes all.
    """

    nodes: HashedMap[NodeId, Node] = HashedMap()
    next_node: NodeId = NodeId(1)
    epoch: Epoch = EMPTY
    by_address: immutables.Map[str, NodeId] = immutables.Map()
    by_host: immutables.Map[str, NodeId] = immutables.Map()

    @cached_property
    def digest(self) -> bytes:
        return digest_of(self.nodes.digest, self.next_node, self.epoch)

    def find(self, node: NodeId) -> Node | None:
        return self.nodes.get(node)

    def address_holder(self, addresses: Iterable[str]) -> tuple[str, NodeId] | None:
        """The first of these addresses that some node has, and that node."""
        for address in addresses:
            holder = self.by_address.get(address)
            if holder is not None:
                return address, holder
        return None

    def with_node(self, node: Node) -> Directory:
        """The directory with a node added or changed."""
        before = self.nodes.get(node.id)
        by_address, by_host = self.by_address, self.by_host
        if before is None or before.addresses != node.addresses or before.host_id != node.host_id:
            trimmed = self if before is None else self._without_indexes(before)
            by_host = trimmed.by_host.set(node.host_id, node.id)
            by_address = trimmed.by_address.update(dict.fromkeys(node.addresses.values(), node.id))
        return Directory(
            nodes=self.nodes.with_item(node.id, node),
            next_node=max(self.next_node, NodeId(node.id + 1)),
            epoch=self.epoch,
            by_address=by_address,
            by_host=by_host,
        )

    def with_state(self, node: NodeId, state: NodeState) -> Directory:
        return self.with_node(msgspec.structs.replace(self.nodes[node], state=state))

    def without(self, node: NodeId) -> Directory:
        trimmed = self._without_indexes(self.nodes[node])
        return msgspec.structs.replace(trimmed, nodes=self.nodes.without([node]))

    def _without_indexes(self, node: Node) -> Directory:
        by_address = self.by_address
        for address in set(node.addresses.values()):
            by_address = by_address.delete(address)
        by_host = self.by_host.delete(node.host_id)
        return msgspec.structs.replace(self, by_address=by_address, by_host=by_host)
