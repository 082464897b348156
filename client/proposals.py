"""What a client proposes, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import msgspec

from client.answers import BatchAnswer, CommitAnswer, Committed, Outcome, Problem
from client.entries import verified
from client.errors import AnswerError
from encoding.entries import EntryId
from encoding.json import transformation_json
from log.entry import SealedEntry
from metadata.epoch import Epoch
from transformations.kinds import AnyTransformation

Proposable = AnyTransformation | Mapping[str, Any]
"""A transformation, or its JSON form: an object with `kind`."""

UNDECIDED = frozenset({429, 502, 503, 504})
"""Statuses that decide nothing: the same again, with the same entry id, is in order."""


def new_entry_id() -> EntryId:
    return EntryId(uuid4())


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A transformation under an entry id, which makes sending it again harmless."""

    transformation: Proposable
    entry_id: EntryId = msgspec.field(default_factory=new_entry_id)
    actor: str | None = None
    reason: str | None = None
    last_known: Epoch | None = None


def commit_body(proposal: Proposal) -> bytes:
    return msgspec.json.encode(_plain(proposal))


def batch_body(proposals: Sequence[Proposal], *, atomic: bool) -> bytes:
    commits = [_plain(proposal) for proposal in proposals]
    return msgspec.json.encode({"commits": commits, "atomic": atomic})


def committed_in(body: bytes | msgspec.Raw, proposal: Proposal) -> Committed:
    """The answer to a commit that was made."""
    try:
        answer = msgspec.json.decode(body, type=CommitAnswer)
        found_hash = bytes.fromhex(answer.hash)
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"The answer to a commit cannot be read: {error}.") from error
    if answer.entry_id != proposal.entry_id:
        raise AnswerError(f"The answer is to {answer.entry_id}, not to {proposal.entry_id}.")
    return Committed(
        epoch=answer.epoch,
        entry_id=answer.entry_id,
        result=answer.result,
        hash=found_hash,
        entries=_missed(answer, proposal),
    )


def outcomes_in(body: bytes, proposals: Sequence[Proposal]) -> list[Outcome | None]:
    """The outcome of each proposal of a batch; None where it has to be sent again."""
    try:
        answer = msgspec.json.decode(body, type=BatchAnswer)
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"The answer to a batch cannot be read: {error}.") from error
    if len(answer.outcomes) != len(proposals):
        raise AnswerError(f"{len(proposals)} were sent and {len(answer.outcomes)} are answered.")
    return [
        _outcome(raw, proposal) for raw, proposal in zip(answer.outcomes, proposals, strict=True)
    ]


def problem_in(body: bytes | msgspec.Raw, status: int) -> Problem:
    """A problem document; whatever else an intermediary says keeps at least its status."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except (ValueError, RecursionError):
        return Problem(status=status)
    return problem if problem.status else msgspec.structs.replace(problem, status=status)


def _outcome(raw: msgspec.Raw, proposal: Proposal) -> Outcome | None:
    problem = problem_in(raw, 0)
    if not problem.code:
        return committed_in(raw, proposal)
    return None if problem.status in UNDECIDED else problem.as_rejected()


def _missed(answer: CommitAnswer, proposal: Proposal) -> tuple[SealedEntry, ...]:
    if proposal.last_known is None:
        return ()
    return tuple(verified(answer.entries, after=proposal.last_known, after_hash=None))


def _plain(proposal: Proposal) -> dict[str, Any]:
    transformation = proposal.transformation
    plain = {
        "entry_id": str(proposal.entry_id),
        "transformation": transformation
        if isinstance(transformation, Mapping)
        else transformation_json(transformation),
        "last_known": proposal.last_known,
        "actor": proposal.actor,
        "reason": proposal.reason,
    }
    return {name: value for name, value in plain.items() if value is not None}
