"""Reading across the seam: what the log let go of comes from the archive that holds it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import structlog

from audit.errors import ArchiveError
from audit.reading import Archive, Joined, join, open_archive
from encoding.entries import EntryId
from log.chain import Tip
from log.entry import SealedEntry
from log.store import (
    AppendResult,
    Decision,
    LogStore,
    Refusal,
    StoreUnavailableError,
    TrimmedError,
)
from metadata.epoch import Epoch

logger = structlog.get_logger()

READS_AT_ONCE_MAX = 4
"""Each holds one segment of the archive in memory."""


class ThroughArchive:
    """A log store that answers also for entries that were trimmed, as if they had never been.

    What an archive says is held against the hashes that outlive the rows, so one that is of
    another history, or was changed, is not believed.
    """

    def __init__(self, log: LogStore, places: Sequence[str]) -> None:
        self._log = log
        self._places = places
        self._opened: Joined | None = None
        self._turn = asyncio.Semaphore(READS_AT_ONCE_MAX)

    async def append(
        self, entries: Sequence[SealedEntry], *, onto: Tip, refusals: Sequence[Refusal] = ()
    ) -> AppendResult:
        return await self._log.append(entries, onto=onto, refusals=refusals)

    async def decisions(self, entry_ids: Sequence[EntryId]) -> Mapping[EntryId, Decision]:
        return await self._log.decisions(entry_ids)

    async def hash_at(self, epoch: Epoch) -> bytes | None:
        return await self._log.hash_at(epoch)

    async def hashes_after(self, epoch: Epoch, *, entries_max: int) -> Sequence[bytes]:
        return await self._log.hashes_after(epoch, entries_max=entries_max)

    async def tip(self) -> Tip:
        return await self._log.tip()

    async def read_after(
        self, epoch: Epoch, *, entries_max: int, bytes_max: int
    ) -> Sequence[SealedEntry]:
        try:
            return await self._log.read_after(epoch, entries_max=entries_max, bytes_max=bytes_max)
        except TrimmedError as error:
            trimmed = error
        up_to = Epoch(min(epoch + entries_max, trimmed.seam))
        async with self._turn:
            found = await self._archived(epoch, up_to, bytes_max, trimmed)
        if found[-1].hash != await self._log.hash_at(found[-1].epoch):
            logger.error("archive_disagrees", epoch=found[-1].epoch, archives=self._places)
            raise TrimmedError(
                trimmed.seam, trimmed.archive, " (the one that is configured is of another history)"
            )
        return found

    async def _archived(
        self, epoch: Epoch, up_to: Epoch, bytes_max: int, trimmed: TrimmedError
    ) -> list[SealedEntry]:
        kept, self._opened = self._opened, None
        if kept is not None and kept.tip.epoch >= up_to:
            try:
                found = await asyncio.to_thread(_page, kept, epoch, up_to, bytes_max)
            except ArchiveError as error:
                # An archive grows, and then its last segment gets another name.
                logger.info("archive_reopened", fault=str(error))
            else:
                self._opened = kept
                return found
        try:
            opened = await asyncio.to_thread(_joined, self._places)
            if opened.tip.epoch < up_to:
                raise TrimmedError(
                    trimmed.seam, trimmed.archive, " (the one that is configured ends before that)"
                )
            found = await asyncio.to_thread(_page, opened, epoch, up_to, bytes_max)
        except ArchiveError as error:
            logger.warning("archive_unusable", fault=str(error))
            raise StoreUnavailableError(f"the archive cannot be read: {error}") from error
        self._opened = opened
        return found


def _joined(places: Sequence[str]) -> Joined:
    return join([open_archive(place) for place in places])


def _page(archives: Joined, after: Epoch, up_to: Epoch, bytes_max: int) -> list[SealedEntry]:
    """Entries of one segment at a time, so that no more than that is ever in memory."""
    found: list[SealedEntry] = []
    size_bytes = 0
    for sealed in archives.entries(after, _segment_end(archives, after, up_to)):
        size_bytes += len(sealed.payload)
        if found and size_bytes > bytes_max:
            break
        found.append(sealed)
    return found


def _segment_end(archives: Joined, after: Epoch, up_to: Epoch) -> Epoch:
    """Where the segment ends that holds the entry behind `after`, if that is before `up_to`."""
    holding: Archive | None = next(
        (item for item in archives.archives if item.after.epoch <= after < item.tip.epoch), None
    )
    lasts = () if holding is None else (segment.last for segment in holding.manifest.segments)
    return Epoch(min(up_to, next((last for last in lasts if last > after), up_to)))
