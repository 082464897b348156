"""Files that nobody needs any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import PurePosixPath

from metadata.sessions import SessionId
from store import manifest
from store.manifest import STAGED
from store.means import SEGMENTS, Means

SWEPT_MAX = 1000
READERS_TIMEOUT_S = 30.0


async def sweep(means: Means) -> int:
    """Delete the files of removed segments that no session has pinned and nobody reads.

    The file goes before its line in the manifest, so that a crash between them is made good next
    time.
    """
    found = await means.database.read(lambda c: manifest.deletable(c, SWEPT_MAX))
    if not found or not await means.readers.drained(READERS_TIMEOUT_S):
        return 0
    for _, path in found:
        await asyncio.to_thread(means.folder.delete, path)
        await means.reached("sweep-deleted")
    ids = [segment for segment, _ in found]
    await means.database.write(lambda c: manifest.delete(c, ids))
    return len(found)


async def sweep_orphans(means: Means) -> list[str]:
    """At start, before anything is written: files that were never published."""
    return await _delete_unnamed(means, await asyncio.to_thread(means.folder.files, SEGMENTS))


async def sweep_staged(means: Means, is_open: Callable[[SessionId], bool]) -> list[str]:
    """Files in `staged/SESSION/…` whose session is closed and that nobody registered."""
    staged = await asyncio.to_thread(means.folder.files, STAGED)
    closed = [path for path in staged if not _open(path, is_open)]
    gone = await _delete_unnamed(means, closed)
    for folder in await asyncio.to_thread(means.folder.folders, STAGED):
        if not _open(folder, is_open):
            await asyncio.to_thread(means.folder.delete_empty, folder)
    return gone


async def _delete_unnamed(means: Means, files: list[str]) -> list[str]:
    named = await means.database.read(manifest.paths)
    gone = [path for path in files if path not in named]
    for path in gone:
        await asyncio.to_thread(means.folder.delete, path)
    return gone


def _open(path: str, is_open: Callable[[SessionId], bool]) -> bool:
    session = PurePosixPath(path).parts[1]
    return session.isdigit() and is_open(SessionId(int(session)))
