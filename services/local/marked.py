"""Processes that a supervisor started, found also after it died.

Each carries the state directory in its environment, which the kernel shows, so no list that a
crash left behind has to be believed and no pid that is by now somebody else's is touched.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from services.local.failure import LocalServerError
from services.local.waiting import until

MARK = "RINGLOG_SUPERVISED_IN"

_PROCESSES = Path("/proc")
_ENDINGS = ((signal.SIGTERM, 35.0), (signal.SIGKILL, 5.0))


def marked(state_dir: Path) -> list[int]:
    """The living processes of `state_dir`, ourselves excepted."""
    mark = f"{MARK}={state_dir}".encode()
    pids = (int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdigit())
    return [pid for pid in pids if pid != os.getpid() and _carries(pid, mark)]


async def end_marked(state_dir: Path) -> None:
    """End them in order, and by force those that do not listen."""
    for number, timeout_s in _ENDINGS:
        for pid in marked(state_dir):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        with contextlib.suppress(TimeoutError):
            await until(lambda: not marked(state_dir), timeout_s=timeout_s)
            return
    raise LocalServerError(f"These processes do not end: {marked(state_dir)}. End them by hand.")


def _carries(pid: int, mark: bytes) -> bool:
    try:
        return mark in (_PROCESSES / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        # Ended meanwhile, or another user's.
        return False
