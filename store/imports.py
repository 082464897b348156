"""Segments that somebody else wrote into the folder become the node's own, as they are."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Sequence
from pathlib import PurePosixPath

import msgspec

from metadata.schema import Table
from metadata.tokens import FULL, Range, Token
from store import manifest, segments
from store.failures import SegmentError, StoreError
from store.manifest import STAGED, Segment
from store.means import Guard, Means

FILES_MAX = 10_000


class Staged(msgspec.Struct, frozen=True, kw_only=True):
    """A file below `staged/` in the node's folder; `ranges` are those of its rows that count.

    Who knows the hash gives it; otherwise the one found on arrival is kept.
    """

    path: str
    size_bytes: int
    sha256: str | None = None
    ranges: tuple[Range, ...] = (FULL,)
    repaired: tuple[Range, ...] = ()


class ImportNameReusedError(StoreError):
    """A name stands for one list of files, for ever."""


async def register(
    means: Means, table: Table, name: str, files: Sequence[Staged], guard: Guard
) -> bool:
    """Publish all of them in one transaction; false if this name was registered before.

    The files stay where they are. Each is read once to check its hash; no row is parsed.
    """
    if len(files) > FILES_MAX:
        raise StoreError(f"An import has at most {FILES_MAX} files: split it.")
    content = hashlib.sha256(msgspec.json.encode((table.id, files))).digest()
    if await means.database.read(lambda c: _known(c, name, content)):
        return False
    found = [await asyncio.to_thread(_checked, means, table, file) for file in files]
    await means.reached("import-checked")

    def work(connection: sqlite3.Connection) -> bool:
        if _known(connection, name, content):
            return False
        guard(connection)
        manifest.note_import(connection, name, content)
        for segment in found:
            if segment is not None:
                _add(connection, segment, name)
        return True

    return await means.database.write(work)


def _add(connection: sqlite3.Connection, segment: Segment, name: str) -> None:
    try:
        manifest.add(connection, segment)
    except sqlite3.IntegrityError as error:
        raise SegmentError(
            f"{segment.path} was registered before under another name than {name}: "
            "stage it under a path of its own."
        ) from error


def _known(connection: sqlite3.Connection, name: str, content: bytes) -> bool:
    before = manifest.imported(connection, name)
    if before is not None and before != content:
        raise ImportNameReusedError(
            f"Import {name} was registered before with other files: take a new name."
        )
    return before is not None


def _checked(means: Means, table: Table, file: Staged) -> Segment | None:
    """None for a file without rows."""
    if PurePosixPath(file.path).parts[:1] != (STAGED,) or ".." in PurePosixPath(file.path).parts:
        raise SegmentError(f"{file.path} does not lie below {STAGED}/: stage it there.")
    bare = Segment(
        id=0,
        table=table.id,
        path=file.path,
        rows=0,
        size_bytes=file.size_bytes,
        sha256=file.sha256 or "",
        first=Token(0),
        last=Token(0),
        oldest=0,
        newest=0,
    )
    # Nothing is made of what the file says before it is known to be as it was written.
    if file.sha256 is not None:
        means.reader.verify(table, bare)
    sha256 = file.sha256 or means.reader.sha256(table, bare)
    end = means.reader.end(table, bare)
    footer = means.reader.footer(table, bare)
    if footer.parquet.num_rows == 0:
        return None
    # A job that wrote it did not wait for the disk; what is registered has to be on it.
    means.folder.sync(file.path)
    found = segments.described(
        table, file.path, footer.parquet, size_bytes=file.size_bytes, sha256=sha256, end=end
    )
    return msgspec.structs.replace(found, ranges=file.ranges, repaired=file.repaired)
