"""One pass over the entries of an archive, holding everything else against them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from audit.anchors import Anchor
from audit.archive import MANIFEST, Manifest, Segment, SnapshotFile
from audit.containers import Stored
from audit.errors import ArchiveError, NotInARowError
from audit.folder import Folder
from audit.history import History, metadata_at
from audit.reading import Archive
from audit.resuming import tree_at
from audit.seams import read_seam
from audit.segments import SEGMENT_FILE_BYTES_MAX, chained
from audit.stored_snapshots import applied_from, read_snapshot
from audit.tile_files import partial_widths, whole
from audit.tiles import TILE_WIDTH, Place, Tile, TileTree, tile_bytes
from encoding.entries import Entry, decode_entry
from encoding.errors import DecodeError
from log.chain import HASH_BYTES, seal_payload
from log.entry import SealedEntry
from log.replay import NOTHING_APPLIED, Applied, ReplayError, apply
from metadata.epoch import EMPTY, Epoch
from transformations.initialize import Initialize

Watch = Callable[[int, int], None]
"""Told how many entries are done, and of how many."""


class Beginning(msgspec.Struct, frozen=True):
    """What could be seen of where an archive begins: its hash in the tree, its snapshot's digest.

    Both are seen where its entry is kept; archives of earlier releases may lack it.
    """

    hash_seen: bool
    digest_seen: bool


def check_entries(
    archive: Archive,
    anchors: Sequence[Anchor],
    tiles: Iterable[Place],
    progress: Watch = lambda _done, _total: None,
    *,
    recompute: bool,
    before: History | None,
) -> Beginning:
    """From the first entry to the last; the first fault is an `ArchiveError`.

    `anchors` are in the order of their epochs and `tiles` are all that there are. `before` is what
    the archive continues, where that is at hand and sound: to recompute from where it has no
    snapshot.
    """
    files, manifest = archive.files, archive.manifest
    going = _Pass(files, manifest, tree_at(files, manifest.after), partial_widths(tiles))
    going.anchors.extend(anchors)
    seam = read_seam(files, manifest)
    if recompute:
        going.applied = _start(archive, seam, before)
    beginning = going.start(seam)
    for segment in manifest.segments:
        going.check_segment(segment)
        progress(segment.last - manifest.after.epoch, manifest.tip.epoch - manifest.after.epoch)
    going.finish()
    return beginning


class _Pass:
    def __init__(
        self,
        files: Folder,
        manifest: Manifest,
        tree: TileTree,
        widths: Mapping[Place, Sequence[int]],
    ) -> None:
        self._files = files
        self._manifest = manifest
        self._tree = tree
        self._widths = widths
        self._snapshots = deque(manifest.snapshots)
        self._agreed = manifest.after.tip.epoch
        self.anchors: deque[Anchor] = deque()
        self.applied: Applied | None = None

    def start(self, seam: SealedEntry | None) -> Beginning:
        after = self._manifest.after.tip
        last_leaf = self._tree.last_leaf
        if after.epoch and last_leaf not in {None, after.hash}:
            raise ArchiveError(
                MANIFEST, f"its hash of epoch {after.epoch}, where it begins, is not in the tree"
            )
        if self.anchors and self.anchors[0].epoch < after.epoch:
            raise ArchiveError(
                self.anchors[0].where,
                f"the archive begins after epoch {after.epoch}: hold it against the one before",
            )
        self._check_anchors()
        if self._snapshots and self._snapshots[0].epoch == after.epoch:
            file = self._snapshots.popleft()
            self._check_snapshot(file, _digest_at_seam(file, seam), after.hash)
        is_kept = after.epoch == EMPTY or seam is not None
        has_snapshot = after.epoch in {file.epoch for file in self._manifest.snapshots[:1]}
        return Beginning(is_kept or last_leaf is not None, is_kept or not has_snapshot)

    def check_segment(self, segment: Segment) -> None:
        data = self._files.read(segment.path, bytes_max=SEGMENT_FILE_BYTES_MAX)
        payload_bytes = 0
        for stored in chained(data, segment, after=Epoch(segment.first - 1)):
            payload_bytes += len(stored[3])
            self._check_entry(stored, segment.path)
        if not segment.fits(data):
            raise ArchiveError(
                segment.path, "its SHA-256 or size is not what the manifest says: one was changed"
            )
        if payload_bytes != segment.payload_bytes:
            raise ArchiveError(MANIFEST, f"it is wrong about the payloads in {segment.path}")

    def finish(self) -> None:
        for tile in self._tree.partial():
            self._check_tile(tile)
        if self._tree.root().hex() != self._manifest.tip.root:
            raise ArchiveError(MANIFEST, "its root is not that of the entries")
        for anchor in self.anchors:
            raise ArchiveError(
                anchor.where,
                f"it was signed for {anchor.epoch} entries and the archive ends before",
                epoch=Epoch(self._tree.size + 1),
            )

    def _check_entry(self, stored: Stored, path: str) -> None:
        epoch, _, entry_hash, _ = stored
        entry = self._decoded(stored, path)
        if self.applied is not None:
            self.applied = _recomputed(stored, self.applied, path)
        for tile in self._tree.append(entry_hash):
            self._check_tile(tile)
        if self.anchors and self.anchors[0].epoch == epoch:
            self._check_anchors()
        if self._snapshots and self._snapshots[0].epoch == epoch:
            self._check_snapshot(self._snapshots.popleft(), entry.digest, entry_hash)

    def _decoded(self, stored: Stored, path: str) -> Entry:
        epoch = Epoch(stored[0])
        try:
            entry = decode_entry(stored[3])
        except DecodeError as error:
            raise ArchiveError(path, str(error).rstrip("."), epoch=epoch) from error
        if entry.epoch != epoch:
            raise ArchiveError(path, f"its payload says epoch {entry.epoch}", epoch=epoch)
        if entry.cluster != self._manifest.cluster:
            raise ArchiveError(path, f"it is of cluster {entry.cluster}", epoch=epoch)
        if len(entry.digest) != HASH_BYTES:
            raise ArchiveError(path, f"its digest has {len(entry.digest)} bytes", epoch=epoch)
        if epoch == 1:
            self._check_name(entry, path)
        return entry

    def _check_name(self, entry: Entry, path: str) -> None:
        if not isinstance(entry.transformation, Initialize):
            raise ArchiveError(path, f"a log does not begin with {entry.kind}", epoch=entry.epoch)
        if entry.transformation.name != self._manifest.name:
            raise ArchiveError(MANIFEST, f"the cluster is called {entry.transformation.name}")

    def _check_anchors(self) -> None:
        """Those of the tree as it is now."""
        while self.anchors and self.anchors[0].epoch == self._tree.size:
            anchor = self.anchors.popleft()
            if self._tree.root() != anchor.root:
                raise self._disagreement(anchor)
            if anchor.counts:
                self._agreed = anchor.epoch

    def _disagreement(self, anchor: Anchor) -> ArchiveError:
        """Of epochs that the archive holds, and of those before it where they may be to blame."""
        first = Epoch(self._agreed + 1)
        if anchor.epoch < first:
            fault = f"what goes before, up to epoch {anchor.epoch}, is not what was signed"
            return ArchiveError(anchor.where, fault, epoch=anchor.epoch)
        fault = f"epochs {first} to {anchor.epoch} are not those that were signed"
        return ArchiveError(anchor.where, fault, epoch=first)

    def _check_tile(self, tile: Tile) -> None:
        """The file of the tile, and shorter ones that are still there."""
        place = tile.place
        widths = {*self._widths.get(whole(place), ()), place.width}
        for width in sorted(widths, reverse=True):
            part = Place(place.level, place.index, width)
            expected = tile.data[: tile_bytes(part)]
            if width <= place.width and self._read(part) != expected:
                first = (place.index * TILE_WIDTH << 8 * max(place.level, 0)) + 1
                raise ArchiveError(part.path, f"it is not the tile of epoch {first} and following")

    def _read(self, place: Place) -> bytes:
        return self._files.read(place.path, bytes_max=tile_bytes(place))

    def _check_snapshot(self, file: SnapshotFile, digest: bytes, entry_hash: bytes) -> None:
        applied = applied_from(
            read_snapshot(self._files, file),
            digest=digest,
            entry_hash=entry_hash,
            cluster=self._manifest.cluster,
        )
        name = applied.metadata.cluster.name
        if name != self._manifest.name:
            raise ArchiveError(MANIFEST, f"the cluster is called {name}")


def _digest_at_seam(file: SnapshotFile, seam: SealedEntry | None) -> bytes:
    """By the entry that led to it; where that is not kept, nothing but the next one can tell."""
    return bytes.fromhex(file.digest) if seam is None else seam.entry.digest


def _start(archive: Archive, seam: SealedEntry | None, before: History | None) -> Applied:
    """What the first entry is executed on: nothing, or the metadata where the archive begins."""
    after = archive.after
    if after.epoch == EMPTY:
        return NOTHING_APPLIED
    for file in archive.manifest.snapshots[:1]:
        if file.epoch == after.epoch:
            return applied_from(
                read_snapshot(archive.files, file),
                digest=_digest_at_seam(file, seam),
                entry_hash=after.hash,
                cluster=archive.manifest.cluster,
            )
    if before is None or before.tip != after:
        raise NotInARowError(
            archive.files.name,
            f"to recompute digests it needs a snapshot of epoch {after.epoch}, its beginning, or a "
            "sound archive that ends there: name that one, too",
        )
    return metadata_at(before, after.epoch)


def _recomputed(stored: Stored, onto: Applied, path: str) -> Applied:
    try:
        return apply(seal_payload(stored[3], stored[1]), onto)
    except ReplayError as error:
        raise ArchiveError(path, error.fault, epoch=error.epoch) from error
