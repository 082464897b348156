"""What a node has to commit when it starts: the rule, and the loop that carries it out."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from metadata.cluster import ClusterMetadata
from metadata.directory import Location, NodeId, NodeState
from services.node.identity import Identity
from transformations.directory import Register, Startup, Unregister


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the directory should say of this node."""

    addresses: Mapping[str, str]
    location: Location
    version: str


class Known(msgspec.Struct, frozen=True):
    """The directory says what it should; the node's number is this one."""

    node: NodeId


def next_start(
    identity: Identity, wanted: Wanted, metadata: ClusterMetadata
) -> Register | Startup | Unregister | Known:
    """The next transformation on the way to being known as `wanted`.

    A node that has left comes back as a new one: its old entry goes first, because an address
    belongs to one node at a time. The datacenter and rack of a known node are not its own to
    change, since they decide who owns what.
    """
    node = metadata.directory.by_host.get(identity.host_id)
    if node is None:
        return Register(
            host_id=identity.host_id,
            addresses=dict(wanted.addresses),
            datacenter=wanted.location.datacenter,
            rack=wanted.location.rack,
            version=wanted.version,
        )
    found = metadata.directory.nodes[node]
    if found.state is NodeState.LEFT:
        return Unregister(node=node)
    if (dict(found.addresses), found.version) != (dict(wanted.addresses), wanted.version):
        return Startup(node=node, addresses=dict(wanted.addresses), version=wanted.version)
    return Known(node)
