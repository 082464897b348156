"""Bringing a node into the ring."""

from __future__ import annotations

from metadata.barriers import Evidence
from metadata.cluster import ClusterMetadata
from metadata.directory import KnownNode, NodeId, NodeState
from metadata.limits import Sentence
from metadata.locks import SequenceId
from metadata.sequences import Sequence, SequenceKind
from metadata.tokens import Token
from transformations import stepping
from transformations.fields import Nodes, Receipts, SequenceRef, Tokens, Verb
from transformations.guards import unknown_node
from transformations.outcome import Outcome, Reason, Rejected
from transformations.preparing import at_once, bad_tokens, busy, prepare, wrong_state

JOINABLE = (NodeState.REGISTERED, NodeState.LEFT)


class PrepareJoin(Verb, frozen=True):
    """Plan how a node takes ranges over, split them at its tokens and reserve them."""

    node: KnownNode
    tokens: Tokens
    dead: Nodes = ()
    accept_loss: Sentence | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        refused = join_refused(metadata, self.node, self.tokens)
        if refused is not None:
            return refused
        if self.node in self.dead:
            return Rejected(Reason.WRONG_STATE, f"node {self.node} cannot join if it is dead")

        draft = Sequence(
            id=SequenceId(0),
            kind=SequenceKind.JOIN,
            node=self.node,
            tokens=tuple(sorted(self.tokens)),
            dead=tuple(sorted(set(self.dead))),
            accept_loss=self.accept_loss or "",
        )
        return prepare(metadata, draft, metadata.ring.with_tokens(self.node, self.tokens))


class StartJoin(Verb, frozen=True):
    """The node writes what it will own."""

    sequence: SequenceRef
    barrier: Evidence | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        return stepping.start(metadata, SequenceKind.JOIN, self.sequence, self.barrier)


class MidJoin(Verb, frozen=True):
    """The node reads what it will own; those whose place it takes no longer do."""

    sequence: SequenceRef
    barrier: Evidence | None = None
    receipts: Receipts = ()

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        return stepping.mid(metadata, SequenceKind.JOIN, self.sequence, self.barrier, self.receipts)


class FinishJoin(Verb, frozen=True):
    """The tokens are the node's; those whose place it takes no longer write."""

    sequence: SequenceRef
    barrier: Evidence | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        return stepping.finish(metadata, SequenceKind.JOIN, self.sequence, self.barrier)


class UnsafeJoin(Verb, frozen=True):
    """Take ownership in one epoch: for first nodes and tests. Nothing is copied."""

    node: KnownNode
    tokens: Tokens
    accept_loss: Sentence | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        refused = join_refused(metadata, self.node, self.tokens)
        if refused is not None:
            return refused
        ring = metadata.ring.with_tokens(self.node, self.tokens)
        directory = metadata.directory.with_state(self.node, NodeState.JOINED)
        return at_once(metadata, ring, directory, self.accept_loss)


def join_refused(
    metadata: ClusterMetadata, node: NodeId, tokens: tuple[Token, ...]
) -> Rejected | None:
    found = metadata.directory.find(node)
    if found is None:
        return unknown_node(node)
    occupied = busy(metadata, node)
    if occupied is not None:
        return occupied
    if found.state not in JOINABLE:
        return wrong_state(node, found.state, "only a registered node can join")
    return bad_tokens(metadata, node, tokens)
