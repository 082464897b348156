"""Signing an archive: a checkpoint over all its entries, and more signatures on it later."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from audit.archive import (
    CHECKPOINT,
    CheckpointFile,
    Manifest,
    checkpoint_path,
    described,
    read_manifest,
    write_manifest,
)
from audit.checkpoints import Checkpoint, SignedCheckpoint, origin_of, sign
from audit.errors import ArchiveError
from audit.folder import Folder
from audit.keys import PrivateKey
from audit.reading import Archive
from audit.rebuilding import rebuilt
from audit.resuming import tree_at
from audit.stored_checkpoints import read_checkpoint, unnamed_checkpoints
from audit.tile_files import TileFiles
from log.chain import Tip
from metadata.epoch import Epoch


def sign_archive(files: Folder, keys: Sequence[PrivateKey], *, at_s: int = 0) -> SignedCheckpoint:
    """Sign the tree of all entries; signatures that it has already stay.

    For who knows that its last entry is the log's; the others follow from that one.
    """
    with files.alone():
        return sign_held(files, keys, seen=read_manifest(files).tip.tip, at_s=at_s)


def sign_held(
    files: Folder,
    keys: Sequence[PrivateKey],
    *,
    seen: Tip | None,
    before: Archive | None = None,
    at_s: int = 0,
) -> SignedCheckpoint:
    """The same for who is alone in the folder already and saw the log itself end with `seen`.

    Refuses to sign what does not extend the newest checkpoint: a log that signs two histories
    can no longer be believed. Nor is the folder believed: see `rebuilt`. `before` is the archive
    that it begins behind, which only the first signature needs.
    """
    manifest = read_manifest(files)
    left = unnamed_checkpoints(files, manifest)
    tree_at(files, manifest.tip)
    newest = newest_checkpoint(files, manifest)
    publics = [key.public for key in keys]
    checkpoint = Checkpoint(
        origin_of(manifest.cluster),
        manifest.tip.epoch,
        rebuilt(Archive(files, manifest), publics, seen=seen, before=before),
    )
    # By its whole text: lines that follow the root would be signed as well.
    if newest is not None and newest.note.text == checkpoint.text:
        signed = newest
        for key in keys:
            signed = signed.signed(key, at_s=at_s)
    else:
        signed = sign(checkpoint, keys, at_s=at_s)
    _store(files, manifest, signed, left)
    return signed


def newest_checkpoint(files: Folder, manifest: Manifest) -> SignedCheckpoint | None:
    """The newest one, if the entries are those that it was signed for."""
    if not manifest.checkpoints:
        return None
    file = manifest.checkpoints[-1]
    found = read_checkpoint(files, file)
    root = TileFiles(files, manifest.tip.epoch).root_at(found.checkpoint.size)
    if (found.checkpoint.size, found.checkpoint.root) != (file.epoch, root):
        raise ArchiveError(
            file.path, "the entries are not those that it was signed for", epoch=Epoch(file.epoch)
        )
    return found


def _store(
    files: Folder, manifest: Manifest, signed: SignedCheckpoint, left: Sequence[str]
) -> None:
    """The copy for C2SP is the newest that the manifest names or, after a crash, one ahead of it.

    `left` are files of crashes before, which go with those that this one replaces.
    """
    data = signed.encode()
    size = signed.checkpoint.size
    digest = described("", data).sha256
    file = CheckpointFile(
        path=checkpoint_path(size, digest), sha256=digest, size_bytes=len(data), epoch=size
    )
    if file not in manifest.checkpoints:
        files.write(file.path, data)
    files.write(CHECKPOINT, data)
    files.settle()
    if file not in manifest.checkpoints:
        others = tuple(item for item in manifest.checkpoints if item.epoch != size)
        signed_one = msgspec.structs.replace(manifest, checkpoints=(*others, file))
        write_manifest(files, signed_one, over=manifest)
    replaced = [item.path for item in manifest.checkpoints if item.epoch == size]
    for path in {*left, *replaced} - {file.path}:
        files.delete(path)
