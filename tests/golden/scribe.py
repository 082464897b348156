"""Writing a log down with ids and times that are the same in every run."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from encoding.entries import Entry, EntryId
from log.chain import seal
from log.entry import SealedEntry
from log.replay import NOTHING_APPLIED, Applied
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from metadata.plans import Step
from tests.builders import accepted, due_step
from transformations.kinds import AnyTransformation, execute
from transformations.outcome import Result

STARTED_AT = 1_750_000_000_000_000
"""Microseconds since 1970: an afternoon in June 2025."""

SECOND = 1_000_000


class Scribe:
    """Commits what it is told, which must be accepted, and keeps the sealed entries."""

    def __init__(self, onto: Applied = NOTHING_APPLIED) -> None:
        self.metadata = onto.metadata
        self.hash = onto.hash
        self.entries: list[SealedEntry] = []

    def commit(
        self,
        transformation: AnyTransformation,
        *,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Result:
        outcome = accepted(execute(transformation, self.metadata))
        entry = Entry(
            cluster=outcome.after.cluster.id,
            epoch=outcome.after.epoch,
            entry_id=entry_id(outcome.after.epoch),
            transformation=transformation,
            result=outcome.result,
            digest=outcome.after.digest,
            actor=actor,
            reason=reason,
            committed_at=STARTED_AT + outcome.after.epoch * SECOND,
            committed_by="cms1",
        )
        sealed = seal(entry, self.hash)
        self.metadata, self.hash = outcome.after, sealed.hash
        self.entries.append(sealed)
        return outcome.result

    def commit_all(self, transformations: Iterable[AnyTransformation]) -> None:
        for transformation in transformations:
            self.commit(transformation)

    def advance(self, sequence: int | None, *, to: Step) -> None:
        """Commit what an honest driver would, up to and with the given step."""
        found = SequenceId(sequence or 0)
        while True:
            running = self.metadata.sequences.in_progress[found]
            step = running.due
            self.commit(due_step(self.metadata, running), actor="driver")
            if step is to:
                break

    @property
    def applied(self) -> Applied:
        return Applied(self.metadata, self.hash)


def entry_id(epoch: Epoch) -> EntryId:
    return EntryId(UUID(int=0x0C0FFEE0_0000_4000_8000_000000000000 + epoch))
