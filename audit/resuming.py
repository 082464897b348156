"""Where an export goes on: what an archive holds, without what a crash left behind."""

from __future__ import annotations

import re

import msgspec

from audit.archive import (
    CHECKPOINTS,
    MANIFEST,
    ORIGIN,
    SEGMENTS,
    SNAPSHOTS,
    Manifest,
    Seam,
    find_manifest,
)
from audit.errors import ArchiveError
from audit.folder import PARTIAL, Folder
from audit.reading import Archive
from audit.segments import is_full
from audit.tile_files import read_tile, tiles_in
from audit.tiles import TileTree, tree_from
from log.chain import Tip
from log.entry import SealedEntry
from metadata.epoch import Epoch

_OURS = re.compile(
    rf"(?:{SEGMENTS}/\d{{12,}}-\d{{12,}}\.avro|{SNAPSHOTS}/\d{{12,}}\.avro"
    rf"|{CHECKPOINTS}/\d{{12,}}-[0-9a-f]{{8}})(?:{re.escape(PARTIAL)})?"
)


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """An archive to append to; `manifest` is None where it is yet to begin.

    `open_entries` are those of the last segment if that is not full: it is written again.
    """

    manifest: Manifest | None
    tip: Tip
    tree: TileTree
    open_entries: tuple[SealedEntry, ...] = ()


def resume(into: Folder, *, continuing: Archive | None = None) -> Resumed:
    """What is in the folder; an empty one begins at the origin, or behind another archive."""
    manifest = find_manifest(into)
    _sweep(into, manifest)
    if manifest is None:
        return _begun(continuing)
    if continuing is not None and manifest.after != continuing.manifest.tip:
        raise ArchiveError(into.name, f"it does not begin where {continuing.files.name} ends")
    return Resumed(
        manifest=manifest,
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


def _begun(continuing: Archive | None) -> Resumed:
    if continuing is None:
        return Resumed(manifest=None, tip=ORIGIN.tip, tree=TileTree())
    seam = continuing.manifest.tip
    begun = msgspec.structs.replace(
        continuing.manifest, after=seam, segments=(), snapshots=(), checkpoints=()
    )
    return Resumed(manifest=begun, tip=seam.tip, tree=tree_at(continuing.files, seam))


def _sweep(into: Folder, manifest: Manifest | None) -> None:
    """Remove what a crash left: it may be of a history that went another way since."""
    named: set[str] = set()
    size = 0
    if manifest is not None:
        files = (*manifest.segments, *manifest.snapshots, *manifest.checkpoints)
        named = {file.path for file in files}
        size = manifest.tip.epoch
    for kind in (SEGMENTS, SNAPSHOTS, CHECKPOINTS):
        for path in into.paths(kind):
            if path not in named and _OURS.fullmatch(path):
                into.delete(path)
    for path, place in tiles_in(into):
        if path.endswith(PARTIAL) or (place is not None and not place.is_within(size)):
            into.delete(path)
