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
from audit.checkpoints import (
    CHECKPOINT_BYTES_MAX,
    Checkpoint,
    SignedCheckpoint,
    origin_of,
    parse_checkpoint,
    sign,
)
from audit.errors import ArchiveError
from audit.folder import Folder
from audit.keys import PrivateKey
from audit.notes import NoteError
from audit.resuming import tree_at
from audit.tile_files import TileFiles
from metadata.epoch import Epoch


def sign_archive(files: Folder, keys: Sequence[PrivateKey], *, at_s: int = 0) -> SignedCheckpoint:
    """Sign the tree of all entries; signatures that it has already stay."""
    with files.alone():
        return sign_held(files, keys, at_s=at_s)


def sign_held(files: Folder, keys: Sequence[PrivateKey], *, at_s: int = 0) -> SignedCheckpoint:
    """The same for who is alone in the folder already.

    Refuses to sign what does not extend the newest checkpoint: a log that signs two histories
    can no longer be believed. Whether the entries are sound is for `verify` to find out first.
    """
    manifest = read_manifest(files)
    tree_at(files, manifest.tip)
    newest = newest_checkpoint(files, manifest)
    checkpoint = Checkpoint(
        origin_of(manifest.cluster), manifest.tip.epoch, bytes.fromhex(manifest.tip.root)
    )
    # By its whole text: lines that follow the root would be signed as well.
    if newest is not None and newest.note.text == checkpoint.text:
        signed = newest
        for key in keys:
            signed = signed.signed(key, at_s=at_s)
    else:
        signed = sign(checkpoint, keys, at_s=at_s)
    _store(files, manifest, signed)
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


def read_checkpoint(files: Folder, file: CheckpointFile) -> SignedCheckpoint:
    data = files.read(file.path, bytes_max=CHECKPOINT_BYTES_MAX)
    if not file.fits(data):
        raise ArchiveError(file.path, "it is not the file of the manifest")
    try:
        return parse_checkpoint(data)
    except NoteError as error:
        raise ArchiveError(file.path, str(error)) from error


def _store(files: Folder, manifest: Manifest, signed: SignedCheckpoint) -> None:
    """The manifest names the new file before the old one goes.

    C2SP's copy is at all times one that the manifest names, or the manifest names none.
    """
    data = signed.encode()
    size = signed.checkpoint.size
    digest = described("", data).sha256
    file = CheckpointFile(
        path=checkpoint_path(size, digest), sha256=digest, size_bytes=len(data), epoch=size
    )
    if not manifest.checkpoints:
        files.write(CHECKPOINT, data)
    if file not in manifest.checkpoints:
        files.write(file.path, data)
        files.settle()
        others = tuple(item for item in manifest.checkpoints if item.epoch != size)
        signed_one = msgspec.structs.replace(manifest, checkpoints=(*others, file))
        write_manifest(files, signed_one, over=manifest)
    files.write(CHECKPOINT, data)
    files.settle()
    for item in manifest.checkpoints:
        if item.epoch == size and item != file:
            files.delete(item.path)
