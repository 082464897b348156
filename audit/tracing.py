"""What is wrong with metadata: by each entry as it comes, and all of it now and then.

What only a look at all of it finds is traced back to the epoch where it began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from audit.changed_checks import changed_violations
from audit.findings import Finding, Grade
from audit.history import History
from audit.rules import CONTRADICTIONS
from audit.transition import Transition
from log.entry import SealedEntry
from log.replay import Applied
from metadata.cluster import ClusterMetadata
from metadata.epoch import Epoch
from metadata.invariants import Violation, violations

WHOLE_EVERY_ENTRIES_MIN = 500

Apply = Callable[[SealedEntry, Applied], Applied]
Standing = frozenset[Violation]
NONE_STANDING: Standing = frozenset()


class WholeChecks:
    """Remembers the last check, so that only what is new is told, with the epoch it is from.

    `standing` is what was wrong then, and `checked_at` the epoch, once there was a check. Who is
    `thorough` checks everything at every epoch.
    """

    thorough = False

    def __init__(
        self,
        history: History,
        step: Apply,
        onto: Applied,
        standing: Standing = NONE_STANDING,
    ) -> None:
        self._told: set[Violation] = set()
        self._history = history
        self._step = step
        self._checked = onto
        self.standing = standing
        self.checked_at: Epoch | None = None

    def is_due(self, epoch: Epoch) -> bool:
        """Once as many entries were applied as the metadata had parts.

        A whole check costs some microseconds a part and an entry some more than that, so the
        checks never take longer than the replay.
        """
        if self.thorough:
            return True
        passed = epoch - self._checked.metadata.epoch
        return passed >= WHOLE_EVERY_ENTRIES_MIN and passed >= _parts(self._checked.metadata)

    def begin_at(self, restored: Applied) -> None:
        """The entries before were not applied, so nothing can be traced through them."""
        self._checked = restored
        self._told.clear()

    def check_entry(self, transition: Transition) -> Iterator[Finding]:
        """What this entry broke, also if a later one mends it before all is checked again."""
        found = changed_violations(transition)
        for violation in sorted(found - self.standing - self._told, key=str) if found else ():
            self._told.add(violation)
            yield _finding(violation, transition.epoch)

    def check(self, applied: Applied) -> Iterator[Finding]:
        found = standing(applied.metadata)
        for violation in sorted(found - self.standing - self._told, key=str):
            yield _finding(violation, self._first(violation, applied.metadata.epoch))
        self._checked, self.standing = applied, found
        self._told.clear()
        self.checked_at = applied.metadata.epoch

    def _first(self, violation: Violation, found_at: Epoch) -> Epoch:
        """The epoch since which a violation stands, by halving the way from the last check."""
        low, high = self._checked, found_at
        while high - low.metadata.epoch > 1:
            middle = Epoch((low.metadata.epoch + high) // 2)
            applied = low
            for sealed in self._history.entries(low.metadata.epoch, middle):
                applied = self._step(sealed, applied)
            if violation in standing(applied.metadata):
                high = middle
            else:
                low = applied
        return high


def _finding(violation: Violation, epoch: Epoch) -> Finding:
    return Finding(
        epoch=epoch,
        rule=f"state-{violation.rule}",
        grade=Grade.ERROR,
        explanation=violation.detail,
    )


def standing(metadata: ClusterMetadata) -> Standing:
    """Everything that is wrong with one version, also where that keeps it from being checked."""
    found: list[Violation] = []
    try:
        found.extend(violations(metadata))
    except CONTRADICTIONS as error:
        found.append(Violation("contradiction", f"the metadata contradicts itself: {error!r}"))
    return frozenset(found)


def _parts(metadata: ClusterMetadata) -> int:
    ranges = sum(len(item.reads.places) for item in metadata.placements.placed.values())
    return len(metadata.directory.nodes) + len(metadata.schema.tables) + 2 * ranges
