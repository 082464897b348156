"""Ending a sequence of any kind: cancel it, or retire it."""

from __future__ import annotations

from metadata.barriers import Evidence
from metadata.cluster import ClusterMetadata
from metadata.plans import Step
from transformations import stepping
from transformations.fields import Nodes, SequenceRef, Verb
from transformations.guards import first_unknown
from transformations.outcome import Outcome, Reason, Rejected


class CancelSequence(Verb, frozen=True):
    """Turn back, from any step before FINISH.

    `dead` names nodes that will not answer any more, so that retiring need not wait for them. One
    that dies after the cancel is named by another one.
    """

    sequence: SequenceRef
    barrier: Evidence | None = None
    dead: Nodes = ()

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        found = stepping.find_due(metadata, self.sequence, None, Step.CANCEL)
        if isinstance(found, Rejected) and self._adds_dead(metadata):
            found = metadata.sequences.in_progress[self.sequence]
        if isinstance(found, Rejected):
            return found
        unknown = first_unknown(metadata, self.dead)
        if unknown is not None:
            return unknown
        return stepping.cancel(metadata, found, self.barrier, self.dead)

    def _adds_dead(self, metadata: ClusterMetadata) -> bool:
        """Whether the sequence is cancelled already, and waits for a node that is named here."""
        found = metadata.sequences.find(self.sequence)
        return found is not None and found.cancelled and not set(self.dead) <= set(found.dead)


class RetireSequence(Verb, frozen=True):
    """Release the ranges of a sequence that finished or was cancelled.

    `dead` names nodes that will not answer any more, as CancelSequence does: the others give the
    evidence. After FINISH nothing else could end a sequence that waits for them.
    """

    sequence: SequenceRef
    barrier: Evidence | None = None
    dead: Nodes = ()

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        found = stepping.find_due(metadata, self.sequence, None, Step.RETIRE)
        if isinstance(found, Rejected):
            return found
        refused = first_unknown(metadata, self.dead) or self._alive()
        if refused is not None:
            return refused
        return stepping.retire(metadata, found, self.barrier, self.dead)

    def _alive(self) -> Rejected | None:
        """Whoever has applied the step before has answered."""
        applied = () if self.barrier is None else self.barrier.applied
        both = sorted({*self.dead} & {*applied})
        if not both:
            return None
        return Rejected(
            Reason.WRONG_STATE,
            f"nodes {both} are declared dead, and are among those that have applied the step",
            "declare only nodes dead that do not answer any more",
            sequence=self.sequence,
            step=Step.RETIRE,
        )
