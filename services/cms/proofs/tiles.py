"""The port to whatever keeps full tiles of the tree, with both of its adapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from audit.tiles import Place, Tile
from log.postgres_sessions import Sessions

_KEEP = """
INSERT INTO log_tiles (level, number, hashes)
SELECT * FROM unnest($1::smallint[], $2::bigint[], $3::bytea[])
ON CONFLICT DO NOTHING
"""
_COUNT = "SELECT coalesce(max(number) + 1, 0) AS found FROM log_tiles WHERE level = $1"
_READ = "SELECT hashes FROM log_tiles WHERE level = $1 AND number = $2"
_BETWEEN = """
SELECT hashes FROM log_tiles WHERE level = $1 AND number >= $2 AND number < $3 ORDER BY number
"""


class TileStore(Protocol):
    """Full tiles of level 1 and above; each is written once and by whoever comes first."""

    async def keep(self, tiles: Sequence[Tile]) -> None: ...

    async def count(self, level: int) -> int:
        """How many there are of a level, the first ones without a gap."""
        ...

    async def read(self, level: int, number: int) -> bytes | None: ...

    async def between(self, level: int, first: int, end: int) -> Sequence[bytes]:
        """Numbers `first` to `end` - 1 in order."""
        ...


class MemoryTiles:
    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], bytes] = {}

    async def keep(self, tiles: Sequence[Tile]) -> None:
        for tile in tiles:
            self._kept.setdefault(_key(tile.place), tile.data)

    async def count(self, level: int) -> int:
        return sum(known == level for known, _ in self._kept)

    async def read(self, level: int, number: int) -> bytes | None:
        return self._kept.get((level, number))

    async def between(self, level: int, first: int, end: int) -> Sequence[bytes]:
        return [self._kept[level, number] for number in range(first, end)]


class PostgresTiles:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def keep(self, tiles: Sequence[Tile]) -> None:
        if tiles:
            rows = [(*_key(tile.place), tile.data) for tile in tiles]
            await self._sessions.fetch(_KEEP, *map(list, zip(*rows, strict=True)))

    async def count(self, level: int) -> int:
        rows = await self._sessions.fetch(_COUNT, level)
        return int(rows[0]["found"])

    async def read(self, level: int, number: int) -> bytes | None:
        rows = await self._sessions.fetch(_READ, level, number)
        return bytes(rows[0]["hashes"]) if rows else None

    async def between(self, level: int, first: int, end: int) -> Sequence[bytes]:
        rows = await self._sessions.fetch(_BETWEEN, level, first, end)
        return [row["hashes"] for row in rows]


def _key(place: Place) -> tuple[int, int]:
    return place.level, place.index
