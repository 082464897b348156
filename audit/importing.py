"""Restoring a log from an archive into a database that has none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

import msgspec

from audit.errors import ArchiveError
from audit.lineage import Lineage, Lineages
from audit.passing import Watch
from audit.reading import Archive, Joined
from log.chain import NO_ENTRIES, Tip, tip_of
from log.entry import SealedEntry
from log.replay import NOTHING_APPLIED, Applied, ReplayError, apply
from log.store import Appended, LogStore
from metadata.epoch import EMPTY, Epoch
from snapshots.restore import taken
from snapshots.store import SnapshotStore

BATCH_ENTRIES_MAX = 1000
BATCH_BYTES_MAX = 8 * 1024 * 1024
"""What goes into one statement; a single entry may be larger."""


class ImportRefusedError(Exception):
    """The database is not one that may be filled. The message is one sentence for people."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The stores of one database."""

    log: LogStore
    snapshots: SnapshotStore
    lineages: Lineages


class Importer(msgspec.Struct, frozen=True, kw_only=True):
    """Who imports, on whose word, and the name of the new line of history."""

    name: str
    lineage: UUID
    anchored_by: tuple[str, ...] = ()


async def import_archive(
    source: Archive | Joined,
    into: Target,
    by: Importer,
    progress: Watch = lambda _done, _total: None,
) -> Lineage:
    """Fill an empty log with all entries, each executed again on the way, and return the record.

    One that was broken off goes on where it stopped. No log service may run on the database
    meanwhile: the first entry that it commits makes the rest refused.
    """
    lineage = _lineage(source, by)
    onto = await _begun(source, into, lineage)
    kept = set(source.snapshots()) | {source.tip.epoch}
    applied = NOTHING_APPLIED
    for batch in _batches(source.entries(EMPTY, source.tip.epoch)):
        shortcuts = []
        for sealed in batch:
            applied = _applied(sealed, applied)
            if sealed.epoch in kept:
                shortcuts.append(await taken(applied))
        onto = await _append([item for item in batch if item.epoch > onto.epoch], onto, into)
        for snapshot in shortcuts:
            await into.snapshots.save(snapshot, created_by=by.name)
        progress(applied.metadata.epoch, source.tip.epoch)
    assert onto == source.tip, (onto, source.tip)
    return lineage


def _lineage(source: Archive | Joined, by: Importer) -> Lineage:
    last = source if isinstance(source, Archive) else source.archives[-1]
    if source.after != NO_ENTRIES:
        raise ArchiveError(
            last.files.name, f"it begins after epoch {source.after.epoch}: add what goes before"
        )
    manifest = last.manifest
    return Lineage(
        id=by.lineage,
        cluster=manifest.cluster,
        epoch=source.tip.epoch,
        hash=source.tip.hash,
        root=bytes.fromhex(manifest.tip.root),
        archive=last.files.name,
        anchored_by=by.anchored_by,
        recorded_by=by.name,
    )


async def _begun(source: Archive | Joined, into: Target, lineage: Lineage) -> Tip:
    """Where the log ends that may be filled: nowhere yet, or inside the same archive."""
    tip = await into.log.tip()
    recorded = await into.lineages.recorded()
    is_ours = bool(recorded) and recorded[0].tip == lineage.tip
    if tip == NO_ENTRIES:
        if not is_ours:
            await into.lineages.record(lineage)
        return tip
    if not is_ours or tip.epoch > lineage.epoch:
        raise ImportRefusedError(
            f"The database is not empty: its log ends at epoch {tip.epoch}; make a new one."
        )
    if _tip_at(source, tip.epoch) != tip:
        raise ImportRefusedError(
            f"The log went another way than the archive, at epoch {tip.epoch} or before; "
            "make a new database."
        )
    return tip


def _tip_at(source: Archive | Joined, epoch: Epoch) -> Tip:
    """The hash of the source at an epoch that it holds."""
    (sealed,) = source.entries(Epoch(epoch - 1), epoch)
    return tip_of(sealed)


async def _append(entries: list[SealedEntry], onto: Tip, into: Target) -> Tip:
    if not entries:
        return onto
    await into.lineages.make_room(entries[-1].epoch)
    outcome = await into.log.append(entries, onto=onto)
    if not isinstance(outcome, Appended):
        raise ImportRefusedError(
            f"Somebody else appends to the log behind epoch {onto.epoch}: stop every log service "
            "on this database and begin again with a new one."
        )
    return outcome.tip


def _applied(sealed: SealedEntry, onto: Applied) -> Applied:
    try:
        return apply(sealed, onto)
    except ReplayError as error:
        raise ArchiveError("the archive", error.fault, epoch=error.epoch) from error


def _batches(entries: Iterable[SealedEntry]) -> Iterator[list[SealedEntry]]:
    batch: list[SealedEntry] = []
    size_bytes = 0
    for sealed in entries:
        full = len(batch) >= BATCH_ENTRIES_MAX or size_bytes + len(sealed.payload) > BATCH_BYTES_MAX
        if batch and full:
            yield batch
            batch, size_bytes = [], 0
        batch.append(sealed)
        size_bytes += len(sealed.payload)
    if batch:
        yield batch
