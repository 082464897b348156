"""From a snapshot, or from nothing, to metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from encoding.errors import DecodeError
from encoding.images import decode_image, encode_image
from log.replay import NOTHING_APPLIED, Applied
from metadata.epoch import Epoch
from snapshots.store import Snapshot, SnapshotStore

CANDIDATES_MAX = 20
"""How many snapshots are tried before replaying from the beginning."""

Report = Callable[[Epoch, str], None]
"""Told of a snapshot that could not be used, and why."""


def written(applied: Applied) -> Snapshot:
    """The version written out."""
    return Snapshot(
        epoch=applied.metadata.epoch,
        digest=applied.metadata.digest,
        hash=applied.hash,
        image=encode_image(applied.metadata),
    )


async def taken(applied: Applied) -> Snapshot:
    """The same in a thread, because a large one takes a while."""
    return await asyncio.to_thread(written, applied)


async def newest_usable(store: SnapshotStore, *, up_to: Epoch, report: Report) -> Applied:
    """The newest snapshot that can be read, or nothing; the log leads on from there."""
    for info in await store.listed(up_to=up_to, limit=CANDIDATES_MAX):
        snapshot = await store.load(info.epoch)
        if snapshot is None:
            continue
        try:
            return await asyncio.to_thread(opened, snapshot)
        except DecodeError as error:
            report(info.epoch, str(error))
    return NOTHING_APPLIED


def opened(snapshot: Snapshot) -> Applied:
    """What the image says, if it is the image of that epoch."""
    metadata = decode_image(snapshot.image)
    if metadata.epoch != snapshot.epoch or metadata.digest != snapshot.digest:
        raise DecodeError(f"The image is not that of epoch {snapshot.epoch}.")
    return Applied(metadata, snapshot.hash)
