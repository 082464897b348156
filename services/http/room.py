"""How much room a process has left for what it keeps, as it tells it."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """Of the file system that a folder is on."""

    free_bytes: int
    total_bytes: int


def room_in(folder: Path) -> Room | None:
    """None where it cannot be looked at."""
    try:
        found = shutil.disk_usage(folder)
    except OSError:
        return None
    return Room(free_bytes=found.free, total_bytes=found.total)
