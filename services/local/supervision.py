"""Being the one supervisor of a state directory, and finding the one that is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from services.local.failure import LocalServerError
from services.local.waiting import until

STOP_TIMEOUT_S = 90.0
KILL_TIMEOUT_S = 5.0
TAKE_TIMEOUT_S = 0.5


class AlreadyRunningError(LocalServerError):
    """Another supervisor has this state directory."""


@contextlib.asynccontextmanager
async def sole_supervisor(lock: Path) -> AsyncIterator[None]:
    """Hold the state directory; the kernel gives it up for a process that dies."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        await _take(descriptor, lock)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


async def _take(descriptor: int, lock: Path) -> None:
    # Whoever looks for a supervisor holds the lock for a moment, hence more than one try.
    try:
        await until(lambda: _taken(descriptor), timeout_s=TAKE_TIMEOUT_S)
    except TimeoutError:
        raise AlreadyRunningError(
            f"The cluster in {lock.parent} is running already: stop it with `ringlog down`."
        ) from None


def supervisor_of(lock: Path) -> int | None:
    """The pid of the supervisor that runs, if one does."""
    try:
        descriptor = os.open(lock, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        if _taken(descriptor):
            return None
        text = os.pread(descriptor, 32, 0)
    finally:
        os.close(descriptor)
    # Empty for a moment, while it begins or ends.
    return int(text) if text.isdigit() else None


async def end_supervisor(lock: Path) -> None:
    """Ask the supervisor to stop its cluster; if it does not, end the supervisor alone."""
    for number, timeout_s in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, KILL_TIMEOUT_S)):
        pid = supervisor_of(lock)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        with contextlib.suppress(TimeoutError):
            await until(lambda: not _is_held(lock), timeout_s=timeout_s)
            return
    raise LocalServerError(f"The supervisor {pid} does not end: end it by hand.")


def _is_held(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _taken(descriptor)
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    """Whether nobody else had it; then it is ours until the descriptor is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
