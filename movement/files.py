"""Files by the path or address that a node gives."""

from __future__ import annotations

from pyarrow import fs


def located(path: str) -> tuple[fs.FileSystem, str]:
    """On any file system that Arrow knows."""
    if "://" in path:
        filesystem, plain = fs.FileSystem.from_uri(path)
        return filesystem, str(plain)
    return fs.LocalFileSystem(), path
