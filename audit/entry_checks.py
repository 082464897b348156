"""What is checked of each entry as it comes: the rules, its id, its time, who committed it."""

from __future__ import annotations

from collections.abc import Iterator

from audit.entry_ids import EntryIds
from audit.findings import Finding, Grade
from audit.people import Deeds, People
from audit.rules import broken
from audit.transition import Transition

MICROSECONDS = 1_000_000


class EntryChecks:
    """Remembers what entries must not repeat or contradict."""

    def __init__(self, key: bytes) -> None:
        """`key` is random, so that nobody can choose entry ids that are taken for one another."""
        self._ids = EntryIds(key)
        self._people = People()
        self._committed_at = 0

    def check(self, transition: Transition) -> Iterator[Finding]:
        entry = transition.entry
        yield from broken(transition)
        if not self._ids.is_new(entry.entry_id):
            yield Finding(
                epoch=entry.epoch,
                rule="entry-id",
                grade=Grade.ERROR,
                explanation=f"an earlier entry has the id {entry.entry_id} too",
            )
        if entry.committed_at < self._committed_at:
            back_s = (self._committed_at - entry.committed_at) / MICROSECONDS
            yield Finding(
                epoch=entry.epoch,
                rule="committed-at",
                grade=Grade.NOTE,
                explanation=f"by its clock it was committed {back_s:.3f} s before an earlier entry",
            )
        self._committed_at = max(self._committed_at, entry.committed_at)
        self._people.saw(entry.actor, transition.kind)

    def deeds(self) -> tuple[Deeds, ...]:
        return self._people.deeds()
