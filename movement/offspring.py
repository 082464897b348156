"""The processes that this one has started, and those that they have."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

DEPTH_MAX = 5


def stop_all() -> None:
    """Ask all of them to end. Where the system does not tell who they are, nobody is asked."""
    for pid in list(_below(os.getpid(), DEPTH_MAX)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def _below(pid: int, depth: int) -> Iterator[int]:
    if depth == 0:
        return
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, path.read_text().split()):
                yield child
                yield from _below(child, depth - 1)
