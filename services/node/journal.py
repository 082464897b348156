"""A node's own copy of the log: entries and snapshots in its SQLite file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import structlog

from encoding.errors import DecodeError
from log.chain import seal_payload
from log.entry import SealedEntry
from log.follower import Step
from log.replay import NOTHING_APPLIED, Applied, ReplayError, apply
from metadata.epoch import Epoch, following
from snapshots.policy import Cadence
from snapshots.restore import Recorded, Report, check_vouched, opened, recorded_by, taken
from snapshots.store import Snapshot, SnapshotInfo
from store.database import Database
from store.failures import StoreError

logger = structlog.get_logger()

SCHEMA = """
CREATE TABLE IF NOT EXISTS journal_entries (
    epoch INTEGER PRIMARY KEY,
    payload BLOB NOT NULL,
    previous_hash BLOB NOT NULL,
    hash BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS journal_snapshots (
    epoch INTEGER PRIMARY KEY,
    digest BLOB NOT NULL,
    hash BLOB NOT NULL,
    image BLOB NOT NULL,
    created_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS journal_doubt (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    detail TEXT NOT NULL
);
"""

SNAPSHOTS_KEPT = 2
"""The newest, and one to fall back on; entries before the older one are let go."""
PAGE_ENTRIES_MAX = 1000
CREATED_BY = "node"


class Journal:
    """Everything that was applied is on disk before anybody hears of it.

    It holds entries without a gap from its oldest snapshot, or the beginning, up to the
    watermark. Snapshots are taken by the same cadence as those of the log.
    """

    def __init__(self, database: Database) -> None:
        self.doubt = ""
        self._database = database
        self._cadence = Cadence()

    @property
    def path(self) -> Path:
        return self._database.path

    async def restored(self, report: Report) -> Applied:
        """Where this node was when it stopped, from its own disk alone.

        A snapshot that cannot be used, or that the entries behind it do not continue, is
        reported, and an older one or the beginning is tried. What is damaged is forgotten,
        because the log has it. `doubt` is from then on why the log had not agreed, if so.
        """
        self.doubt = await self._database.read(_doubted)
        for epoch in [*await self._database.read(_snapshot_epochs), None]:
            try:
                applied = await self._opened(epoch)
            except DecodeError as error:
                report(Epoch(epoch or 0), str(error))
                await self._database.write(partial(_forget_snapshot, epoch=epoch))
                continue
            replayed = await self._replayed(applied, report)
            if replayed is not None:
                return replayed
        report(Epoch(1), "the entries do not begin there, and no snapshot leads to them")
        await self._database.write(lambda connection: _forget_after(connection, Epoch(0)))
        return NOTHING_APPLIED

    async def append(self, steps: Sequence[Step]) -> None:
        await self._database.write(
            lambda connection: _insert(connection, [step.sealed for step in steps])
        )
        for step in steps:
            self._cadence = self._cadence.after(step.sealed)
        if self._cadence.due:
            self._cadence = Cadence()
            await self._keep_if_possible(await taken(steps[-1].applied))

    async def jump(self, to: Step) -> None:
        """What came before does not lead here any more, so it goes, in the same transaction.

        The entry stays beside the snapshot: it vouches for it.
        """
        snapshot = await taken(to.applied)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM journal_entries")
            connection.execute("DELETE FROM journal_snapshots")
            _insert(connection, [to.sealed])
            _insert_snapshot(connection, snapshot)

        await self._database.write(write)
        self._cadence = Cadence()

    async def keep_doubt(self, doubt: str) -> None:
        def write(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM journal_doubt")
            if doubt:
                connection.execute("INSERT INTO journal_doubt VALUES (1, ?)", (doubt,))

        await self._database.write(write)
        self.doubt = doubt

    async def entries_after(
        self, epoch: Epoch, *, entries_max: int, bytes_max: int
    ) -> Sequence[SealedEntry]:
        """From `epoch` + 1 on without a gap; none where that one is not kept."""
        return await self._database.read(
            lambda connection: _entries(connection, epoch, entries_max, bytes_max)
        )

    async def snapshots(self) -> Sequence[SnapshotInfo]:
        """Newest first."""
        return await self._database.read(_listed)

    async def image(self, epoch: Epoch) -> bytes | None:
        snapshot = await self._database.read(lambda connection: _loaded(connection, epoch))
        return None if snapshot is None else snapshot.image

    async def _keep_if_possible(self, snapshot: Snapshot) -> None:
        """The entries are kept, and lead as far without it; the next one comes in its turn."""
        try:
            await self._keep(snapshot)
        except StoreError as error:
            if not error.retriable:
                raise
            logger.warning("snapshot_not_kept", epoch=snapshot.epoch, error=str(error))

    async def _keep(self, snapshot: Snapshot) -> None:
        def write(connection: sqlite3.Connection) -> None:
            _insert_snapshot(connection, snapshot)
            kept = _snapshot_epochs(connection)[:SNAPSHOTS_KEPT]
            connection.execute("DELETE FROM journal_snapshots WHERE epoch < ?", (kept[-1],))
            if len(kept) == SNAPSHOTS_KEPT:
                connection.execute("DELETE FROM journal_entries WHERE epoch < ?", (kept[-1],))

        await self._database.write(write)

    async def _opened(self, epoch: int | None) -> Applied:
        if epoch is None:
            return NOTHING_APPLIED
        found = await self._database.read(lambda connection: _loaded(connection, epoch))
        assert found is not None
        around = await self.entries_after(Epoch(epoch - 1), entries_max=2, bytes_max=1 << 24)
        if not around:
            around = await self.entries_after(Epoch(epoch), entries_max=1, bytes_max=1)
        for sealed in around:
            check_vouched(found, _said_of(Epoch(epoch), sealed))
        return opened(found)

    async def _replayed(self, applied: Applied, report: Report) -> Applied | None:
        """As far as the entries lead; None where they do not even begin here."""
        start = applied.metadata.epoch
        (first, last) = await self._database.read(_extent)
        if start == 0 and first not in (None, 1):
            return None
        self._cadence = Cadence()
        while entries := await self.entries_after(
            applied.metadata.epoch, entries_max=PAGE_ENTRIES_MAX, bytes_max=1 << 24
        ):
            try:
                for sealed in entries:
                    applied = apply(sealed, applied)
                    self._cadence = self._cadence.after(sealed)
            except ReplayError as error:
                report(error.epoch, error.fault)
                break
        else:
            if last is not None and last > applied.metadata.epoch:
                report(following(applied.metadata.epoch), "it is damaged, or missing")
        reached = applied.metadata.epoch
        if last is not None and last > reached:
            await self._database.write(lambda connection: _forget_after(connection, reached))
        return applied


def _said_of(epoch: Epoch, sealed: SealedEntry) -> Recorded:
    """An entry says which hash the one before it has, and what it led to itself."""
    is_own = sealed.epoch == epoch
    return recorded_by(sealed) if is_own else Recorded(sealed.previous_hash)


def _insert(connection: sqlite3.Connection, entries: Sequence[SealedEntry]) -> None:
    rows = [(each.epoch, each.payload, each.previous_hash, each.hash) for each in entries]
    connection.executemany("INSERT INTO journal_entries VALUES (?, ?, ?, ?)", rows)


def _insert_snapshot(connection: sqlite3.Connection, snapshot: Snapshot) -> None:
    row = (snapshot.epoch, snapshot.digest, snapshot.hash, snapshot.image, time.time())
    connection.execute("INSERT OR REPLACE INTO journal_snapshots VALUES (?, ?, ?, ?, ?)", row)


def _snapshot_epochs(connection: sqlite3.Connection) -> list[int]:
    found = connection.execute("SELECT epoch FROM journal_snapshots ORDER BY epoch DESC")
    return [epoch for (epoch,) in found]


def _loaded(connection: sqlite3.Connection, epoch: int) -> Snapshot | None:
    query = "SELECT digest, hash, image FROM journal_snapshots WHERE epoch = ?"
    row = connection.execute(query, (epoch,)).fetchone()
    if row is None:
        return None
    return Snapshot(epoch=Epoch(epoch), digest=row[0], hash=row[1], image=row[2])


def _listed(connection: sqlite3.Connection) -> list[SnapshotInfo]:
    query = """SELECT epoch, digest, hash, length(image), created_at
               FROM journal_snapshots ORDER BY epoch DESC"""
    return [
        SnapshotInfo(
            epoch=Epoch(epoch),
            digest=digest,
            hash=entry_hash,
            size_bytes=size,
            created_at=datetime.fromtimestamp(created_at, UTC),
            created_by=CREATED_BY,
        )
        for epoch, digest, entry_hash, size, created_at in connection.execute(query)
    ]


def _doubted(connection: sqlite3.Connection) -> str:
    row = connection.execute("SELECT detail FROM journal_doubt").fetchone()
    return "" if row is None else str(row[0])


def _extent(connection: sqlite3.Connection) -> tuple[int | None, int | None]:
    row: tuple[int | None, int | None] = connection.execute(
        "SELECT min(epoch), max(epoch) FROM journal_entries"
    ).fetchone()
    return row


def _entries(
    connection: sqlite3.Connection, after: Epoch, entries_max: int, bytes_max: int
) -> list[SealedEntry]:
    query = """SELECT payload, previous_hash, hash FROM journal_entries
               WHERE epoch > ? ORDER BY epoch LIMIT ?"""
    found: list[SealedEntry] = []
    size_bytes = 0
    for payload, previous_hash, entry_hash in connection.execute(query, (after, entries_max)):
        size_bytes += len(payload)
        sealed = _intact(payload, previous_hash, entry_hash)
        if sealed is None or sealed.epoch != after + len(found) + 1:
            break
        if found and size_bytes > bytes_max:
            break
        found.append(sealed)
    return found


def _intact(payload: bytes, previous_hash: bytes, entry_hash: bytes) -> SealedEntry | None:
    """The entry, unless the disk has changed it."""
    try:
        sealed = seal_payload(payload, previous_hash)
    except DecodeError:
        return None
    return sealed if sealed.hash == entry_hash else None


def _forget_snapshot(connection: sqlite3.Connection, *, epoch: int | None) -> None:
    connection.execute("DELETE FROM journal_snapshots WHERE epoch = ?", (epoch,))


def _forget_after(connection: sqlite3.Connection, epoch: Epoch) -> None:
    connection.execute("DELETE FROM journal_entries WHERE epoch > ?", (epoch,))
    connection.execute("DELETE FROM journal_snapshots WHERE epoch > ?", (epoch,))
