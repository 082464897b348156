"""Deciding a batch of proposals in memory, in order, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from encoding.entries import EncodeError, Entry, EntryId, proposal_digest
from log.chain import seal
from log.entry import SealedEntry
from log.replay import Applied
from log.store import Committed, Decision, Refusal
from metadata.cluster import ClusterMetadata
from transformations.initialize import Initialize
from transformations.kinds import AnyTransformation, execute
from transformations.outcome import Accepted, Outcome, Reason, Rejected


class Proposal(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A transformation and an entry id, sent but not decided."""

    entry_id: EntryId
    transformation: AnyTransformation
    actor: str | None = None
    reason: str | None = None

    @cached_property
    def digest(self) -> bytes:
        return proposal_digest(self.transformation, self.entry_id)


class Reused(msgspec.Struct, frozen=True, tag=True):
    """The entry id was used before, for something else."""

    entry_id: EntryId


Answer = Committed | Refusal | Reused


class Request(msgspec.Struct, frozen=True):
    """Proposals that came together; `atomic` ones are appended all or not at all."""

    proposals: tuple[Proposal, ...]
    atomic: bool = False


class Stamp(msgspec.Struct, frozen=True):
    """Who commits, and when."""

    committed_by: str
    committed_at: int


class Draft(msgspec.Struct, frozen=True):
    """What a batch comes to if nobody else appends first: one answer for each proposal."""

    entries: list[SealedEntry]
    refusals: list[Refusal]
    answers: list[list[Answer]]
    after: Applied


def drafted(
    requests: Sequence[Request],
    onto: Applied,
    known: Mapping[EntryId, Decision],
    stamp: Stamp,
) -> Draft:
    """Decide every request on top of those before it. Pure but for bugs, which become refusals.

    `known` has the ids of the batch that turned out to be decided already.
    """
    batch = _Batch(onto, known, stamp)
    answers = [batch.take(request) for request in requests]
    return Draft(batch.entries, list(batch.refused.values()), answers, batch.applied)


class _Batch:
    """The batch so far; an atomic request that fails leaves it as it was."""

    def __init__(self, onto: Applied, known: Mapping[EntryId, Decision], stamp: Stamp) -> None:
        self.applied = onto
        self.entries: list[SealedEntry] = []
        self.refused: dict[EntryId, Refusal] = {}
        self._decided: dict[EntryId, Decision] = dict(known)
        self._stamp = stamp

    def take(self, request: Request) -> list[Answer]:
        if not request.atomic:
            return [self._decide(proposal) for proposal in request.proposals]
        applied, count, decided = self.applied, len(self.entries), dict(self._decided)
        answers: list[Answer] = []
        for proposal in request.proposals:
            answer = self._decide(proposal)
            answers.append(answer)
            if not isinstance(answer, Committed):
                self.applied, self._decided = applied, decided
                del self.entries[count:]
                if isinstance(answer, Refusal):
                    self._decided[proposal.entry_id] = answer
                break
        return answers

    def _decide(self, proposal: Proposal) -> Answer:
        earlier = self._decided.get(proposal.entry_id)
        if earlier is not None:
            same = earlier.proposal == proposal.digest
            return earlier if same else Reused(proposal.entry_id)
        transformation = founding(proposal)
        outcome = attempted(transformation, self.applied.metadata)
        if isinstance(outcome, Accepted):
            try:
                return self._accept(proposal, transformation, outcome)
            except EncodeError as error:
                outcome = Rejected(Reason.INTERNAL, str(error))
        return self._refuse(proposal, outcome)

    def _accept(
        self, proposal: Proposal, transformation: AnyTransformation, outcome: Accepted
    ) -> Committed:
        after = outcome.after
        entry = Entry(
            cluster=after.cluster.id,
            epoch=after.epoch,
            entry_id=proposal.entry_id,
            transformation=transformation,
            result=outcome.result,
            digest=after.digest,
            actor=proposal.actor,
            reason=proposal.reason,
            committed_at=self._stamp.committed_at,
            committed_by=self._stamp.committed_by,
        )
        sealed = seal(entry, self.applied.hash)
        committed = Committed(
            entry_id=proposal.entry_id,
            epoch=after.epoch,
            hash=sealed.hash,
            result=outcome.result,
            proposal=sealed.proposal,
        )
        self.applied = Applied(after, sealed.hash)
        self.entries.append(sealed)
        self._decided[proposal.entry_id] = committed
        return committed

    def _refuse(self, proposal: Proposal, rejected: Rejected) -> Refusal:
        refusal = Refusal(
            entry_id=proposal.entry_id,
            epoch=self.applied.metadata.epoch,
            proposal=proposal.digest,
            rejected=rejected,
        )
        self.refused[proposal.entry_id] = refusal
        self._decided[proposal.entry_id] = refusal
        return refusal


def founding(proposal: Proposal) -> AnyTransformation:
    """A cluster is named by the entry that founds it; the client need not know."""
    transformation = proposal.transformation
    if isinstance(transformation, Initialize) and transformation.cluster is None:
        return msgspec.structs.replace(transformation, cluster=str(proposal.entry_id))
    return transformation


def attempted(transformation: AnyTransformation, metadata: ClusterMetadata) -> Outcome:
    """The outcome; a bug in deciding is a refusal, because no proposal may stop a CMS."""
    try:
        return execute(transformation, metadata)
    except Exception as error:  # noqa: BLE001 - rule 3: refused, and reported by the caller
        return Rejected(Reason.INTERNAL, f"the decision failed: {error!r}")
