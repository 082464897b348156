"""Walking through a history entry by entry, with every check that an audit makes on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol

from audit.errors import ArchiveError
from audit.findings import Finding, Grade
from audit.history import History, SnapshotUnusableError
from audit.rules_sequences import unfinished
from audit.tracing import NONE_STANDING, Apply, Standing, WholeChecks
from audit.transition import Transition
from log.entry import SealedEntry
from log.replay import Applied, ReplayError, apply
from metadata.epoch import Epoch, following

UNFINISHED = "unfinished"
REPLAY = "replay"
"""The rule that an entry breaks which cannot be applied."""


class Ledger(Protocol):
    """Whoever walks brings one: it checks each entry and keeps what is found."""

    def check(self, transition: Transition) -> Iterable[Finding]: ...

    def take(self, at: Epoch, findings: Iterable[Finding]) -> None:
        """`at` is how far the walk was; findings may be about earlier epochs."""
        ...


class Walk:
    """Where a replay is. `failed` is the epoch that could not be applied, if there is one.

    `snapshot_held` tells of the last snapshot that the walk came through whether another walk
    could have begun there.
    """

    entries = 0
    failed: Epoch | None = None
    snapshot_held = False
    _is_restored = False

    def __init__(
        self,
        history: History,
        onto: Applied,
        ledger: Ledger,
        step: Apply = apply,
        standing: Standing = NONE_STANDING,
    ) -> None:
        self.applied = onto
        self.whole_checks = WholeChecks(history, step, onto, standing)
        self._history = history
        self._ledger = ledger
        self._step = step
        self._snapshots = frozenset(history.snapshots())

    @property
    def epoch(self) -> Epoch:
        return self.applied.metadata.epoch

    def to(self, end: Epoch) -> Iterator[Epoch]:
        """Each epoch as it was applied; whoever stops asking stops the walk there."""
        self.failed = None
        try:
            for sealed in self._ahead(end):
                self._take(sealed)
                yield self.epoch
        except ReplayError as error:
            self._fails(error.fault)
        except ArchiveError as error:
            self._fails(str(error))
        else:
            if self.epoch < end:
                self._fails("it is missing")

    def resume(self, restored: Applied) -> None:
        """Go on from a snapshot."""
        self.applied = restored
        self._is_restored = True
        self.whole_checks.begin_at(restored)

    def finish(self) -> None:
        """What can only be said at the end."""
        at = self.epoch if self.failed is None else self.failed
        self._ledger.take(at, self.whole_checks.check(self.applied))
        for explanation in unfinished(self.applied.metadata):
            self._found(UNFINISHED, explanation, Grade.NOTE, at=at)

    def _ahead(self, end: Epoch) -> Iterator[SealedEntry]:
        if not self._is_restored:
            return self._history.entries(self.epoch, end)
        # The snapshot's own entry is read again, so that a reader holds the next one against it
        # and says of it what it would have said in passing.
        return islice(self._history.entries(Epoch(self.epoch - 1), end), 1, None)

    def _take(self, sealed: SealedEntry) -> None:
        before, self.applied = self.applied, self._step(sealed, self.applied)
        metadata = self.applied.metadata
        transition = Transition(before.metadata, sealed.entry, metadata)
        self._ledger.take(metadata.epoch, self._ledger.check(transition))
        self._ledger.take(metadata.epoch, self.whole_checks.check_entry(transition))
        self.entries += 1
        is_snapshot = metadata.epoch in self._snapshots
        if is_snapshot:
            self.snapshot_held = self._check_snapshot()
        if is_snapshot or self.whole_checks.is_due(metadata.epoch):
            self._ledger.take(metadata.epoch, self.whole_checks.check(self.applied))

    def _check_snapshot(self) -> bool:
        try:
            stored = self._history.restored(self.epoch)
        except SnapshotUnusableError as error:
            self._found("snapshot", error.fault, at=self.epoch)
            return False
        if stored.metadata.digest != self.applied.metadata.digest:
            fault = "the snapshot has another digest than the entries lead to"
            self._found("snapshot", fault, at=self.epoch)
        return True

    def _fails(self, fault: str) -> None:
        self.failed = following(self.epoch)
        finding = Finding(epoch=self.failed, rule=REPLAY, grade=Grade.ERROR, explanation=fault)
        self._ledger.take(self.failed, [finding])

    def _found(self, rule: str, explanation: str, grade: Grade = Grade.ERROR, *, at: Epoch) -> None:
        finding = Finding(epoch=self.epoch, rule=rule, grade=grade, explanation=explanation)
        self._ledger.take(at, [finding])
