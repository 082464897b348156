"""What a job has left for a target, written down once: whoever comes later finds the same."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import PurePosixPath

import msgspec
from pyarrow import fs

from metadata.directory import NodeId
from metadata.plans import RangeChange
from metadata.receipts import Source, enough_sources
from metadata.schema import Column, TableId
from metadata.sequences import Sequence
from metadata.tokens import Range
from movement.files import located
from movement.receipts import SliceFigures
from store.folder import folder_at

MANIFESTS = "manifests"
MANIFEST_BYTES_MAX = 64 * 1024 * 1024


class StagedPart(msgspec.Struct, frozen=True, order=True):
    path: str
    size_bytes: int
    sha256: str


class Read(msgspec.Struct, frozen=True):
    """Whose rows make up a range, and when they were flushed."""

    range: Range
    sources: tuple[Source, ...]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`figures` are those of the sources; both sides are counted by these columns."""

    name: str
    table: TableId
    target: NodeId
    columns: tuple[Column, ...]
    reads: tuple[Read, ...]
    files: tuple[StagedPart, ...]
    figures: tuple[SliceFigures, ...]

    @property
    def ranges(self) -> tuple[Range, ...]:
        return tuple(item.range for item in self.reads)


class ManifestError(Exception):
    """Its text is a sentence for the operator."""


def publish(folder: str, manifest: Manifest, unique: str) -> Manifest:
    """Put it there unless there is one of that name; the one that is there is the answer."""
    shelf = folder_at(folder)
    path = _path(manifest.name)
    content = msgspec.json.encode(manifest)
    if "://" in folder:
        # Two at once may both write; the target takes one list of files under this name.
        if shelf.size_bytes(path) is None:
            with shelf.written(path) as sink:
                sink.write(content)
    else:
        draft = f"{MANIFESTS}/{manifest.name}.{unique}.draft"
        with shelf.written(draft) as sink:
            sink.write(content)
        with suppress(FileExistsError):
            os.link(PurePosixPath(folder) / draft, PurePosixPath(folder) / path)
        shelf.delete(draft)
    found = find(folder, manifest.name)
    if found is None:
        raise ManifestError(
            f"Manifest {manifest.name} in {folder} was removed at once: is its session closed?"
        )
    return found


def find(folder: str, name: str) -> Manifest | None:
    try:
        with folder_at(folder).opened(_path(name)) as source:
            content = source.read(MANIFEST_BYTES_MAX)
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(content, type=Manifest)
    except msgspec.MsgspecError as error:
        raise ManifestError(
            f"Manifest {name} in {folder} cannot be read ({error}): delete it and try again."
        ) from error


def all_there(manifest: Manifest) -> bool:
    """Whether each of its files exists and has its size; what is in them is not looked at."""
    for item in manifest.files:
        filesystem, path = located(item.path)
        found = filesystem.get_file_info(path)
        if found.type != fs.FileType.File or found.size != item.size_bytes:
            return False
    return True


def withdraw(folder: str, manifest: Manifest) -> None:
    """For a manifest whose files are not what it says, and which nobody has imported.

    One that somebody else has published in its place meanwhile may have been, and stays.
    """
    if find(folder, manifest.name) == manifest:
        folder_at(folder).delete(_path(manifest.name))


def discard(folder: str) -> None:
    """A folder that no manifest names."""
    filesystem, path = located(folder)
    with suppress(FileNotFoundError):
        filesystem.delete_dir(path)


def suits(manifest: Manifest, changes: dict[Range, RangeChange], sequence: Sequence) -> bool:
    """Whether it was made of sources that have every acknowledged row of these ranges."""
    if set(manifest.ranges) != set(changes):
        return False
    for item in manifest.reads:
        nodes = tuple(source.node for source in item.sources)
        if set(nodes) & set(sequence.dead):
            return False
        enough = enough_sources(changes[item.range], manifest.target, nodes)
        if not enough and not sequence.accept_loss:
            return False
    return True


def _path(name: str) -> str:
    return f"{MANIFESTS}/{name}.json"
