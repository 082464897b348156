"""What can go wrong with a node's own files.

StoreError
├─ OverloadedError        too much waits already
├─ ClosedError            the store was closed
├─ DiskFullError          nothing of this write was kept
├─ DiskFailedError        the file system refused a read or a write
├─ FileInUseError         another process has the file
├─ NewerFileError         a newer release wrote the file
├─ CorruptFileError       the file is damaged
├─ InvalidRowError        a row does not fit its table
└─ SegmentError           a segment cannot be read
   ├─ SegmentMissingError
   ├─ SegmentSizeError
   ├─ SegmentChecksumError
   └─ SegmentUnreadableError
"""

from __future__ import annotations

import errno
import sqlite3


class StoreError(Exception):
    """Its text is a sentence for the operator."""

    retriable = False


class OverloadedError(StoreError):
    retriable = True


class ClosedError(StoreError):
    pass


class DiskFullError(StoreError):
    retriable = True


class DiskFailedError(StoreError):
    pass


class FileInUseError(StoreError):
    pass


class NewerFileError(StoreError):
    pass


class CorruptFileError(StoreError):
    pass


class InvalidRowError(StoreError):
    """`column` is the one at fault, if it is one."""

    def __init__(self, sentence: str, column: str | None = None) -> None:
        super().__init__(sentence)
        self.column = column


class SegmentError(StoreError):
    pass


class SegmentMissingError(SegmentError):
    pass


class SegmentSizeError(SegmentError):
    pass


class SegmentChecksumError(SegmentError):
    pass


class SegmentUnreadableError(SegmentError):
    pass


_PRIMARY = 0xFF
"""SQLite keeps the kind of an error in its lowest byte and the finer code above it."""

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def named_sqlite(error: sqlite3.Error, path: str) -> Exception:
    """The named failure behind what SQLite says, or the error itself if it is a bug of ours."""
    match getattr(error, "sqlite_errorcode", 0) & _PRIMARY:
        case sqlite3.SQLITE_FULL:
            return DiskFullError(f"There is no room for {path}: free some space and try again.")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return CorruptFileError(
                f"{path} is damaged ({error}): put the node's state directory aside, "
                "start with an empty one and replace the node."
            )
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY:
            return DiskFailedError(
                f"{path} cannot be read or written ({error}): check the disk and its permissions."
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return FileInUseError(
                f"{path} is locked by another process: end that one, then try again."
            )
        case _:
            return error


def named_os(error: OSError, path: str) -> Exception:
    if error.errno in _NO_SPACE:
        return DiskFullError(f"There is no room for {path}: free some space and try again.")
    return DiskFailedError(f"{path} cannot be read or written ({error}): check the disk.")
