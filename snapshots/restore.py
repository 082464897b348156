"""From a snapshot, or from nothing, to metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from encoding.errors import DecodeError
from encoding.images import decode_image, encode_image
from log.chain import link
from log.entry import SealedEntry
from log.replay import NOTHING_APPLIED, Applied
from log.store import LogStore, TrimmedError
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


async def newest_usable(
    store: SnapshotStore, log: LogStore, *, up_to: Epoch, report: Report
) -> Applied:
    """The newest snapshot that can be read, or nothing; the log leads on from there."""
    for info in await store.listed(up_to=up_to, limit=CANDIDATES_MAX):
        snapshot = await store.load(info.epoch)
        if snapshot is None:
            continue
        try:
            check_vouched(snapshot, await _recorded(log, info.epoch))
            return await asyncio.to_thread(opened, snapshot)
        except DecodeError as error:
            report(info.epoch, str(error))
    return NOTHING_APPLIED


class Recorded(msgspec.Struct, frozen=True):
    """What a log says of an epoch; None is what it does not keep."""

    hash: bytes | None = None
    digest: bytes | None = None


def recorded_by(sealed: SealedEntry) -> Recorded:
    return Recorded(sealed.hash, sealed.entry.digest)


def check_vouched(snapshot: Snapshot, recorded: Recorded) -> None:
    """Nothing in an image depends on the hash beside it, yet all that follows is chained to it."""
    if recorded.hash not in (None, snapshot.hash):
        raise DecodeError(f"The hash is not that of the entry at epoch {snapshot.epoch}.")
    if recorded.digest not in (None, snapshot.digest):
        raise DecodeError(f"The digest is not that of the entry at epoch {snapshot.epoch}.")


async def _recorded(log: LogStore, epoch: Epoch) -> Recorded:
    """An entry that is damaged itself says nothing against a snapshot that leads past it."""
    known = await log.hash_at(epoch)
    try:
        kept = await log.read_after(Epoch(epoch - 1), entries_max=1, bytes_max=1)
    except TrimmedError:
        return Recorded(known)
    whole = (sealed for sealed in kept if link(sealed.previous_hash, sealed.payload) == known)
    return next(map(recorded_by, whole), Recorded(known))


def opened(snapshot: Snapshot) -> Applied:
    """What the image says, if it is the image of that epoch."""
    metadata = decode_image(snapshot.image)
    if metadata.epoch != snapshot.epoch or metadata.digest != snapshot.digest:
        raise DecodeError(f"The image is not that of epoch {snapshot.epoch}.")
    return Applied(metadata, snapshot.hash)
