"""Checkpoints in an archive: those that the manifest names, and those that it should have named."""

from __future__ import annotations

import re
from collections.abc import Sequence

from audit.archive import CHECKPOINT, CHECKPOINTS, CheckpointFile, Manifest
from audit.checkpoints import (
    CHECKPOINT_BYTES_MAX,
    Checkpoint,
    SignedCheckpoint,
    origin_of,
    parse_checkpoint,
)
from audit.errors import ArchiveError, NotThereError
from audit.folder import Folder
from audit.notes import NoteError
from audit.tile_files import TileFiles
from metadata.epoch import Epoch

_NAMED_AS_OURS = re.compile(rf"{CHECKPOINTS}/\d{{12,}}-[0-9a-f]{{8}}")


def read_checkpoint(files: Folder, file: CheckpointFile) -> SignedCheckpoint:
    data = files.read(file.path, bytes_max=CHECKPOINT_BYTES_MAX)
    if not file.fits(data):
        raise ArchiveError(file.path, "it is not the file of the manifest")
    return parsed(file.path, data)


def parsed(where: str, data: bytes) -> SignedCheckpoint:
    try:
        return parse_checkpoint(data)
    except NoteError as error:
        raise ArchiveError(where, str(error)) from error


def unnamed_checkpoints(files: Folder, manifest: Manifest | None) -> Sequence[str]:
    """Files that a crash while signing left; one that does not fit the entries is an error.

    A crash leaves only checkpoints of trees that the archive has. Another is what somebody who
    changed the archive forgot to remove, or would have us remove.
    """
    named = set() if manifest is None else {item.path for item in manifest.checkpoints}
    found = [path for path in files.paths(CHECKPOINTS) if _NAMED_AS_OURS.fullmatch(path)]
    unnamed = [path for path in found if path not in named]
    for path in unnamed if named else [*unnamed, CHECKPOINT]:
        data = _found(files, path)
        if data is not None:
            _check(path, data, files, manifest)
    return unnamed


def _found(files: Folder, path: str) -> bytes | None:
    try:
        return files.read(path, bytes_max=CHECKPOINT_BYTES_MAX)
    except NotThereError:
        return None


def _check(path: str, data: bytes, files: Folder, manifest: Manifest | None) -> None:
    stated = parsed(path, data).checkpoint
    if manifest is None or not _is_of(stated, files, manifest):
        fault = (
            f"it was signed for {stated.size} entries that the archive does not hold, and the "
            "manifest does not name it: find out who changed what, or move it elsewhere"
        )
        raise ArchiveError(path, fault, epoch=Epoch(stated.size))


def _is_of(stated: Checkpoint, files: Folder, manifest: Manifest) -> bool:
    size = manifest.tip.epoch
    return (
        stated.is_of_log(origin_of(manifest.cluster))
        and manifest.after.epoch <= stated.size <= size
        and TileFiles(files, size).root_at(stated.size) == stated.root
    )
