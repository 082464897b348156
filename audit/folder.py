"""A folder on any file system that Arrow knows, written so that a crash leaves no half file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pyarrow import fs

from audit.errors import ArchiveError, NotThereError

PARTIAL = ".partial"
"""Ends the name of a file that is being written."""


class Folder:
    """Files by their path inside the folder, which is a path or a URI."""

    def __init__(self, files: fs.FileSystem, root: str, name: str) -> None:
        self._files = files
        self._root = root.rstrip("/")
        self.name = name
        self._unsettled: set[str] = set()

    def read(self, path: str, *, bytes_max: int) -> bytes:
        """The whole file; one that is larger is refused before it is read."""
        try:
            with self._files.open_input_file(self._whole(path)) as stream:
                size_bytes = stream.size()
                if size_bytes > bytes_max:
                    raise ArchiveError(path, f"its {size_bytes} bytes are more than {bytes_max}")
                data: bytes = stream.read()
        except FileNotFoundError:
            raise NotThereError(path) from None
        except OSError as error:
            raise ArchiveError(path, f"it cannot be read: {error}") from error
        return data

    def write(self, path: str, data: bytes) -> None:
        """The old file or the new one is there at any moment, also after a crash."""
        whole = self._whole(path)
        try:
            self._files.create_dir(str(PurePosixPath(whole).parent), recursive=True)
            with self._files.open_output_stream(whole + PARTIAL) as stream:
                stream.write(data)
            if self._is_local:
                # Its bytes before its name; names are settled together, later.
                _sync(whole + PARTIAL)
            self._files.move(whole + PARTIAL, whole)
        except OSError as error:
            raise ArchiveError(path, f"it cannot be written: {error}") from error
        self._unsettled.add(str(PurePosixPath(whole).parent))

    def settle(self) -> None:
        """Return when what was written stays, whatever happens to the machine."""
        if self._is_local:
            for parent in self._unsettled:
                _sync(parent)
        self._unsettled.clear()

    def delete(self, path: str) -> None:
        try:
            self._files.delete_file(self._whole(path))
        except OSError as error:
            raise ArchiveError(path, f"it cannot be removed: {error}") from error

    def paths(self, under: str = "") -> Iterator[str]:
        """The files below a sub-folder, in order; none where it does not exist."""
        top = self._whole(under).rstrip("/")
        selector = fs.FileSelector(top, recursive=True, allow_not_found=True)
        try:
            found = self._files.get_file_info(selector)
        except OSError as error:
            raise ArchiveError(under or self.name, f"it cannot be listed: {error}") from error
        start = len(self._root) + 1
        yield from sorted(info.path[start:] for info in found if info.type == fs.FileType.File)

    @property
    def _is_local(self) -> bool:
        return isinstance(self._files, fs.LocalFileSystem)

    def _whole(self, path: str) -> str:
        return f"{self._root}/{path}"


def folder(place: str | Path) -> Folder:
    """A local path, or a URI such as s3://bucket/archive."""
    text = str(place)
    if "://" not in text:
        return Folder(fs.LocalFileSystem(), str(Path(text).absolute()), text)
    try:
        files, root = fs.FileSystem.from_uri(text)
    except (OSError, ValueError) as error:
        raise ArchiveError(text, f"it is no place that Arrow knows: {error}") from error
    return Folder(files, root, text)


def _sync(path: str) -> None:
    """Wait until the file, or the names in the directory, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
