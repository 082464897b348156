"""Checkpoints to hold a log against: those of an archive, and those that somebody kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import msgspec

from audit.archive import CHECKPOINT, Manifest
from audit.checkpoints import CHECKPOINT_BYTES_MAX, SignedCheckpoint, origin_of, parse_checkpoint
from audit.errors import ArchiveError, NotThereError
from audit.folder import Folder
from audit.keys import PublicKey
from audit.notes import NoteError
from audit.stored_checkpoints import read_checkpoint
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
    if named:
        _check_copy(files, named)
    else:
        kept = [*_unnamed(files), *kept]
    paths = [item.path for item in manifest.checkpoints] + [item.where for item in kept]
    found = zip(paths, [*named, *map(_parsed, kept)], strict=True)
    anchors = [_anchor(where, signed, manifest, keys) for where, signed in found]
    return sorted(anchors, key=lambda anchor: anchor.epoch)


def _anchor(
    where: str, signed: SignedCheckpoint, manifest: Manifest, keys: Sequence[PublicKey]
) -> Anchor:
    checkpoint = signed.checkpoint
    if checkpoint.origin != origin_of(manifest.cluster):
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


def _check_copy(files: Folder, named: Sequence[SignedCheckpoint]) -> None:
    """`checkpoint` is one that the manifest names, perhaps from before more keys had signed it."""
    copy = _parsed(Kept(CHECKPOINT, files.read(CHECKPOINT, bytes_max=CHECKPOINT_BYTES_MAX))).note
    if not any(
        copy.text == signed.note.text and set(copy.signatures) <= set(signed.note.signatures)
        for signed in named
    ):
        _refuse(CHECKPOINT, "it is none of the checkpoints that the manifest names")


def size_of(kept: Kept) -> int:
    """Of how many entries it is."""
    return _parsed(kept).checkpoint.size


def _unnamed(files: Folder) -> list[Kept]:
    """One that a crash while signing left before the manifest named it; it has to agree, too."""
    try:
        return [Kept(CHECKPOINT, files.read(CHECKPOINT, bytes_max=CHECKPOINT_BYTES_MAX))]
    except NotThereError:
        return []


def _parsed(kept: Kept) -> SignedCheckpoint:
    try:
        return parse_checkpoint(kept.data)
    except NoteError as error:
        raise ArchiveError(kept.where, str(error)) from error


def _refuse(where: str, fault: str) -> NoReturn:
    raise ArchiveError(where, fault)
