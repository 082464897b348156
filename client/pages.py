"""Pages of the log and snapshots of it, from a CMS or from another node."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import islice

import msgspec

from client.connection import Connection
from client.containers import notes_in, verified_container
from client.errors import CorruptEntryError
from client.transport import Request
from encoding.errors import DecodeError
from encoding.images import decode_image
from log.containers import MEDIA_TYPE
from log.entry import SealedEntry
from log.follower import Step
from log.replay import Applied
from metadata.epoch import EMPTY, Epoch

PAGE_ENTRIES = 1_000
IMAGE_TYPE = "avro/binary"
IMAGE_WAIT_S = 20.0
"""It may be large, and whoever is cut short asks the next CMS for the same bytes."""
DIGITS_MAX = 16


class Page(msgspec.Struct, frozen=True):
    """Entries without a gap, behind what was applied or, where there is one, a snapshot."""

    tip: Epoch
    snapshot: Epoch | None
    entries: Sequence[SealedEntry]


def page_request(
    applied: Applied,
    *,
    wait_s: float = 0.0,
    snapshot: bool = False,
    headers: Mapping[str, str] | None = None,
) -> Request:
    """What comes behind `applied`, of a log that agrees with it."""
    epoch = applied.metadata.epoch
    query: dict[str, str | int] = {"after": epoch, "limit": PAGE_ENTRIES}
    if epoch != EMPTY:
        query["hash"] = applied.hash.hex()
        query["digest"] = applied.metadata.digest.hex()
    if wait_s:
        query["wait"] = int(wait_s)
    if snapshot:
        query["snapshot"] = "true"
    return Request(path="/v1/log", query=query, accept=MEDIA_TYPE, more_headers=headers or {})


def page_in(body: bytes, applied: Applied) -> Page:
    """An answer to `page_request`, every hash of it verified, and no more than was asked for.

    Whoever answers can chain any number of false entries to the hash that the question names.
    """
    notes = notes_in(body)
    tip = _epoch_in(notes.get("tip", ""))
    epoch, known = applied.metadata.epoch, applied.hash if applied.metadata.epoch else None
    if "snapshot" not in notes:
        entries = verified_container(body, after=epoch, after_hash=known)
        return Page(tip, None, list(islice(entries, PAGE_ENTRIES)))
    snapshot = _epoch_in(notes["snapshot"])
    entries = verified_container(body, after=snapshot, after_hash=None)
    return Page(tip, snapshot, list(islice(entries, PAGE_ENTRIES)))


def _epoch_in(note: str) -> Epoch:
    """Whoever answers may lie, also with a number that takes a day to read."""
    if not note.isascii() or not note.isdigit() or len(note) > DIGITS_MAX:
        raise CorruptEntryError("The entries came without the tip, or with one that is none.")
    return Epoch(int(note))


class CmsLog:
    """The log, by way of any CMS that answers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def page(self, applied: Applied, *, wait_s: float, snapshot: bool) -> Page:
        """What comes behind `applied`; held up to `wait_s` while there is nothing."""
        request = page_request(applied, wait_s=wait_s, snapshot=snapshot)
        return page_in(await self._connection.read(request, wait_s=wait_s), applied)

    async def snapshot(self, epoch: Epoch) -> Step:
        """The metadata at a snapshot, believed because the entry of that epoch has its digest."""
        read = self._connection.read
        asked = Request(path=f"/v1/snapshots/{epoch}", accept=IMAGE_TYPE)
        image = await read(asked, wait_s=IMAGE_WAIT_S)
        body = await read(Request(path=f"/v1/log/{epoch}", accept=MEDIA_TYPE))
        entries = list(verified_container(body, after=Epoch(epoch - 1), after_hash=None))
        try:
            metadata = await asyncio.to_thread(decode_image, image)
        except DecodeError as error:
            raise CorruptEntryError(f"The snapshot at epoch {epoch} is damaged: {error}") from error
        vouched_for = [(sealed.epoch, sealed.entry.digest) for sealed in entries]
        if [(metadata.epoch, metadata.digest)] != vouched_for:
            raise CorruptEntryError(f"The snapshot at epoch {epoch} is not that epoch's metadata.")
        return Step(entries[0], Applied(metadata, entries[0].hash))
