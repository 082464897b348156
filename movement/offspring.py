"""The processes that this one has started, and those that they have."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

DEPTH_MAX = 5


def offspring() -> frozenset[int]:
    """All of them. Where the system does not tell who they are, nobody."""
    return frozenset(_below(os.getpid(), DEPTH_MAX))


def stop(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def stop_all() -> None:
    """Ask all of them to end."""
    stop(offspring(), signal.SIGTERM)


def _below(pid: int, depth: int) -> Iterator[int]:
    if depth == 0:
        return
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, path.read_text().split()):
                yield child
                yield from _below(child, depth - 1)
