"""CPU time of processes, from the kernel: what a commit costs, however busy the machine is."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Counted from behind the name, which may hold blanks.
_PARENT = 1
_OWN = slice(11, 13)
_ENDED_CHILDREN = slice(13, 15)


def spent_s(pids: Iterable[int]) -> float:
    return _TICK_S * sum(sum(map(int, _stat(pid)[_OWN])) for pid in pids)


def spent_with_children_s(pid: int) -> float:
    """By a process and all that it started, those that have ended included."""
    numbers = [int(path.name) for path in _PROC.iterdir() if path.name.isdigit()]
    children = [number for number in numbers if _stat(number)[_PARENT : _PARENT + 1] == [str(pid)]]
    ended_s = _TICK_S * sum(map(int, _stat(pid)[_ENDED_CHILDREN]))
    return spent_s([pid, *children]) + ended_s


def _stat(pid: int) -> list[str]:
    """Empty for a process that has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return []
