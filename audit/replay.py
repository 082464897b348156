"""Replaying a history with all rules at every epoch.

Each step is checked by what it changed, and so is the metadata that it led to, so that it costs
about what the replay costs. All of it is checked from scratch at snapshots, at the end, and in
between so rarely that this costs no more than the steps do, or at every epoch for who is thorough;
what is found there is traced back to the epoch that broke it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator

import msgspec

from audit.entry_checks import EntryChecks
from audit.findings import Finding, Findings
from audit.history import History, SnapshotUnusableError, check_epoch, metadata_at
from audit.people import Deeds
from audit.tracing import Apply
from audit.transition import Transition
from audit.walking import Walk
from log.replay import Applied, apply
from metadata.epoch import EMPTY, Epoch

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
    thorough: bool = False,
) -> Report:
    """Every entry behind `after`, executed again and held against the rules.

    `step` is how an entry is applied; a release that decides otherwise is another one.
    """
    end = history.tip.epoch if up_to is None else up_to
    check_epoch(history, end)
    check_epoch(history, after)
    replay = _Replay(history, metadata_at(history, after), progress, step)
    replay.run(end, thorough=thorough)
    return replay.report(after, end)


class _Replay:
    """What a replay has found so far; it is the ledger of its own walk."""

    def __init__(
        self,
        history: History,
        onto: Applied,
        progress: Callable[[Progress], None],
        step: Apply,
    ) -> None:
        self._history = history
        self._progress = progress
        self._entry_checks = EntryChecks(secrets.token_bytes(ENTRY_ID_KEY_BYTES))
        self._findings = Findings()
        self._unchecked: list[Unchecked] = []
        self._walk = Walk(history, onto, self, step)

    def check(self, transition: Transition) -> Iterator[Finding]:
        return self._entry_checks.check(transition)

    def take(self, at: Epoch, findings: Iterable[Finding]) -> None:  # noqa: ARG002 a `Ledger`
        self._findings.take(findings)

    def run(self, end: Epoch, *, thorough: bool) -> None:
        self._walk.whole_checks.thorough = thorough
        self._walk_to(end)
        while self._walk.failed is not None and self._resumes_behind(self._walk.failed, end):
            self._walk_to(end)
        self._walk.finish()
        self._progress(self._now(end))

    def report(self, after: Epoch, end: Epoch) -> Report:
        metadata = self._walk.applied.metadata
        return Report(
            cluster=metadata.cluster.id,
            after=after,
            up_to=end,
            entries=self._walk.entries,
            digest=metadata.digest.hex(),
            findings=tuple(self._findings.kept),
            counts=dict(sorted(self._findings.counts.items())),
            dropped=self._findings.dropped,
            errors=self._findings.errors,
            unchecked=tuple(self._unchecked),
            people=self._entry_checks.deeds(),
        )

    def _walk_to(self, end: Epoch) -> None:
        for _ in self._walk.to(end):
            if self._walk.entries % PROGRESS_EVERY_ENTRIES == 0:
                self._progress(self._now(end))

    def _resumes_behind(self, failed: Epoch, end: Epoch) -> bool:
        """Go on from the first snapshot that can be used; what is before it stays unchecked."""
        restored = first_usable(self._history, failed, end)
        last = end if restored is None else restored.metadata.epoch
        self._unchecked.append(Unchecked(failed, last))
        if restored is None:
            return False
        self._walk.resume(restored)
        return True

    def _now(self, end: Epoch) -> Progress:
        return Progress(self._walk.epoch, end, self._findings.errors)


def first_usable(history: History, first: Epoch, last: Epoch) -> Applied | None:
    """From the first snapshot between these epochs, both included, that can be used."""
    for epoch in history.snapshots():
        if first <= epoch <= last:
            try:
                return history.restored(epoch)
            except SnapshotUnusableError:
                continue
    return None
