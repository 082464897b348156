"""Replaying a history with all rules at every epoch.

Each step is checked by what it changed, so that it costs about what the replay costs. The whole
metadata is checked from scratch at snapshots, at the end, and in between so rarely that this
costs no more than the steps do; what is found there is traced back to the epoch that broke it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec

from audit.entry_checks import EntryChecks
from audit.errors import ArchiveError
from audit.findings import Finding, Findings, Grade
from audit.history import History, SnapshotUnusableError, check_epoch, metadata_at
from audit.people import Deeds
from audit.rules_sequences import unfinished
from audit.tracing import Apply, WholeChecks
from audit.transition import Transition
from log.entry import SealedEntry
from log.replay import Applied, ReplayError, apply
from metadata.epoch import EMPTY, Epoch, following

PROGRESS_EVERY_ENTRIES = 1_000
ENTRY_ID_KEY_BYTES = 16


class Progress(msgspec.Struct, frozen=True):
    """How far a replay is; one that begins `after` this epoch goes on from here."""

    epoch: Epoch
    up_to: Epoch
    errors: int


class Unchecked(msgspec.Struct, frozen=True):
    """Epochs that no replay could reach: from the one that failed to the next snapshot."""

    first: Epoch
    last: Epoch


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay came to. `counts` has every finding by rule, `findings` the first of each."""

    cluster: str
    after: Epoch
    up_to: Epoch
    entries: int
    digest: str
    findings: tuple[Finding, ...]
    counts: dict[str, int]
    dropped: int
    errors: int
    unchecked: tuple[Unchecked, ...]
    people: tuple[Deeds, ...]

    @property
    def holds(self) -> bool:
        return not self.errors


def audited(
    history: History,
    *,
    after: Epoch = EMPTY,
    up_to: Epoch | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    step: Apply = apply,
) -> Report:
    """Every entry behind `after`, executed again and held against the rules.

    `step` is how an entry is applied; a release that decides otherwise is another one.
    """
    end = history.tip.epoch if up_to is None else up_to
    check_epoch(history, end)
    check_epoch(history, after)
    replay = _Replay(history, metadata_at(history, after), progress, step)
    replay.run(end)
    return replay.report(after, end)


class _Replay:
    """Where the replay is, and what it has found so far."""

    def __init__(
        self, history: History, onto: Applied, progress: Callable[[Progress], None], step: Apply
    ) -> None:
        self._history = history
        self._snapshots = frozenset(history.snapshots())
        self._progress = progress
        self._step = step
        self._applied = onto
        self._entry_checks = EntryChecks(secrets.token_bytes(ENTRY_ID_KEY_BYTES))
        self._whole_checks = WholeChecks(history, step, onto)
        self._findings = Findings()
        self._entries = 0
        self._unchecked: list[Unchecked] = []

    def run(self, end: Epoch) -> None:
        failed = self._run_to(end)
        while failed is not None and self._resumes_behind(failed, end):
            failed = self._run_to(end)
        self._findings.take(self._whole_checks.check(self._applied))
        for explanation in unfinished(self._applied.metadata):
            self._found("unfinished", explanation, Grade.NOTE)
        self._progress(self._now(end))

    def report(self, after: Epoch, end: Epoch) -> Report:
        metadata = self._applied.metadata
        return Report(
            cluster=metadata.cluster.id,
            after=after,
            up_to=end,
            entries=self._entries,
            digest=metadata.digest.hex(),
            findings=tuple(self._findings.kept),
            counts=dict(sorted(self._findings.counts.items())),
            dropped=self._findings.dropped,
            errors=self._findings.errors,
            unchecked=tuple(self._unchecked),
            people=self._entry_checks.deeds(),
        )

    def _run_to(self, end: Epoch) -> Epoch | None:
        """The epoch that could not be applied, if there is one."""
        try:
            for sealed in self._history.entries(self._applied.metadata.epoch, end):
                self._take(sealed)
                if self._entries % PROGRESS_EVERY_ENTRIES == 0:
                    self._progress(self._now(end))
        except ReplayError as error:
            return self._failed(error.fault)
        except ArchiveError as error:
            return self._failed(str(error))
        return None if self._applied.metadata.epoch >= end else self._failed("it is missing")

    def _take(self, sealed: SealedEntry) -> None:
        before, self._applied = self._applied, self._step(sealed, self._applied)
        metadata = self._applied.metadata
        transition = Transition(before.metadata, sealed.entry, metadata)
        self._findings.take(self._entry_checks.check(transition))
        self._entries += 1
        is_snapshot = metadata.epoch in self._snapshots
        if is_snapshot:
            self._check_snapshot(metadata.epoch)
        if is_snapshot or self._whole_checks.is_due(metadata.epoch):
            self._findings.take(self._whole_checks.check(self._applied))

    def _failed(self, fault: str) -> Epoch:
        epoch = following(self._applied.metadata.epoch)
        finding = Finding(epoch=epoch, rule="replay", grade=Grade.ERROR, explanation=fault)
        self._findings.take([finding])
        return epoch

    def _resumes_behind(self, failed: Epoch, end: Epoch) -> bool:
        """Go on from the first snapshot that can be used; what is before it stays unchecked."""
        for epoch in sorted(self._snapshots):
            if failed <= epoch <= end:
                try:
                    self._applied = self._history.restored(epoch)
                except SnapshotUnusableError:
                    continue
                self._whole_checks.begin_at(self._applied)
                self._unchecked.append(Unchecked(failed, epoch))
                return True
        self._unchecked.append(Unchecked(failed, end))
        return False

    def _check_snapshot(self, epoch: Epoch) -> None:
        try:
            stored = self._history.restored(epoch)
        except SnapshotUnusableError as error:
            self._found("snapshot", error.fault)
            return
        if stored.metadata.digest != self._applied.metadata.digest:
            self._found("snapshot", "the snapshot has another digest than the entries lead to")

    def _found(self, rule: str, explanation: str, grade: Grade = Grade.ERROR) -> None:
        epoch = self._applied.metadata.epoch
        finding = Finding(epoch=epoch, rule=rule, grade=grade, explanation=explanation)
        self._findings.take([finding])

    def _now(self, end: Epoch) -> Progress:
        return Progress(self._applied.metadata.epoch, end, self._findings.errors)
