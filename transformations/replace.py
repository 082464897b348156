"""Putting one node in the place of another."""

from __future__ import annotations

from metadata.barriers import Evidence
from metadata.cluster import ClusterMetadata
from metadata.directory import KnownNode, NodeState
from metadata.limits import Sentence
from metadata.locks import SequenceId
from metadata.sequences import Sequence, SequenceKind
from transformations import stepping
from transformations.fields import Nodes, Receipts, SequenceRef, Verb
from transformations.guards import unknown_node
from transformations.outcome import Outcome, Reason, Rejected
from transformations.preparing import busy, prepare, wrong_state


class PrepareReplace(Verb, frozen=True):
    """Plan how a registered node takes the tokens of a joined one, and reserve the ranges.

    A replaced node that is not among `dead` still votes and is a source.
    """

    node: KnownNode
    replaced: KnownNode
    dead: Nodes = ()
    accept_loss: Sentence | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        refused = self._refusal(metadata)
        if refused is not None:
            return refused

        tokens = metadata.ring.tokens_of(self.replaced)
        draft = Sequence(
            id=SequenceId(0),
            kind=SequenceKind.REPLACE,
            node=self.node,
            replaced=self.replaced,
            tokens=tokens,
            dead=tuple(sorted(set(self.dead))),
            accept_loss=self.accept_loss or "",
        )
        ring = metadata.ring.without(self.replaced).with_tokens(self.node, tokens)
        return prepare(metadata, draft, ring)

    def _refusal(self, metadata: ClusterMetadata) -> Rejected | None:
        node = metadata.directory.find(self.node)
        replaced = metadata.directory.find(self.replaced)
        if node is None or replaced is None:
            return unknown_node(self.node if node is None else self.replaced)
        occupied = busy(metadata, self.node) or busy(metadata, self.replaced)
        if occupied is not None:
            return occupied
        if node.state is not NodeState.REGISTERED:
            return wrong_state(self.node, node.state, "only a registered node can replace another")
        if replaced.state is not NodeState.JOINED:
            return wrong_state(self.replaced, replaced.state, "only a joined node can be replaced")
        if self.node in self.dead:
            return Rejected(Reason.WRONG_STATE, f"node {self.node} cannot replace if it is dead")
        return None


class StartReplace(Verb, frozen=True):
    """The new node writes what the old one owns."""

    sequence: SequenceRef
    barrier: Evidence | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        return stepping.start(metadata, SequenceKind.REPLACE, self.sequence, self.barrier)


class MidReplace(Verb, frozen=True):
    """The new node reads; the old one no longer does."""

    sequence: SequenceRef
    barrier: Evidence | None = None
    receipts: Receipts = ()

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        return stepping.mid(
            metadata, SequenceKind.REPLACE, self.sequence, self.barrier, self.receipts
        )


class FinishReplace(Verb, frozen=True):
    """The tokens are the new node's; the old one has left."""

    sequence: SequenceRef
    barrier: Evidence | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        return stepping.finish(metadata, SequenceKind.REPLACE, self.sequence, self.barrier)
