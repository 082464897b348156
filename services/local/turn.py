"""One at a time, across processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

from services.local.failure import LocalServerError
from services.local.waiting import until

TURN_TIMEOUT_S = 180.0


@contextlib.asynccontextmanager
async def turn(folder: Path) -> AsyncIterator[None]:
    """Be the only one to start or stop what lives in `folder`.

    The kernel ends the turn of a process that dies, so there is no lock to clean up.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        raise LocalServerError(
            f"{folder} belongs to another user: start and stop as that user or as root."
        ) from None
    try:
        await _take(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


async def _take(descriptor: int, folder: Path) -> None:
    def taken() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        await until(taken, timeout_s=TURN_TIMEOUT_S)
    except TimeoutError:
        raise LocalServerError(f"Another start or stop in {folder} does not end.") from None
