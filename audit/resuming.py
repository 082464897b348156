"""Where an export goes on: what an archive holds, without what a crash left behind."""

from __future__ import annotations

import re

import msgspec
from msgspec import UNSET

from audit.archive import (
    CHECKPOINTS,
    MANIFEST,
    ORIGIN,
    SEAMS,
    SEGMENTS,
    SNAPSHOTS,
    Manifest,
    Seam,
    SeamEntry,
    find_manifest,
)
from audit.errors import ArchiveError
from audit.folder import PARTIAL, Folder
from audit.reading import Archive
from audit.seams import encode_seam, read_seam
from audit.segments import SEGMENT_FILE_BYTES_MAX, is_full
from audit.stored_checkpoints import unnamed_checkpoints
from audit.tile_files import read_tile, tiles_in
from audit.tiles import TileTree, tree_from
from log.chain import Tip
from log.entry import SealedEntry
from metadata.epoch import Epoch

_OURS = re.compile(
    rf"(?:{SEGMENTS}/\d{{12,}}-\d{{12,}}\.avro|(?:{SNAPSHOTS}|{SEAMS})/\d{{12,}}\.avro"
    rf"|{CHECKPOINTS}/\d{{12,}}-[0-9a-f]{{8}}(?={re.escape(PARTIAL)}))(?:{re.escape(PARTIAL)})?"
)


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """An archive to append to; `manifest` is None where it is yet to begin.

    `stored` is the manifest in the folder, if there is one. `seam` is the entry where the archive
    begins, where that is kept. `open_entries` are those of the last segment if that is not full:
    it is written again.
    """

    manifest: Manifest | None
    stored: Manifest | None = None
    seam: SealedEntry | None = None
    tip: Tip
    tree: TileTree
    open_entries: tuple[SealedEntry, ...] = ()


def resume(into: Folder, *, continuing: Archive | None = None) -> Resumed:
    """What is in the folder; an empty one begins at the origin, or behind another archive."""
    manifest = find_manifest(into)
    unnamed_checkpoints(into, manifest)
    _sweep(into, manifest)
    if manifest is None:
        return _begun(into, continuing)
    if continuing is not None and manifest.after != continuing.manifest.tip:
        raise ArchiveError(into.name, f"it does not begin where {continuing.files.name} ends")
    return Resumed(
        manifest=manifest,
        stored=manifest,
        seam=read_seam(into, manifest),
        tip=manifest.tip.tip,
        tree=tree_at(into, manifest.tip),
        open_entries=_open_entries(Archive(into, manifest)),
    )


def tree_at(files: Folder, seam: Seam) -> TileTree:
    """The tree with so many leaves, if the tiles give the root that is expected."""
    tree = tree_from(seam.epoch, lambda place: read_tile(files, place))
    if tree.root().hex() != seam.root:
        raise ArchiveError(
            MANIFEST, f"the tiles do not give the root that it has for epoch {seam.epoch}"
        )
    return tree


def _open_entries(archive: Archive) -> tuple[SealedEntry, ...]:
    for last in archive.manifest.segments[-1:]:
        first, tip = Epoch(last.first - 1), Epoch(last.last)
        if not is_full(tip - first, last.payload_bytes):
            return tuple(archive.entries(first, tip))
    return ()


def _begun(into: Folder, continuing: Archive | None) -> Resumed:
    if continuing is None:
        return Resumed(manifest=None, tip=ORIGIN.tip, tree=TileTree())
    before = continuing.manifest
    tree = tree_at(continuing.files, before.tip)
    begun = Manifest(
        cluster=before.cluster, name=before.name, after=before.tip, tip=before.tip, segments=()
    )
    found = _last_entry(continuing)
    if found is not None:
        seam, data = found
        into.write(seam.path, data)
        begun = msgspec.structs.replace(begun, format="ringlog.archive.v2", seam_entry=seam)
    return Resumed(manifest=begun, seam=read_seam(into, begun), tip=before.tip.tip, tree=tree)


def _last_entry(archive: Archive) -> tuple[SeamEntry, bytes] | None:
    """As a file for who begins behind it; an archive without entries hands on what it has."""
    seam = archive.manifest.seam_entry
    if archive.manifest.segments:
        return encode_seam(archive.entry(archive.tip.epoch), archive.tree)
    if seam is UNSET or archive.seam_entry() is None:
        return None
    return seam, archive.files.read(seam.path, bytes_max=SEGMENT_FILE_BYTES_MAX)


def _sweep(into: Folder, manifest: Manifest | None) -> None:
    """Remove what a crash left: it may be of a history that went another way since.

    Not checkpoints: those that a crash left go when the archive is signed again.
    """
    named: set[str] = set()
    size = 0
    if manifest is not None:
        named = {file.path for file in manifest.files()}
        size = manifest.tip.epoch
    for kind in (SEGMENTS, SNAPSHOTS, SEAMS, CHECKPOINTS):
        for path in into.paths(kind):
            if path not in named and _OURS.fullmatch(path):
                into.delete(path)
    for path, place in tiles_in(into):
        if path.endswith(PARTIAL) or (place is not None and not place.is_within(size)):
            into.delete(path)
