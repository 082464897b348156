"""Where segments lie: a folder on any file system that Arrow knows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Protocol

import pyarrow as pa
from pyarrow import fs

from store.failures import SegmentMissingError, named_os

READ_BYTES_MAX = 1024 * 1024
LISTINGS_MAX = 10

_LENGTH_BYTES = 4
_TRAILER_BYTES = _LENGTH_BYTES + len(b"PAR1")
"""What ends a Parquet file: how long the footer before it is, and the name of the format."""


class Hashed:
    """A file being written; Arrow calls it. Knows the size and hash of what went through."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self.size_bytes = 0
        self.closed = False

    def write(self, data: pa.Buffer) -> int:
        self._stream.write(data)
        self._hash.update(data)
        self.size_bytes += len(data)
        return len(data)

    def flush(self) -> None:
        self._stream.flush()

    def tell(self) -> int:
        return self.size_bytes

    def close(self) -> None:
        self.closed = True

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def footer_bytes(source: pa.NativeFile) -> bytes:
    """The end of a Parquet file, as long as its last bytes say; all of it if that is wrong."""
    size_bytes = source.size()
    source.seek(max(0, size_bytes - _TRAILER_BYTES))
    length = _TRAILER_BYTES + int.from_bytes(source.read(_LENGTH_BYTES), "little")
    source.seek(max(0, size_bytes - length))
    return bytes(source.read())


class Folder:
    """Paths are relative to it. What `written` has left is on disk, also after a power cut."""

    def __init__(self, filesystem: fs.FileSystem, path: str) -> None:
        self._filesystem = filesystem
        self._path = PurePosixPath(path)

    @contextmanager
    def written(self, path: str) -> Iterator[Hashed]:
        """A new file; nothing of it stays if the block raises."""
        full = str(self._path / path)
        try:
            self._filesystem.create_dir(str(PurePosixPath(full).parent), recursive=True)
            with self._filesystem.open_output_stream(full) as stream:
                yield Hashed(stream)
            self.sync(path)
        except OSError as error:
            self.delete(path)
            raise named_os(error, full) from error
        except BaseException:
            self.delete(path)
            raise

    def opened(self, path: str) -> pa.NativeFile:
        """Raises `FileNotFoundError`."""
        return self._filesystem.open_input_file(str(self._path / path))

    def size_bytes(self, path: str) -> int | None:
        """None if there is no such file."""
        found = self._filesystem.get_file_info(str(self._path / path))
        return found.size if found.type == fs.FileType.File else None

    def sha256(self, path: str) -> str:
        hashed = hashlib.sha256()
        with self._filesystem.open_input_stream(str(self._path / path)) as stream:
            while data := stream.read(READ_BYTES_MAX):
                hashed.update(data)
        return hashed.hexdigest()

    def footer(self, path: str) -> bytes:
        with self.opened(path) as source:
            return footer_bytes(source)

    def delete(self, path: str) -> None:
        """One that is gone already is fine."""
        try:
            self._filesystem.delete_file(str(self._path / path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise named_os(error, path) from error

    def files(self, under: str) -> list[str]:
        """All files below a sub-folder, as paths relative to this folder."""
        selector = fs.FileSelector(str(self._path / under), recursive=True, allow_not_found=True)
        return sorted(
            str(PurePosixPath(info.path).relative_to(self._path))
            for info in self._found(selector)
            if info.type == fs.FileType.File
        )

    def folders(self, under: str) -> list[str]:
        """The sub-folders straight below a sub-folder."""
        selector = fs.FileSelector(str(self._path / under), allow_not_found=True)
        return sorted(
            str(PurePosixPath(info.path).relative_to(self._path))
            for info in self._found(selector)
            if info.type == fs.FileType.Directory
        )

    def delete_empty(self, path: str) -> None:
        """Remove a sub-folder in which no file is left."""
        if self.files(path):
            return
        full = str(self._path / path)
        try:
            self._filesystem.delete_dir(full)
        except FileNotFoundError:
            return
        except OSError as error:
            raise named_os(error, full) from error

    def _found(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        try:
            return self._listed(selector)
        except OSError as error:
            raise named_os(error, str(selector.base_dir)) from error

    def _listed(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """Jobs make and remove folders meanwhile; one that came or went is looked at again."""
        for _ in range(LISTINGS_MAX - 1):
            try:
                return list(self._filesystem.get_file_info(selector))
            except FileNotFoundError:
                continue
        return list(self._filesystem.get_file_info(selector))

    def sync(self, path: str) -> None:
        """Have a file on disk that somebody wrote, also after a power cut.

        Elsewhere a file is durable when it is closed; a local one needs to be told.
        """
        full = str(self._path / path)
        if not isinstance(self._filesystem, fs.LocalFileSystem):
            return
        for place in (full, *self._parents(full)):
            try:
                _fsync(place)
            except FileNotFoundError as error:
                raise SegmentMissingError(
                    f"{path} was removed before it was on disk: write it again."
                ) from error
            except OSError as error:
                raise named_os(error, place) from error

    def _parents(self, full: str) -> list[str]:
        """The folders whose entries lead to the file, the one that holds this folder included."""
        inner = [item for item in PurePosixPath(full).parents if item.is_relative_to(self._path)]
        return [str(item) for item in (*inner, self._path.parent)]


def _fsync(place: str) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def folder_at(uri: str) -> Folder:
    """A local path, or the URI of a folder on any file system that Arrow knows."""
    if "://" in uri:
        return Folder(*fs.FileSystem.from_uri(uri))
    return Folder(fs.LocalFileSystem(), str(Path(uri).absolute()))


class _Stream(Protocol):
    def write(self, data: pa.Buffer) -> int: ...

    def flush(self) -> None: ...
