"""The processes of a PostgreSQL data directory, whoever started them."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import msgspec

from services.local.failure import LocalServerError
from services.local.waiting import until

READY_TIMEOUT_S = 60.0

# To a postmaster these mean: disconnect everybody and close in order; drop everything, the next
# start recovers; and, if even that is not heard, the end.
_ENDINGS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 5.0))

_LOCK_FILE = "postmaster.pid"
_LOCK_FILE_LINES = 8
_PROCESSES = Path("/proc")
# What Linux adds to the name of a running program whose file is gone, as after an upgrade.
_REPLACED = " (deleted)"


class Postmaster(msgspec.Struct, frozen=True):
    """The first process of a server, as its lock file describes it."""

    pid: int
    port: int
    status: str

    @property
    def is_ready(self) -> bool:
        return self.status == "ready"


def postmaster(data: Path) -> Postmaster | None:
    """The living postmaster of `data`.

    After a crash the lock file stays behind and its pid may by now be anybody's; only a process
    that is PostgreSQL and works in this folder is believed.
    """
    noted = _noted(data)
    return noted if noted is not None and _is_postgres_in(data, noted.pid) else None


def processes(data: Path) -> list[int]:
    """All of PostgreSQL that works in `data`, which includes what a dead postmaster left."""
    pids = (int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdigit())
    return [pid for pid in pids if _is_postgres_in(data, pid)]


async def settled(data: Path) -> Postmaster | None:
    """Wait for a server that is coming up or going down; remove what a dead one left."""
    try:
        await until(lambda: not _is_underway(data), timeout_s=READY_TIMEOUT_S)
    except TimeoutError:
        raise LocalServerError(f"PostgreSQL in {data} neither starts nor stops.") from None
    found = postmaster(data)
    if found is not None:
        return found
    await end(data)
    # PostgreSQL itself believes any pid of its user's, and would refuse to start.
    (data / _LOCK_FILE).unlink(missing_ok=True)
    return None


async def end(data: Path) -> None:
    """End every process of `data`, in order if they let us."""
    for number, timeout_s in _ENDINGS:
        _send(data, number)
        with contextlib.suppress(TimeoutError):
            await until(lambda: not processes(data), timeout_s=timeout_s)
            return
    raise LocalServerError(f"PostgreSQL in {data} does not end: processes {processes(data)}.")


def _is_underway(data: Path) -> bool:
    found = postmaster(data)
    return found is not None and not found.is_ready


def _send(data: Path, number: signal.Signals) -> None:
    for pid in _to_be_told(data, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _to_be_told(data: Path, number: signal.Signals) -> list[int]:
    """The postmaster, who tells the others; without one, or to kill, each of them."""
    found = postmaster(data)
    if found is None or number is signal.SIGKILL:
        return processes(data)
    return [found.pid]


def _noted(data: Path) -> Postmaster | None:
    try:
        lines = (data / _LOCK_FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    if len(lines) < _LOCK_FILE_LINES:
        # Still being written, or cut short by a crash.
        lines += [""] * (_LOCK_FILE_LINES - len(lines))
    pid, _, _, port, *_, status = lines[:_LOCK_FILE_LINES]
    return Postmaster(int(pid), int(port or 0), status.strip()) if pid.isdigit() else None


def _is_postgres_in(data: Path, pid: int) -> bool:
    """By folder and program: a shell that stands in the data directory is none of ours."""
    process = _PROCESSES / str(pid)
    try:
        return (process / "cwd").samefile(data) and (
            (process / "exe").readlink().name.removesuffix(_REPLACED) == "postgres"
        )
    except OSError:
        # Ended meanwhile, a zombie, or another user's.
        return False
