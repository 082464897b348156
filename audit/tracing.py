"""Checking metadata whole, now and then, and finding where what is wrong with it began."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from audit.findings import Finding, Grade
from audit.history import History
from audit.rules import CONTRADICTIONS
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

    `standing` is what was wrong then, and `checked_at` the epoch, once there was a check.
    """

    def __init__(
        self, history: History, step: Apply, onto: Applied, standing: Standing = NONE_STANDING
    ) -> None:
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
        passed = epoch - self._checked.metadata.epoch
        return passed >= WHOLE_EVERY_ENTRIES_MIN and passed >= _parts(self._checked.metadata)

    def begin_at(self, restored: Applied) -> None:
        """The entries before were not applied, so nothing can be traced through them."""
        self._checked = restored

    def check(self, applied: Applied) -> Iterator[Finding]:
        found = standing(applied.metadata)
        for violation in sorted(found - self.standing, key=str):
            epoch = self._first(violation, applied.metadata.epoch)
            yield Finding(
                epoch=epoch,
                rule=f"state-{violation.rule}",
                grade=Grade.ERROR,
                explanation=violation.detail,
            )
        self._checked, self.standing = applied, found
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
