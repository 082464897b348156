"""Giving a node other tokens."""

from __future__ import annotations

from metadata.barriers import Evidence
from metadata.cluster import ClusterMetadata
from metadata.directory import KnownNode, NodeState
from metadata.limits import Sentence
from metadata.locks import SequenceId
from metadata.sequences import Sequence, SequenceKind
from transformations import stepping
from transformations.fields import Nodes, Receipts, SequenceRef, Tokens, Verb
from transformations.guards import unknown_node
from transformations.outcome import Outcome, Reason, Rejected
from transformations.preparing import bad_tokens, busy, prepare, wrong_state


class PrepareMove(Verb, frozen=True):
    """Plan the way from the node's tokens to these, split and reserve the ranges concerned."""

    node: KnownNode
    tokens: Tokens
    dead: Nodes = ()
    accept_loss: Sentence | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        found = metadata.directory.find(self.node)
        if found is None:
            return unknown_node(self.node)
        occupied = busy(metadata, self.node)
        if occupied is not None:
            return occupied
        if found.state is not NodeState.JOINED:
            return wrong_state(self.node, found.state, "only a joined node can move")
        refused = bad_tokens(metadata, self.node, self.tokens)
        if refused is not None:
            return refused
        if self.node in self.dead:
            return Rejected(Reason.WRONG_STATE, f"node {self.node} cannot move if it is dead")

        draft = Sequence(
            id=SequenceId(0),
            kind=SequenceKind.MOVE,
            node=self.node,
            tokens=tuple(sorted(self.tokens)),
            dead=tuple(sorted(set(self.dead))),
            accept_loss=self.accept_loss or "",
        )
        moving = metadata.directory.with_state(self.node, NodeState.MOVING)
        ring = metadata.ring.with_tokens(self.node, self.tokens)
        return prepare(metadata, draft, ring, moving)


class StartMove(Verb, frozen=True):
    """Everybody who gains a range writes it."""

    sequence: SequenceRef
    barrier: Evidence | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        return stepping.start(metadata, SequenceKind.MOVE, self.sequence, self.barrier)


class MidMove(Verb, frozen=True):
    """Everybody who gains a range reads it; those who lose one no longer do."""

    sequence: SequenceRef
    barrier: Evidence | None = None
    receipts: Receipts = ()

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        return stepping.mid(metadata, SequenceKind.MOVE, self.sequence, self.barrier, self.receipts)


class FinishMove(Verb, frozen=True):
    """The node has its new tokens; ranges that ended at the old ones merge."""

    sequence: SequenceRef
    barrier: Evidence | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        return stepping.finish(metadata, SequenceKind.MOVE, self.sequence, self.barrier)
