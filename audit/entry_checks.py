"""What is checked of each entry as it comes: the rules, its id, its time, who committed it."""

from __future__ import annotations

from collections.abc import Iterator

from audit.entry_ids import EntryIds
from audit.findings import Finding, Grade
from audit.people import Deeds, People
from audit.rules import broken
from audit.transition import Transition
from encoding.entries import Entry, EntryId
from metadata.epoch import Epoch

MICROSECONDS = 1_000_000
ENTRY_ID = "entry-id"
"""The rule that no entry id is used twice."""


class Clock:
    """Remembers between which times entries were committed."""

    def __init__(self, latest: int = 0) -> None:
        self.latest = latest
        self.earliest: int | None = None

    def check(self, entry: Entry) -> Iterator[Finding]:
        if entry.committed_at < self.latest:
            back_s = (self.latest - entry.committed_at) / MICROSECONDS
            yield Finding(
                epoch=entry.epoch,
                rule="committed-at",
                grade=Grade.NOTE,
                explanation=f"by its clock it was committed {back_s:.3f} s before an earlier entry",
            )
        self.latest = max(self.latest, entry.committed_at)
        if self.earliest is None or entry.committed_at < self.earliest:
            self.earliest = entry.committed_at


class EntryChecks:
    """Remembers what entries must not repeat or contradict."""

    def __init__(self, key: bytes) -> None:
        """`key` is random, so that nobody can choose entry ids that are taken for one another."""
        self._ids = EntryIds(key)
        self._people = People()
        self._clock = Clock()

    def check(self, transition: Transition) -> Iterator[Finding]:
        entry = transition.entry
        yield from broken(transition)
        if not self._ids.is_new(entry.entry_id):
            yield repeated_id(entry.epoch, entry.entry_id)
        yield from self._clock.check(entry)
        self._people.saw(entry.actor, transition.kind)

    def deeds(self) -> tuple[Deeds, ...]:
        return self._people.deeds()


def repeated_id(epoch: Epoch, entry_id: EntryId) -> Finding:
    return Finding(
        epoch=epoch,
        rule=ENTRY_ID,
        grade=Grade.ERROR,
        explanation=f"an earlier entry has the id {entry_id} too",
    )
