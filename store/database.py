"""The one SQLite file in which a node keeps its own log, snapshots, hot rows and manifest."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import TypeVar

from store.failures import (
    CorruptFileError,
    DiskFailedError,
    DiskFullError,
    FileInUseError,
    NewerFileError,
    named_os,
    named_sqlite,
)
from store.worker import Job, Worker

T = TypeVar("T")

FORMAT = 1
"""Kept in the file as `user_version`; raised when an older release could misread the file."""

WAITING_MAX = 4096
BUSY_TIMEOUT_S = 10.0
WAL_BYTES_MAX = 64 * 1024 * 1024
CACHE_KIB = 16 * 1024

_LOSING = (DiskFullError, DiskFailedError, CorruptFileError)
"""What fails one job for the sake of the file, and with it all that share its transaction."""


class Database:
    """One writer thread and one reader thread over one file."""

    def __init__(self, path: Path, writer: Worker, reader: Worker) -> None:
        self.path = path
        self._writer = writer
        self._reader = reader

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a transaction; returns once it is on disk.

        What waits at the same moment shares one transaction and one fsync. If `work` raises, its
        own changes are undone, those of the others stay, and the caller gets the exception. It
        must neither commit nor roll back.
        """
        return await self._writer.submit(work)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on one consistent state that has every write that returned before."""
        return await self._reader.submit(work)


@asynccontextmanager
async def opened(path: Path, schemas: Sequence[str]) -> AsyncIterator[Database]:
    """`schemas` are scripts that may run again and again: `CREATE TABLE IF NOT EXISTS …`."""
    stack, writing, reading = await asyncio.to_thread(_prepared, path, schemas)
    writer = Worker("store-writer", _Transaction(writing, path).run, waiting_max=WAITING_MAX)
    reader = Worker("store-reader", _Snapshot(reading, path).run, waiting_max=WAITING_MAX)
    for worker in (writer, reader):
        worker.start()
        stack.callback(worker.stop)
    try:
        yield Database(path, writer, reader)
    finally:
        writer.refuse()
        reader.refuse()
        # In a thread, because it waits for what was under way; it ends even if we are cancelled.
        await asyncio.to_thread(stack.close)


def _prepared(
    path: Path, schemas: Sequence[str]
) -> tuple[ExitStack, sqlite3.Connection, sqlite3.Connection]:
    """Take the lock and bring the file up to date; closing the stack undoes all of it."""
    with ExitStack() as stack:
        stack.callback(os.close, _locked(path))
        try:
            writing = stack.enter_context(closing(_connected(path)))
            _check_format(writing, path)
            writing.execute("PRAGMA journal_mode = WAL")
            for schema in schemas:
                writing.executescript(schema)
            writing.execute(f"PRAGMA user_version = {FORMAT}")
            reading = stack.enter_context(closing(_connected(path)))
            reading.execute("PRAGMA query_only = ON")
        except sqlite3.Error as error:
            raise named_sqlite(error, str(path)) from error
        return stack.pop_all(), writing, reading


def _locked(path: Path) -> int:
    beside = path.with_name(path.name + ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise named_os(error, str(beside)) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise FileInUseError(
            f"{path} is in use by another process: stop it, or give this one a state directory "
            "of its own."
        ) from None
    return lock


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    return connection


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found > FORMAT:
        raise NewerFileError(
            f"{path} has format {found} and this release knows formats up to {FORMAT}: "
            "start the newer release again."
        )


class _Transaction:
    """All jobs of a batch in one transaction, each in a savepoint of its own."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = str(path)

    def run(self, batch: list[Job]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for job in batch:
                self._run_one(job)
            self._connection.execute("COMMIT")
        except (sqlite3.Error, MemoryError) as error:
            self._give_up(batch, _named(error, self._path))

    def _run_one(self, job: Job) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(self._connection)
        except Exception as error:  # noqa: BLE001 - it is the caller's, who gets it
            job.failure = _named(error, self._path)
            # Some errors make SQLite give up the whole transaction, with what others did in it;
            # then this statement fails and so does the batch.
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")

    def _give_up(self, batch: list[Job], failure: Exception) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        found = next((job.failure for job in batch if isinstance(job.failure, _LOSING)), failure)
        for job in batch:
            job.failure = job.failure or found


class _Snapshot:
    """All jobs of a batch on one state: they were asked for before it was taken."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = str(path)

    def run(self, batch: list[Job]) -> None:
        if self._connection.in_transaction:
            # The last batch could not end its own, which knows nothing of what came since.
            self._connection.execute("ROLLBACK")
        for job in batch:
            try:
                if not self._connection.in_transaction:
                    self._connection.execute("BEGIN")
                job.result = job.work(self._connection)
            except Exception as error:  # noqa: BLE001 - it is the caller's, who gets it
                job.failure = _named(error, self._path)
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")


def _named(error: Exception, path: str) -> Exception:
    return named_sqlite(error, path) if isinstance(error, sqlite3.Error) else error
