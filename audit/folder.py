"""A folder on any file system that Arrow knows, written so that a crash leaves no half file."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
        self._check_regular(path)
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

    def _check_regular(self, path: str) -> None:
        """A pipe or a device in place of a file would be waited for, or never end."""
        if not self._is_local:
            return
        with suppress(OSError):  # Opening it tells what is wrong.
            if not stat.S_ISREG(Path(self._whole(path)).stat().st_mode):
                raise ArchiveError(path, "it is not a regular file")

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

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else is alone in it meanwhile, on a local disk; elsewhere nothing sees to that."""
        if not self._is_local:
            yield
            return
        try:
            Path(self._root).mkdir(parents=True, exist_ok=True)
            handle = os.open(self._root, os.O_RDONLY)
        except OSError as error:
            raise ArchiveError(self.name, f"it cannot be written: {error}") from error
        try:
            self._lock(handle)
            yield
        finally:
            os.close(handle)

    def _lock(self, handle: int) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ArchiveError(
                self.name, "somebody else writes to it: wait until that is done"
            ) from None
        except OSError:
            return  # A file system without locks on folders, as some of other machines are.

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
