"""Reading an archive as a history, and several as one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

from audit.archive import Manifest, Segment, read_manifest
from audit.errors import ArchiveError, NotInARowError
from audit.folder import Folder, folder
from audit.history import SnapshotUnusableError
from audit.seams import read_seam
from audit.segments import SEGMENT_FILE_BYTES_MAX, chained
from audit.stored_snapshots import applied_from, read_snapshot
from audit.tile_files import TileFiles
from encoding.errors import DecodeError
from log.chain import Tip, seal_payload
from log.entry import SealedEntry
from log.replay import Applied, ReplayError, replay
from metadata.epoch import Epoch
from snapshots.store import Snapshot


class Archive:
    """A `History` of the entries behind `after`; checks what it reads, but not what it does not."""

    def __init__(self, files: Folder, manifest: Manifest) -> None:
        self.files = files
        self.manifest = manifest

    @property
    def after(self) -> Tip:
        """Where the archive begins; the empty log unless another archive goes before."""
        return self.manifest.after.tip

    @property
    def tip(self) -> Tip:
        return self.manifest.tip.tip

    @property
    def tree(self) -> TileFiles:
        return TileFiles(self.files, self.manifest.tip.epoch)

    def entries(self, after: Epoch, up_to: Epoch) -> Iterator[SealedEntry]:
        if after < self.after.epoch and after < up_to:
            raise ArchiveError(
                self.files.name, f"it begins after epoch {self.after.epoch}: open what goes before"
            )
        first = bisect_left([segment.last for segment in self.manifest.segments], after + 1)
        for segment in self.manifest.segments[first:]:
            if segment.first > up_to:
                return
            for sealed in self._segment(segment, after):
                if sealed.epoch > up_to:
                    return
                yield sealed

    def entry(self, epoch: Epoch) -> SealedEntry:
        for sealed in self.entries(Epoch(epoch - 1), epoch):
            return sealed
        raise ArchiveError(self.files.name, f"there is no epoch {epoch} in it")

    def snapshots(self) -> Sequence[Epoch]:
        return [Epoch(file.epoch) for file in self.manifest.snapshots]

    def snapshot(self, epoch: Epoch) -> Snapshot:
        """As it is stored; `restored` also holds it against the log."""
        index = bisect_left(self.snapshots(), epoch)
        files = self.manifest.snapshots[index : index + 1]
        if not files or files[0].epoch != epoch:
            raise SnapshotUnusableError(epoch, "there is none in the archive.")
        return read_snapshot(self.files, files[0])

    def restored(self, epoch: Epoch) -> Applied:
        try:
            snapshot = self.snapshot(epoch)
            sealed = self.seam_entry() if epoch == self.after.epoch else self.entry(epoch)
            if sealed is None:
                return self._restored_at_seam(snapshot)
            return applied_from(
                snapshot,
                digest=sealed.entry.digest,
                entry_hash=sealed.hash,
                cluster=self.manifest.cluster,
            )
        except (ArchiveError, DecodeError, ReplayError) as error:
            raise SnapshotUnusableError(epoch, str(error)) from error

    def seam_entry(self) -> SealedEntry | None:
        """The entry where the archive begins; None at the origin, and where it was not kept."""
        return read_seam(self.files, self.manifest)

    def _restored_at_seam(self, snapshot: Snapshot) -> Applied:
        """Without the entry that led to it, the next one holds it to account, if there is one."""
        applied = applied_from(
            snapshot,
            digest=snapshot.digest,
            entry_hash=self.after.hash,
            cluster=self.manifest.cluster,
        )
        replay(islice(self.entries(self.after.epoch, self.tip.epoch), 1), applied)
        return applied

    def _segment(self, segment: Segment, after: Epoch) -> Iterator[SealedEntry]:
        data = self.files.read(segment.path, bytes_max=SEGMENT_FILE_BYTES_MAX)
        if not segment.fits(data):
            raise ArchiveError(
                segment.path, "it is not the file of the manifest: run `ringlog audit verify`"
            )
        for epoch, previous_hash, _, payload in chained(data, segment, after=after):
            try:
                sealed = seal_payload(payload, previous_hash)
            except DecodeError as error:
                fault = str(error).rstrip(".")
                raise ArchiveError(segment.path, fault, epoch=Epoch(epoch)) from error
            if sealed.epoch != epoch:
                raise ArchiveError(
                    segment.path, f"its payload says epoch {sealed.epoch}", epoch=Epoch(epoch)
                )
            yield sealed


def open_archive(place: str | Path) -> Archive:
    files = folder(place)
    return Archive(files, read_manifest(files))


class Joined:
    """Archives of one log, each beginning where the one before ends, as one `History`."""

    def __init__(self, archives: Sequence[Archive]) -> None:
        self.archives = archives

    @property
    def after(self) -> Tip:
        return self.archives[0].after

    @property
    def tip(self) -> Tip:
        return self.archives[-1].tip

    def entries(self, after: Epoch, up_to: Epoch) -> Iterator[SealedEntry]:
        for archive in self.archives[self._holding(Epoch(after + 1)) :]:
            yield from archive.entries(max(after, archive.after.epoch), up_to)

    def snapshots(self) -> Sequence[Epoch]:
        return sorted({epoch for archive in self.archives for epoch in archive.snapshots()})

    def snapshot(self, epoch: Epoch) -> Snapshot:
        return self._listing(epoch).snapshot(epoch)

    def restored(self, epoch: Epoch) -> Applied:
        return self._listing(epoch).restored(epoch)

    def _listing(self, epoch: Epoch) -> Archive:
        """At a seam the snapshot may be in the archive before it or in the one behind it."""
        held = self.archives[self._holding(epoch)]
        spanning = (item for item in self.archives if item.after.epoch <= epoch <= item.tip.epoch)
        return next((item for item in spanning if epoch in item.snapshots()), held)

    def _holding(self, epoch: Epoch) -> int:
        tips = [archive.tip.epoch for archive in self.archives[:-1]]
        return bisect_right(tips, epoch - 1)


def join(archives: Sequence[Archive]) -> Joined:
    """In the order of their epochs; an `ArchiveError` says why they are not one history."""
    ordered = sorted(archives, key=lambda archive: (archive.after.epoch, archive.tip.epoch))
    for before, following in pairwise(ordered):
        _check_seam(before, following)
    return Joined(ordered)


def first_difference(archive: Archive, hash_at: Callable[[Epoch], bytes]) -> Epoch | None:
    """The first epoch where another history has another hash; None if it has all of these.

    Because a hash stands for all that went before, a few questions find it.
    """
    low, high = archive.after.epoch, archive.tip.epoch
    if hash_at(high) == archive.tip.hash:
        return None
    while high - low > 1:
        middle = Epoch((low + high) // 2)
        if archive.entry(middle).hash == hash_at(middle):
            low = middle
        else:
            high = middle
    return high


def _check_seam(before: Archive, following: Archive) -> None:
    name = following.files.name
    if before.manifest.cluster != following.manifest.cluster:
        raise ArchiveError(
            name, f"it is of cluster {following.manifest.cluster} and not {before.manifest.cluster}"
        )
    begin, end = following.after.epoch, before.tip.epoch
    if begin > end:
        raise NotInARowError(name, f"epochs {end + 1} to {begin} are missing before it")
    expected = before.after.hash if begin == before.after.epoch else before.entry(begin).hash
    # A hash alone may be anybody's: what was signed behind the seam is the tree that it is in.
    is_same_tree = begin < end or following.manifest.after.root == before.manifest.tip.root
    if following.after.hash != expected or not is_same_tree:
        raise ArchiveError(
            name, f"it disagrees with {before.files.name} at epoch {begin} or before"
        )
    if begin < end:
        _refuse_overlap(before, following)


def _refuse_overlap(before: Archive, following: Archive) -> None:
    """Say also whether they agree: one of two that do not is false."""
    name, other = following.files.name, before.files.name
    last = min(before.tip.epoch, following.tip.epoch)
    first = Epoch(following.after.epoch + 1)
    if before.entry(last).hash != following.entry(last).hash:
        differing = _difference(before, following, first, last)
        raise ArchiveError(name, f"it disagrees with {other}", epoch=differing)
    fault = f"epochs {first} to {last} are in {other}, too: leave one of them out"
    raise NotInARowError(name, fault)


def _difference(one: Archive, other: Archive, low: Epoch, high: Epoch) -> Epoch:
    """The first epoch from `low` to `high`, at which they differ, where they do."""
    while low < high:
        middle = Epoch((low + high) // 2)
        if one.entry(middle).hash == other.entry(middle).hash:
            low = Epoch(middle + 1)
        else:
            high = middle
    return high
