"""Which entry last touched something, by whom and why."""

from __future__ import annotations

import msgspec

from audit.history import History, metadata_at, nearest_snapshot
from audit.subjects import Shown, Subject
from encoding.entries import Entry
from log.entry import SealedEntry
from log.replay import Applied, apply
from metadata.epoch import EMPTY, Epoch


class Blamed(msgspec.Struct, frozen=True, kw_only=True):
    """The entry, and the subject on both sides of it."""

    subject: str
    entry: Entry
    before: Shown
    after: Shown


def blamed(history: History, subject: Subject, at: Epoch) -> Blamed | None:
    """The last entry up to `at` that changed the subject; none if nothing ever did.

    Versions say when each part last changed, so only the stretches are replayed in which the
    subject may have changed: from the snapshot before that epoch up to it.
    """
    applied = metadata_at(history, at)
    while True:
        changed_by = subject.changed_by(applied.metadata)
        if changed_by == EMPTY:
            return None
        base = nearest_snapshot(history, Epoch(changed_by - 1))
        found = _last_change(history, subject, base, changed_by)
        if found is not None or base.metadata.epoch == EMPTY:
            return found
        applied = base


def _last_change(history: History, subject: Subject, base: Applied, up_to: Epoch) -> Blamed | None:
    last: tuple[SealedEntry, Shown, Shown] | None = None
    applied, shown = base, subject.shown(base.metadata)
    for sealed in history.entries(base.metadata.epoch, up_to):
        applied = apply(sealed, applied)
        before, shown = shown, subject.shown(applied.metadata)
        if before != shown:
            last = (sealed, before, shown)
    if last is None:
        return None
    sealed, before, after = last
    return Blamed(subject=subject.name, entry=sealed.entry, before=before, after=after)


def entry_at(history: History, epoch: Epoch) -> SealedEntry:
    return next(iter(history.entries(Epoch(epoch - 1), epoch)))
