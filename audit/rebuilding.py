"""The root that a key may sign: from the entries, and from what it signed before.

Whoever can write an archive can make its tiles, its root and the rest of its manifest agree on a
tree with a leaf in it that no entry has. Only two things are not theirs to write: the last entry,
which the log itself shows, with all entries that its hash stands for; and our own signatures.
"""

from __future__ import annotations

from collections.abc import Sequence

from audit.archive import ORIGIN
from audit.checkpoints import Checkpoint, SignedCheckpoint, origin_of
from audit.errors import ArchiveError
from audit.keys import PublicKey
from audit.notes import NoteError
from audit.reading import Archive
from audit.segments import SEGMENT_FILE_BYTES_MAX, chained
from audit.stored_checkpoints import read_checkpoint
from audit.tile_files import read_tile
from audit.tiles import TileTree, tree_from
from log.chain import Tip
from metadata.epoch import Epoch


def rebuilt(
    archive: Archive, keys: Sequence[PublicKey], *, seen: Tip | None, before: Archive | None
) -> bytes:
    """The root of all entries, which must be the manifest's.

    Reads what lies behind the newest checkpoint by one of the keys, or everything if there is
    none, in the archive `before` it, too. `seen` is the last entry as the log has it; without it
    all must be signed already.
    """
    row = [archive]
    tree = _signed(archive, keys)
    if tree is None and archive.manifest.after != ORIGIN:
        row = [_preceding(archive, before), archive]
        tree = _signed(row[0], keys)
    if tree is None and row[0].manifest.after != ORIGIN:
        raise _unsigned(row[0], "sign that one first")
    tree = tree or TileTree()
    if tree.size < archive.tip.epoch and seen != archive.tip:
        raise ArchiveError(
            archive.files.name,
            f"it is not signed, because its last entry, {archive.tip.epoch}, was not looked up in "
            "the log: export up to there or further",
        )
    for part in row:
        _grow(tree, part)
    return tree.root()


def _signed(archive: Archive, keys: Sequence[PublicKey]) -> TileTree | None:
    """The newest tree that one of the keys signed; a false signature of theirs is an error."""
    for file in reversed(archive.manifest.checkpoints):
        found = read_checkpoint(archive.files, file)
        if not _is_by(keys, found, file.path):
            continue
        tree = tree_from(file.epoch, lambda place: read_tile(archive.files, place))
        if found.checkpoint != Checkpoint(
            origin_of(archive.manifest.cluster), file.epoch, tree.root()
        ):
            raise ArchiveError(
                file.path,
                "the entries are not those that it was signed for",
                epoch=Epoch(file.epoch),
            )
        return tree
    return None


def _is_by(keys: Sequence[PublicKey], found: SignedCheckpoint, where: str) -> bool:
    try:
        return bool(found.verified_by(keys))
    except NoteError as error:
        raise ArchiveError(where, str(error)) from error


def _preceding(archive: Archive, before: Archive | None) -> Archive:
    if before is None or before.manifest.tip != archive.manifest.after:
        raise _unsigned(archive, "name the archive before it by --continuing")
    return before


def _unsigned(archive: Archive, remedy: str) -> ArchiveError:
    begin = archive.manifest.after.epoch
    return ArchiveError(
        archive.files.name,
        f"it begins after epoch {begin}, and none of its checkpoints is by a key that is to sign: "
        f"{remedy}",
    )


def _grow(tree: TileTree, archive: Archive) -> None:
    """Append the entries that it has not."""
    for segment in archive.manifest.segments:
        if segment.last > tree.size:
            data = archive.files.read(segment.path, bytes_max=SEGMENT_FILE_BYTES_MAX)
            for _, _, entry_hash, _ in chained(data, segment, after=Epoch(tree.size)):
                tree.append(entry_hash)
    if tree.root().hex() != archive.manifest.tip.root:
        raise ArchiveError(
            archive.files.name,
            "the root in its manifest is not that of its entries, so it is not signed: verify it",
        )
