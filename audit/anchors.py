"""Checkpoints to hold a log against: those of an archive, and those that somebody kept."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import NoReturn

import msgspec

from audit.archive import CHECKPOINT, Manifest, checkpoint_path
from audit.checkpoints import CHECKPOINT_BYTES_MAX, SignedCheckpoint, origin_of
from audit.errors import ArchiveError, NotThereError
from audit.folder import Folder
from audit.keys import PublicKey
from audit.notes import NoteError
from audit.stored_checkpoints import parsed, read_checkpoint
from metadata.epoch import Epoch


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint that the log must agree with; `keys` are those that were found to sign it."""

    where: str
    epoch: Epoch
    root: bytes
    keys: tuple[PublicKey, ...]
    counts: bool
    """False where keys were given and none of them signed it: anybody may have written it."""


class Kept(msgspec.Struct, frozen=True):
    """A checkpoint from outside the archive, as somebody noted it down; `where` is for people."""

    where: str
    data: bytes


def anchors_of(
    files: Folder, manifest: Manifest, keys: Sequence[PublicKey], kept: Sequence[Kept]
) -> list[Anchor]:
    """All checkpoints, smallest tree first; a false signature of a given key is an error."""
    named = [read_checkpoint(files, item) for item in manifest.checkpoints]
    for item, signed in zip(manifest.checkpoints, named, strict=True):
        if item.epoch != signed.checkpoint.size:
            _refuse(item.path, f"it is of {signed.checkpoint.size} entries, not of {item.epoch}")
    kept = [*_ahead(files, named), *kept]
    paths = [item.path for item in manifest.checkpoints] + [item.where for item in kept]
    found = zip(paths, [*named, *map(_parsed, kept)], strict=True)
    anchors = [_anchor(where, signed, manifest, keys) for where, signed in found]
    return sorted(anchors, key=lambda anchor: anchor.epoch)


def _anchor(
    where: str, signed: SignedCheckpoint, manifest: Manifest, keys: Sequence[PublicKey]
) -> Anchor:
    checkpoint = signed.checkpoint
    if not checkpoint.is_of_log(origin_of(manifest.cluster)):
        _refuse(where, f"it is of {checkpoint.origin}, and the manifest of {manifest.cluster}")
    try:
        signers = signed.verified_by(keys)
    except NoteError as error:
        raise ArchiveError(where, str(error)) from error
    return Anchor(
        where=where,
        epoch=Epoch(checkpoint.size),
        root=checkpoint.root,
        keys=signers,
        counts=bool(signers) or not keys,
    )


def _ahead(files: Folder, named: Sequence[SignedCheckpoint]) -> list[Kept]:
    """`checkpoint`, unless it is the newest that the manifest names; it must not be an older one.

    A crash while signing leaves one that the manifest does not name yet, and its file. It has to
    agree with the entries, too.
    """
    try:
        copy = Kept(CHECKPOINT, files.read(CHECKPOINT, bytes_max=CHECKPOINT_BYTES_MAX))
    except NotThereError:
        if named:
            raise
        return []
    if not named:
        return [copy]
    newest = named[-1]
    if copy.data == newest.encode():
        return []
    if not _follows(_parsed(copy), newest) or not _has_file(files, copy):
        _refuse(CHECKPOINT, "it is not the newest checkpoint that the manifest names")
    return [copy]


def _follows(copy: SignedCheckpoint, newest: SignedCheckpoint) -> bool:
    """Whether signing comes to it next: by more entries, or by signatures that none gave way to."""
    if copy.note.text == newest.note.text:
        return _signers(newest) <= _signers(copy)
    return copy.checkpoint.size > newest.checkpoint.size


def _signers(signed: SignedCheckpoint) -> set[tuple[str, bytes]]:
    return {(item.name, item.id) for item in signed.note.signatures}


def _has_file(files: Folder, copy: Kept) -> bool:
    path = checkpoint_path(size_of(copy), sha256(copy.data).hexdigest())
    try:
        return files.read(path, bytes_max=CHECKPOINT_BYTES_MAX) == copy.data
    except NotThereError:
        return False


def size_of(kept: Kept) -> int:
    """Of how many entries it is."""
    return _parsed(kept).checkpoint.size


def _parsed(kept: Kept) -> SignedCheckpoint:
    return parsed(kept.where, kept.data)


def _refuse(where: str, fault: str) -> NoReturn:
    raise ArchiveError(where, fault)
