"""One file, one writer, and nothing acknowledged that is not on disk."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from store.database import FORMAT, opened
from store.failures import (
    ClosedError,
    CorruptFileError,
    DiskFailedError,
    DiskFullError,
    FileInUseError,
    InvalidRowError,
    NewerFileError,
    OverloadedError,
)
from store.worker import Worker

SCHEMA = "CREATE TABLE IF NOT EXISTS numbers (number INTEGER PRIMARY KEY)"


def insert(number):
    def work(connection):
        connection.execute("INSERT INTO numbers VALUES (?)", (number,))
        return number

    return work


def numbers(connection):
    return [number for (number,) in connection.execute("SELECT number FROM numbers ORDER BY 1")]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "node.sqlite"


@pytest.fixture
async def database(path):
    async with opened(path, [SCHEMA]) as found:
        yield found


class Gate:
    """Holds the writer until it is opened, so that what comes meanwhile shares a transaction."""

    def __init__(self):
        self.entered, self.open = threading.Event(), threading.Event()

    def __call__(self, _connection):
        self.entered.set()
        assert self.open.wait(10)


async def behind_a_gate(database, works):
    gate = Gate()
    held = asyncio.ensure_future(database.write(gate))
    await asyncio.to_thread(gate.entered.wait, 10)
    waiting = [asyncio.ensure_future(database.write(work)) for work in works]
    await asyncio.sleep(0)
    gate.open.set()
    await held
    return await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_read_sees_every_write_that_returned(database):
    for number in range(20):
        assert await database.write(insert(number)) == number
        assert await database.read(numbers) == list(range(number + 1))


async def test_writes_that_wait_together_share_one_transaction(database):
    def counted(connection):
        insert(connection.total_changes)(connection)
        return connection.execute("SELECT count(*) FROM numbers").fetchone()[0]

    def seen_elsewhere(connection):
        with sqlite3.connect(database.path) as other:
            return other.execute("SELECT count(*) FROM numbers").fetchone()[0]

    answers = await behind_a_gate(database, [counted, counted, counted, seen_elsewhere])

    assert answers == [1, 2, 3, 0]


async def test_one_that_raises_is_undone_alone(database):
    def broken(connection):
        insert(7)(connection)
        raise ValueError("seven is taken back")

    answers = await behind_a_gate(database, [insert(1), broken, insert(2), insert(2), insert(3)])

    assert [type(answer) for answer in answers] == [
        int,
        ValueError,
        int,
        sqlite3.IntegrityError,
        int,
    ]
    assert await database.read(numbers) == [1, 2, 3]


async def test_a_transaction_that_is_lost_is_acknowledged_to_nobody(database):
    """Some errors make SQLite give up a transaction with everything in it."""

    def lose(connection):
        connection.execute("ROLLBACK")

    answers = await behind_a_gate(database, [insert(1), lose, insert(2)])

    assert all(isinstance(answer, sqlite3.OperationalError) for answer in answers)
    assert await database.read(numbers) == []
    await database.write(insert(3))
    assert await database.read(numbers) == [3]


async def test_nobody_is_told_why_another_was_refused(database):
    """Also where the transaction of both is lost."""

    def refused(_connection):
        raise InvalidRowError("The row is too large.")

    def lose(connection):
        connection.execute("ROLLBACK")

    answers = await behind_a_gate(database, [insert(1), refused, lose, insert(2)])

    assert [type(answer) for answer in answers] == [
        sqlite3.OperationalError,
        InvalidRowError,
        sqlite3.OperationalError,
        sqlite3.OperationalError,
    ]


async def test_a_file_that_somebody_else_locks_is_named_and_written_again_later(path, monkeypatch):
    """An operator who looks into it, say."""
    monkeypatch.setattr("store.database.BUSY_TIMEOUT_S", 0.1)
    async with opened(path, [SCHEMA]) as database:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(FileInUseError, match="locked by another process"):
                await database.write(insert(1))
            other.execute("ROLLBACK")

        await database.write(insert(2))
        assert await database.read(numbers) == [2]


async def test_a_thread_that_runs_out_of_memory_says_so_and_goes_on():
    """Python has a failure of its own for what SQLite says then."""
    failures = [MemoryError("no page")]

    def run(batch):
        if failures:
            raise failures.pop()
        for job in batch:
            job.result = job.work(None)

    worker = Worker("store-writer", run, waiting_max=10)
    worker.start()
    with pytest.raises(MemoryError, match="no page"):
        await worker.submit(lambda _: 1)
    assert await worker.submit(lambda _: 2) == 2
    await asyncio.to_thread(worker.stop)


class Forgetful:
    """A connection that has no memory left to commit with."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def in_transaction(self):
        return self.inner.in_transaction

    def execute(self, statement, *values):
        if statement == "COMMIT":
            raise MemoryError
        return self.inner.execute(statement, *values)


async def test_a_transaction_without_memory_is_undone(database):
    transaction = database._writer._run.__self__
    transaction._connection = Forgetful(transaction._connection)
    with pytest.raises(MemoryError):
        await database.write(insert(1))
    transaction._connection = transaction._connection.inner

    await database.write(insert(2))
    assert await database.read(numbers) == [2]


async def test_a_reader_without_memory_does_not_go_on_with_an_old_state(database):
    snapshot = database._reader._run.__self__
    snapshot._connection = Forgetful(snapshot._connection)
    with pytest.raises(MemoryError):
        await database.read(numbers)
    snapshot._connection = snapshot._connection.inner

    await database.write(insert(1))
    assert await database.read(numbers) == [1]


async def test_what_was_written_is_there_after_closing(path):
    async with opened(path, [SCHEMA]) as database:
        await database.write(insert(1))
    async with opened(path, [SCHEMA]) as database:
        assert await database.read(numbers) == [1]


async def test_closing_finishes_what_waits_and_refuses_more(path):
    async with opened(path, [SCHEMA]) as database:
        waiting = [asyncio.ensure_future(database.write(insert(number))) for number in range(50)]
        await asyncio.sleep(0)

    assert await asyncio.gather(*waiting) == list(range(50))
    with pytest.raises(ClosedError, match="closed"):
        await database.write(insert(51))


async def test_a_full_queue_is_refused_by_name(database):
    database._writer._jobs.maxsize = 3

    answers = await behind_a_gate(database, [insert(number) for number in range(5)])

    assert answers[:3] == [0, 1, 2]
    assert [type(answer) for answer in answers[3:]] == [OverloadedError] * 2


async def test_a_reader_cannot_write(database):
    with pytest.raises(DiskFailedError, match="readonly"):
        await database.read(insert(1))


async def test_a_full_disk_is_named_and_loses_nothing_acknowledged(database):
    """SQLite's own limit of pages fails as a full disk does."""

    def fill(connection):
        connection.execute("CREATE TABLE big (data BLOB)")
        connection.execute("PRAGMA max_page_count = 20")
        connection.execute("INSERT INTO big VALUES (zeroblob(1000000))")

    await database.write(insert(1))
    with pytest.raises(DiskFullError, match="free some space"):
        await database.write(fill)
    assert await database.read(numbers) == [1]

    def make_room(connection):
        connection.execute("PRAGMA max_page_count = 100000")

    await database.write(make_room)
    await database.write(insert(2))
    assert await database.read(numbers) == [1, 2]


async def test_a_file_of_a_newer_release_is_refused(path):
    async with opened(path, [SCHEMA]):
        pass
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    connection.close()

    with pytest.raises(NewerFileError, match="start the newer release"):
        async with opened(path, [SCHEMA]):
            pass


@pytest.mark.parametrize(
    "content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4096]
)
async def test_a_damaged_file_is_refused_and_left_alone(path, content):
    path.write_bytes(content)

    with pytest.raises(CorruptFileError, match="damaged"):
        async with opened(path, [SCHEMA]):
            pass
    assert path.read_bytes() == content


async def test_a_second_process_is_refused(database):
    with pytest.raises(FileInUseError, match="in use by another process"):
        async with opened(database.path, [SCHEMA]):
            pass


async def test_a_lock_dies_with_its_process(path):
    script = (
        "import asyncio, os, pathlib, sys\n"
        "from store.database import opened\n"
        "async def main():\n"
        "    async with opened(pathlib.Path(sys.argv[1]), []):\n"
        "        print('open', flush=True)\n"
        "        await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.to_thread(
        subprocess.Popen, [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        await asyncio.to_thread(process.stdout.readline)
        with pytest.raises(FileInUseError):
            async with opened(path, []):
                pass
        process.kill()

    async with opened(path, [SCHEMA]) as database:
        await database.write(insert(1))
