"""Taking a node out of the ring, one barrier at a time."""

from __future__ import annotations

from typing import assert_never

from metadata.barriers import Evidence
from metadata.cluster import ClusterMetadata
from metadata.directory import KnownNode, NodeId, NodeState
from metadata.limits import Sentence
from metadata.locks import SequenceId
from metadata.schema import Keyspace, Network, Simple
from metadata.sequences import Sequence, SequenceKind
from transformations import stepping
from transformations.fields import Nodes, Receipts, SequenceRef, Verb
from transformations.guards import unknown_node
from transformations.interference import pending
from transformations.outcome import Outcome, Reason, Rejected
from transformations.preparing import at_once, busy, prepare, wrong_state


class PrepareLeave(Verb, frozen=True):
    """Plan who takes over what a node owns, and reserve those ranges.

    With the node itself among `dead` it is a removal: the node has no vote and is no source.
    """

    node: KnownNode
    force: bool = False
    dead: Nodes = ()
    accept_loss: Sentence | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        refused = leave_refused(metadata, self.node)
        if refused is None and not self.force:
            refused = too_few_replicas(metadata, self.node)
        if refused is not None:
            return refused

        draft = Sequence(
            id=SequenceId(0),
            kind=SequenceKind.LEAVE,
            node=self.node,
            dead=tuple(sorted(set(self.dead))),
            accept_loss=self.accept_loss or "",
        )
        return prepare(metadata, draft, metadata.ring.without(self.node))


class StartLeave(Verb, frozen=True):
    """Those who take over write too."""

    sequence: SequenceRef
    barrier: Evidence | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        return stepping.start(metadata, SequenceKind.LEAVE, self.sequence, self.barrier)


class MidLeave(Verb, frozen=True):
    """Those who take over read; the node no longer does."""

    sequence: SequenceRef
    barrier: Evidence | None = None
    receipts: Receipts = ()

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        return stepping.mid(
            metadata, SequenceKind.LEAVE, self.sequence, self.barrier, self.receipts
        )


class FinishLeave(Verb, frozen=True):
    """The node owns nothing any more."""

    sequence: SequenceRef
    barrier: Evidence | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        return stepping.finish(metadata, SequenceKind.LEAVE, self.sequence, self.barrier)


class Assassinate(Verb, frozen=True):
    """Declare a node gone in one epoch. Nothing is copied, and no replica count is kept."""

    node: KnownNode
    accept_loss: Sentence | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        refused = leave_refused(metadata, self.node)
        if refused is not None:
            return refused

        directory = metadata.directory.with_state(self.node, NodeState.LEFT)
        return at_once(metadata, metadata.ring.without(self.node), directory, self.accept_loss)


def leave_refused(metadata: ClusterMetadata, node: NodeId) -> Rejected | None:
    found = metadata.directory.find(node)
    if found is None:
        return unknown_node(node)
    occupied = busy(metadata, node)
    if occupied is not None:
        return occupied
    if found.state is not NodeState.JOINED:
        return wrong_state(node, found.state, "only a joined node can leave")
    return None


def too_few_replicas(metadata: ClusterMetadata, node: NodeId) -> Rejected | None:
    """Refuse a leave after which some keyspace has fewer nodes than replicas.

    Nodes whose leave is under way count as gone: two leaves that are fine one by one may
    together be one too many.
    """
    leaving = {item.node for item in pending(metadata) if item.kind is SequenceKind.LEAVE}
    for keyspace in metadata.schema.keyspaces.values():
        factor, present = _replicas(metadata, keyspace, node)
        staying = len(present - leaving)
        if staying <= factor:
            return Rejected(
                Reason.TOO_FEW_REPLICAS,
                f"keyspace {keyspace.name} wants {factor} replicas and {staying - 1} nodes "
                "would be left",
                "join another node first, lower the replication, or leave with force",
            )
    return None


def _replicas(
    metadata: ClusterMetadata, keyspace: Keyspace, node: NodeId
) -> tuple[int, set[NodeId]]:
    """How many replicas the keyspace wants where the node is, and the nodes at rest there."""
    nodes = metadata.directory.nodes
    joined = {other for other in nodes if nodes[other].state is NodeState.JOINED}
    match keyspace.replication:
        case Simple(factor=factor):
            return factor, joined
        case Network(factors=factors):
            here = nodes[node].location.datacenter
            near = {other for other in joined if nodes[other].location.datacenter == here}
            return factors.get(here, 0), near
        case unreachable:
            assert_never(unreachable)
