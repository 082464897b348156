"""Exporting a log into an archive: what is new of it, and snapshots in between."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager

from audit.archive import Manifest, find_manifest, read_manifest
from audit.codecs import DEFAULT
from audit.errors import OtherHistoryError
from audit.folder import Folder
from audit.history import metadata_at
from audit.keys import PrivateKey
from audit.reading import Archive
from audit.resuming import resume
from audit.signing import sign_held
from audit.writing import ArchiveWriter
from log.chain import Tip
from log.entry import SealedEntry
from log.store import LogStore
from metadata.epoch import EMPTY, Epoch
from snapshots.restore import written
from snapshots.store import Snapshot, SnapshotStore

SNAPSHOT_ENTRIES_BETWEEN = 1000
"""Snapshots that are closer than this shorten no replay so that anybody would notice."""

SNAPSHOTS_LISTED_MAX = 100_000
PAGE_ENTRIES_MAX = 1000
PAGE_BYTES_MAX = 8 * 1024 * 1024


class Export:
    """Feeds an archive from wherever entries come; stop at any point and begin again.

    Ask the source for entries from `tip` on, that one included: seeing it again shows that the
    source still has the history that the archive holds.
    """

    def __init__(self, into: Folder, writer: ArchiveWriter, before: Archive | None) -> None:
        self._into = into
        self._writer = writer
        self._before = before
        self._seen: Tip | None = None
        self._held: Iterator[SealedEntry] | None = None

    @property
    def tip(self) -> Tip:
        return self._writer.tip

    def take(self, sealed: SealedEntry) -> None:
        """Append an entry, or see that one from before the tip is the same in the archive."""
        if sealed.epoch > self.tip.epoch:
            self._writer.append(sealed)
        elif self._hash_at(sealed.epoch) != sealed.hash:
            raise OtherHistoryError(self._into.name, sealed.epoch)
        self._seen = Tip(sealed.epoch, sealed.hash)

    def _hash_at(self, epoch: Epoch) -> bytes:
        """Of an entry that the archive has; they are asked for in order."""
        if epoch == self.tip.epoch:
            return self.tip.hash
        if self._held is None:
            archive = Archive(self._into, read_manifest(self._into))
            self._held = archive.entries(Epoch(epoch - 1), self.tip.epoch)
        return next(self._held).hash

    def wanted(self, epochs: Iterable[Epoch]) -> list[Epoch]:
        """Which of the source's snapshots to keep: some way apart, and the newest."""
        kept = set(self._writer.snapshots)
        begin, end = max(1, self._writer.after), self.tip.epoch
        known = sorted(kept | {epoch for epoch in epochs if begin <= epoch <= end})
        chosen: list[Epoch] = []
        before = EMPTY
        for epoch in known:
            is_far = epoch - before >= SNAPSHOT_ENTRIES_BETWEEN
            if epoch in kept or is_far or epoch == known[-1]:
                chosen.append(epoch)
                before = epoch
        return [epoch for epoch in chosen if epoch not in kept]

    def keep(self, snapshot: Snapshot) -> None:
        self._writer.keep(snapshot)

    def finish(self, keys: Sequence[PrivateKey] = (), *, at_s: int = 0) -> Manifest:
        """Make all of it part of the archive, and sign it where keys are given."""
        self._writer.commit()
        if keys:
            sign_held(self._into, keys, seen=self._seen, before=self._before, at_s=at_s)
        return read_manifest(self._into)


@contextmanager
def begin_export(
    into: Folder, *, continuing: Archive | None = None, codec: str = DEFAULT
) -> Iterator[Export]:
    """Go on where the last export stopped, or begin: at the origin, or behind another archive.

    `codec` is for what is written from now on; an archive may hold files of several.
    """
    with into.alone():
        writer = ArchiveWriter(into, resume(into, continuing=continuing), codec)
        begun = Export(into, writer, continuing)
        if continuing is not None and continuing.tip.epoch not in writer.snapshots:
            _keep_first(begun, continuing)
        yield begun


def _keep_first(running: Export, before: Archive) -> None:
    """With a snapshot of where it begins an archive can be replayed without the one before.

    Only behind an archive that has none itself, by an earlier release, it cannot be had.
    """
    if before.after.epoch == EMPTY or before.snapshots():
        running.keep(written(metadata_at(before, before.tip.epoch)))


def export(
    entries: Iterable[SealedEntry],
    into: Folder,
    *,
    snapshots: Iterable[Snapshot] = (),
    keys: Sequence[PrivateKey] = (),
    continuing: Archive | None = None,
) -> Manifest:
    """All entries into the archive; those that it holds already must be the same."""
    with begin_export(into, continuing=continuing) as running:
        for sealed in entries:
            running.take(sealed)
        for snapshot in snapshots:
            running.keep(snapshot)
        return running.finish(keys)


async def export_live(
    entries: AsyncIterable[SealedEntry],
    into: Folder,
    *,
    snapshots: SnapshotStore,
    keys: Sequence[PrivateKey] = (),
    continuing: Archive | None = None,
) -> Manifest:
    """The same from a source that is waited for, with the snapshots that are worth keeping."""
    with begin_export(into, continuing=continuing) as running:
        async for sealed in entries:
            running.take(sealed)
        listed = await snapshots.listed(up_to=running.tip.epoch, limit=SNAPSHOTS_LISTED_MAX)
        for epoch in running.wanted(info.epoch for info in listed):
            snapshot = await snapshots.load(epoch)
            if snapshot is not None:
                running.keep(snapshot)
        return running.finish(keys)


async def stored_entries(log: LogStore, *, after: Epoch) -> AsyncIterator[SealedEntry]:
    """Everything behind an epoch, page by page, up to where the log ends now."""
    tip = await log.tip()
    while after < tip.epoch:
        page = await log.read_after(after, entries_max=PAGE_ENTRIES_MAX, bytes_max=PAGE_BYTES_MAX)
        for sealed in page:
            yield sealed
        after = page[-1].epoch if page else tip.epoch


def compared_from(into: Folder) -> Epoch:
    """Behind which epoch a source should begin, so that the archive's last entry comes again."""
    manifest = find_manifest(into)
    return Epoch(max(0, manifest.tip.epoch - 1)) if manifest else Epoch(0)
