"""A PostgreSQL server of our own, on one machine and in one state directory.

The server survives whoever started it. A supervisor that comes back after a kill -9 finds it by
its folder: `start` adopts a server that runs and starts one that does not, through crash recovery
if need be.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec

from services.local.account import Account, account_for
from services.local.command import reason_in, spawn
from services.local.failure import LocalServerError
from services.local.postgres_files import SUPERUSER, Files, files_in, initialise, programs
from services.local.postmaster import Postmaster, end, postmaster, settled
from services.local.turn import turn
from services.local.waiting import until

ADDRESS = "127.0.0.1"
DATABASE = "postgres"
START_TIMEOUT_S = 60.0
LOG_EXCERPT_BYTES = 2_000

# Given on the command line, where neither a file nor ALTER SYSTEM overrides them.
_SETTINGS = {
    "listen_addresses": ADDRESS,
    "unix_socket_directories": "",
    # The log is the truth: what it acknowledges is on disk.
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    # After a crash, one sync of the file system instead of one per file.
    "recovery_init_sync_method": "syncfs",
    # A laptop runs this beside everything else.
    "shared_buffers": "64MB",
    "max_connections": "100",
    "max_wal_size": "512MB",
    "max_worker_processes": "4",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}


class Server(msgspec.Struct, frozen=True):
    """A server that takes connections; `pid` is its first process."""

    dsn: str
    pid: int
    port: int


@contextlib.asynccontextmanager
async def running(state_dir: Path, port: int | None = None) -> AsyncIterator[Server]:
    """A server for as long as the block runs, and none afterwards."""
    try:
        yield await start(state_dir, port)
    finally:
        await stop(state_dir)


async def start(state_dir: Path, port: int | None = None) -> Server:
    """A server that is ready, in `state_dir`: the one that runs there, or a new one.

    One that runs keeps its port, whatever `port` says. Without `port` a new one takes any free
    port; whoever restarts it for others passes the old one. After an error the server may still
    be coming up: `start` again waits for it, `stop` ends it.
    """
    files = files_in(state_dir)
    files.make_home()
    async with turn(files.home):
        folder = programs(files)
        # The one that needs the most: postgres itself says its version although it could not
        # read its libraries.
        account = await account_for(files.home, folder / "initdb")
        if not files.has_data():
            await initialise(files, folder / "initdb", account)
        found = await settled(files.data)
        if found is None:
            found = await _launch(files, folder / "postgres", account, port)
        return _server(files, found)


async def stop(state_dir: Path) -> None:
    """End the server of `state_dir`, if there is one, and all its processes."""
    files = files_in(state_dir)
    if not files.has_home():
        return
    async with turn(files.home):
        await end(files.data)


def find(state_dir: Path) -> Server | None:
    """The server that takes connections in `state_dir`, if one does."""
    files = files_in(state_dir)
    found = postmaster(files.data)
    return _server(files, found) if found is not None and found.is_ready else None


async def _launch(files: Files, program: Path, account: Account, port: int | None) -> Postmaster:
    with _held_port(port) as held:
        settings = {**_SETTINGS, "port": str(held)}
        options = [f"--{name}={value}" for name, value in settings.items()]
        command = (*account.prefix, str(program), "-D", str(files.data), *options)
        process = spawn(command, files.log)

        def decided() -> bool:
            found = postmaster(files.data)
            return process.returncode is not None or (found is not None and found.is_ready)

        with contextlib.suppress(TimeoutError):
            await until(decided, timeout_s=START_TIMEOUT_S)
    found = postmaster(files.data)
    if found is None or not found.is_ready:
        raise LocalServerError(f"PostgreSQL is not ready, see {files.log}: {_last_words(files)}")
    return found


@contextlib.contextmanager
def _held_port(port: int | None) -> Iterator[int]:
    """Keep a port, by default a free one, from others until the server listens on it.

    A socket that is bound but does not listen is no obstacle to the server's, because both allow
    the address to be used again; but nobody is given the port by chance meanwhile.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind((ADDRESS, port or 0))
        except OSError as error:
            raise LocalServerError(f"Port {port} cannot be used: {error.strerror}.") from error
        yield holder.getsockname()[1]


def _server(files: Files, found: Postmaster) -> Server:
    # The password is made of characters that need no quoting.
    login = f"{SUPERUSER}:{files.read_password()}"
    dsn = f"postgresql://{login}@{ADDRESS}:{found.port}/{DATABASE}"
    return Server(dsn=dsn, pid=found.pid, port=found.port)


def _last_words(files: Files) -> str:
    tail = files.log.read_bytes()[-LOG_EXCERPT_BYTES:]
    return reason_in(tail.decode(errors="replace"))
