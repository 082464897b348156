"""Nodes that come to be known, change their address or place, and are forgotten."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from metadata.cluster import ClusterMetadata
from metadata.directory import KnownNode, Location, Node, NodeId, NodeState
from metadata.limits import NODES_LISTED_MAX, Addresses, Label, PlaceName
from metadata.ring import Ring
from metadata.schema import Replication
from metadata.strategies import all_owners, zones_of
from transformations.fields import Verb
from transformations.guards import locked, unknown_node
from transformations.outcome import Accepted, Outcome, Reason, Rejected, Result
from transformations.planning import replications_in_use


class Register(Verb, frozen=True):
    """Make a node known. It owns nothing until it joins."""

    host_id: Label
    addresses: Addresses
    datacenter: PlaceName
    rack: PlaceName
    version: Label

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        directory = metadata.directory
        holder = directory.by_host.get(self.host_id)
        if holder is not None:
            return _host_taken(metadata, self.host_id, holder)
        taken = directory.address_holder(sorted(set(self.addresses.values())))
        if taken is not None:
            return _address_taken(metadata, *taken)

        node = Node(
            id=directory.next_node,
            host_id=self.host_id,
            addresses=self.addresses,
            location=Location(self.datacenter, self.rack),
            version=self.version,
        )
        after = metadata.successor(directory=directory.with_node(node))
        return Accepted(after=after, result=Result(node=node.id))


class Startup(Verb, frozen=True):
    """A known node has started, perhaps elsewhere or with another version.

    Addresses are attributes: they may change at any time, also while a sequence moves the node.
    """

    node: KnownNode
    addresses: Addresses
    version: Label

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        found = metadata.directory.find(self.node)
        if found is None:
            return unknown_node(self.node)
        if found.state is NodeState.LEFT:
            return Rejected(
                Reason.WRONG_STATE,
                f"node {self.node} has left the cluster",
                f"unregister node {self.node}, then register it as a new one",
            )
        others = sorted(set(self.addresses.values()) - set(found.addresses.values()))
        taken = metadata.directory.address_holder(others)
        if taken is not None:
            return _address_taken(metadata, *taken)

        node = msgspec.structs.replace(found, addresses=self.addresses, version=self.version)
        return Accepted(after=metadata.successor(directory=metadata.directory.with_node(node)))


_UNREGISTER_HINTS = {
    NodeState.BOOTSTRAPPING: "cancel and retire the sequence that joins it",
    NodeState.BOOT_REPLACING: "cancel and retire the sequence in which it replaces another",
    NodeState.JOINED: "let it leave first",
    NodeState.MOVING: "finish or cancel its move, then let it leave",
    NodeState.LEAVING: "let its leave finish",
}


class Unregister(Verb, frozen=True):
    """Forget a node that owns nothing. Its number is never used again."""

    node: KnownNode

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        found = metadata.directory.find(self.node)
        if found is None:
            return unknown_node(self.node)
        hint = _UNREGISTER_HINTS.get(found.state)
        if hint is not None:
            return Rejected(Reason.WRONG_STATE, f"node {self.node} is {found.state}", hint)
        sequence = metadata.sequences.of_node(self.node)
        if sequence is not None:
            return Rejected(
                Reason.SEQUENCE_IN_PROGRESS,
                f"sequence {sequence.id} ({sequence.kind}) still concerns node {self.node}",
                f"retire sequence {sequence.id}",
                sequence=sequence.id,
                step=sequence.due,
            )

        return Accepted(after=metadata.successor(directory=metadata.directory.without(self.node)))


class AlterTopology(Verb, frozen=True):
    """Correct the datacenter or rack of nodes, where that moves no data."""

    locations: Annotated[dict[KnownNode, Location], Meta(min_length=1, max_length=NODES_LISTED_MAX)]

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        for node in sorted(self.locations):
            if metadata.directory.find(node) is None:
                return unknown_node(node)
        held = locked(metadata, "the places of nodes cannot change")
        if held is not None:
            return held
        for replication in replications_in_use(metadata).values():
            refused = self._refusal(metadata, replication)
            if refused is not None:
                return refused

        directory = metadata.directory
        for node, location in sorted(self.locations.items()):
            moved = msgspec.structs.replace(directory.nodes[node], location=location)
            directory = directory.with_node(moved)
        return Accepted(after=metadata.successor(directory=directory))

    def _refusal(self, metadata: ClusterMetadata, replication: Replication) -> Rejected | None:
        now = metadata.locations()
        then = {**now, **self.locations}
        ring: Ring = metadata.ring
        before = all_owners(zones_of(replication, ring, now), ring)
        after = all_owners(zones_of(replication, ring, then), ring)
        if before == after:
            return None
        return Rejected(
            Reason.PLACEMENT_CHANGES,
            f"other nodes would own ranges of {replication.key}",
            "let the nodes leave and join again in their new place",
        )


def _address_taken(metadata: ClusterMetadata, address: str, holder: NodeId) -> Rejected:
    return Rejected(
        Reason.ADDRESS_TAKEN,
        f"address {address} belongs to node {holder}",
        _how_to_free(metadata, holder),
    )


def _host_taken(metadata: ClusterMetadata, host_id: str, holder: NodeId) -> Rejected:
    return Rejected(
        Reason.HOST_ID_TAKEN,
        f"host id {host_id} belongs to node {holder}",
        _how_to_free(metadata, holder),
    )


def _how_to_free(metadata: ClusterMetadata, holder: NodeId) -> str:
    state = metadata.directory.nodes[holder].state
    if state in (NodeState.LEFT, NodeState.REGISTERED):
        return f"unregister node {holder}"
    return f"start it up as node {holder}, or replace node {holder} from another address"
