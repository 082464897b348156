"""Writing an archive: segments, tiles and snapshots, and the manifest last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from audit.archive import (
    ORIGIN,
    SEAMS,
    SEGMENTS,
    SNAPSHOTS,
    Manifest,
    Seam,
    Segment,
    SnapshotFile,
    write_manifest,
)
from audit.codecs import DEFAULT
from audit.errors import ArchiveError, OtherHistoryError
from audit.folder import Folder
from audit.reading import Archive
from audit.resuming import Resumed
from audit.segments import encode_segment, is_full
from audit.stored_snapshots import applied_from, encode_snapshot
from audit.tile_files import whole
from audit.tiles import BUNDLED, TILE_LEVELS_MAX, Tile, edge_of
from log.chain import Tip, link
from log.entry import SealedEntry
from metadata.epoch import EMPTY, Epoch, following
from snapshots.store import Snapshot
from transformations.initialize import Initialize

MANIFESTS_PER_ARCHIVE = 64
"""How finely the work is cut: a crash costs about one part in so many, or one segment."""


class ArchiveWriter:
    """Appends to one archive; whoever finds that somebody else did meanwhile stops.

    What is appended counts from the next `commit` on, which happens now and then by itself. A
    crash leaves the archive as the last one made it, and files that the next export removes.
    """

    def __init__(self, into: Folder, resumed: Resumed, codec: str = DEFAULT) -> None:
        self._into = into
        self._codec = codec
        self._manifest = resumed.manifest
        self._stored = resumed.stored
        self._seam = resumed.seam
        self._tip = resumed.tip
        self._tree = resumed.tree
        self._open = [*resumed.open_entries]
        self._open_bytes = sum(len(sealed.payload) for sealed in self._open)
        self._closed: list[Segment] = []
        self._snapshots: list[SnapshotFile] = []
        self._full_tiles: list[Tile] = []

    @property
    def tip(self) -> Tip:
        """The last entry that was appended."""
        return self._tip

    @property
    def after(self) -> Epoch:
        """Where the archive begins."""
        return EMPTY if self._manifest is None else self._manifest.after.tip.epoch

    @property
    def snapshots(self) -> Sequence[Epoch]:
        """The epochs of which the archive has snapshots."""
        committed = self._manifest.snapshots if self._manifest else ()
        return sorted(Epoch(file.epoch) for file in (*committed, *self._snapshots))

    def append(self, sealed: SealedEntry) -> None:
        """The next entry; one of another history is refused."""
        _check_next(sealed, self._tip, self._into.name)
        if self._manifest is None:
            self._manifest = _founded(sealed)
        self._tip = Tip(sealed.epoch, sealed.hash)
        self._full_tiles += self._tree.append(sealed.hash)
        self._open.append(sealed)
        self._open_bytes += len(sealed.payload)
        if is_full(len(self._open), self._open_bytes):
            self._close_segment()
            if len(self._closed) * MANIFESTS_PER_ARCHIVE > len(self._manifest.segments):
                self.commit()

    def keep(self, snapshot: Snapshot) -> None:
        """A snapshot of an entry that was appended, held against it, or of where it all begins."""
        if snapshot.epoch in self.snapshots:
            return
        manifest = self._begun()
        digest, entry_hash = snapshot.digest, manifest.after.tip.hash
        is_seam = snapshot.epoch == manifest.after.epoch
        sealed = self._seam if is_seam else self._entry(snapshot.epoch, manifest)
        if sealed is not None:
            digest, entry_hash = sealed.entry.digest, sealed.hash
        applied_from(snapshot, digest=digest, entry_hash=entry_hash, cluster=manifest.cluster)
        file, data = encode_snapshot(snapshot, self._codec)
        self._into.write(file.path, data)
        self._snapshots.append(file)

    def commit(self) -> Manifest:
        """Make all that was appended part of the archive, for good."""
        before = self._begun()
        self._write_full_tiles()
        self._write(self._tree.partial())
        manifest = self._described(before, [*self._closed, *self._open_segment()])
        self._into.settle()
        self._check_there(manifest)
        write_manifest(self._into, manifest, over=self._stored)
        self._remove_superseded(before, manifest)
        self._manifest = self._stored = manifest
        self._closed, self._snapshots = [], []
        return manifest

    def _check_there(self, manifest: Manifest) -> None:
        """Where nothing keeps another export out, it may have taken ours for a crash's remains."""
        known = () if self._stored is None else self._stored.files()
        added = {file.path for file in manifest.files()} - {file.path for file in known}
        there = {path for kind in (SEGMENTS, SNAPSHOTS, SEAMS) for path in self._into.paths(kind)}
        if not added <= there:
            raise ArchiveError(
                min(added - there), "somebody else removed it meanwhile: begin this export again"
            )

    def _described(self, before: Manifest, added: Sequence[Segment]) -> Manifest:
        """The manifest with these segments; a last one that was not full gives way to a longer."""
        begin = added[0].first if added else before.tip.epoch + 1
        kept = (segment for segment in before.segments if segment.last < begin)
        snapshots = {file.epoch: file for file in (*before.snapshots, *self._snapshots)}
        tip = Seam(epoch=self._tip.epoch, hash=self._tip.hash.hex(), root=self._tree.root().hex())
        return msgspec.structs.replace(
            before,
            tip=tip,
            segments=(*kept, *added),
            snapshots=tuple(snapshots[epoch] for epoch in sorted(snapshots)),
        )

    def _close_segment(self) -> None:
        self._closed += self._open_segment()
        self._write_full_tiles()
        self._open.clear()
        self._open_bytes = 0

    def _open_segment(self) -> list[Segment]:
        committed = self._manifest.tip.epoch if self._manifest else EMPTY
        if not self._open or self._open[-1].epoch <= committed:
            return []
        segment, data = encode_segment(self._open, self._codec)
        self._into.write(segment.path, data)
        return [segment]

    def _write_full_tiles(self) -> None:
        self._write(self._full_tiles)
        self._full_tiles = []

    def _write(self, tiles: Iterable[Tile]) -> None:
        for tile in tiles:
            self._into.write(tile.place.path, tile.data)

    def _remove_superseded(self, before: Manifest, manifest: Manifest) -> None:
        """A shorter version of the last segment, and parts of tiles that are full by now."""
        replaced = len(before.segments) - 1
        if replaced >= 0 and manifest.segments[replaced] != before.segments[replaced]:
            self._into.delete(before.segments[replaced].path)
        for level in range(BUNDLED, TILE_LEVELS_MAX):
            place = edge_of(level, before.tip.epoch)
            if place is not None and whole(place).is_within(manifest.tip.epoch):
                for path in list(self._into.paths(f"{whole(place).path}.p")):
                    self._into.delete(path)

    def _begun(self) -> Manifest:
        if self._manifest is None:
            raise ArchiveError(self._into.name, "there is no entry to begin it with")
        return self._manifest

    def _entry(self, epoch: Epoch, manifest: Manifest) -> SealedEntry:
        if self._open and self._open[0].epoch <= epoch <= self._open[-1].epoch:
            return self._open[epoch - self._open[0].epoch]
        if not manifest.after.epoch < epoch <= self._tip.epoch:
            raise ArchiveError(
                self._into.name, f"there is no entry for the snapshot of epoch {epoch} in it"
            )
        return Archive(self._into, self._described(manifest, self._closed)).entry(epoch)


def _check_next(sealed: SealedEntry, tip: Tip, name: str) -> None:
    due = following(tip.epoch)
    if sealed.epoch != due:
        raise ArchiveError(name, f"epoch {due} is due and {sealed.epoch} came")
    if sealed.previous_hash != tip.hash:
        raise OtherHistoryError(name, tip.epoch)
    if link(tip.hash, sealed.payload) != sealed.hash:
        raise ArchiveError(name, "the hash of the entry that came does not fit it", epoch=due)


def _founded(sealed: SealedEntry) -> Manifest:
    """The manifest of no entries; the first one says of which cluster."""
    founding = sealed.entry.transformation
    if not isinstance(founding, Initialize):
        raise ArchiveError("the log", f"it begins with {sealed.kind}", epoch=sealed.epoch)
    return Manifest(
        cluster=sealed.entry.cluster, name=founding.name, after=ORIGIN, tip=ORIGIN, segments=()
    )
