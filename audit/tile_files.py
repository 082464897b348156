"""Tiles in a folder: finding one of at least the width that is asked for, and what is left over."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

import msgspec

from audit.archive import TILES
from audit.errors import ArchiveError, NotThereError
from audit.folder import Folder
from audit.merkle import root_at
from audit.tiles import TILE_WIDTH, Place, place_of, subtree_root, tile_bytes

TILES_KEPT_MAX = 64


class TileFiles:
    """The tree of `size` leaves as it lies in an archive; keeps the tiles that it read last."""

    def __init__(self, archive: Folder, size: int) -> None:
        self._archive = archive
        self.size = size
        self._kept: OrderedDict[Place, bytes] = OrderedDict()

    def read(self, place: Place) -> bytes:
        if place not in self._kept:
            self._kept[place] = read_tile(self._archive, place)
            if len(self._kept) > TILES_KEPT_MAX:
                self._kept.popitem(last=False)
        return self._kept[place]

    def subtree(self, level: int, index: int) -> bytes:
        """The `Hashes` of a proof."""
        return subtree_root(level, index, self.read, self.size)

    def root_at(self, size: int) -> bytes:
        return root_at(size, self.subtree)


def read_tile(archive: Folder, place: Place) -> bytes:
    """The beginning of the tile that is asked for, from a file that holds at least as much."""
    wanted = tile_bytes(place)
    for candidate in _candidates(archive, place):
        try:
            data = archive.read(candidate.path, bytes_max=tile_bytes(candidate))
        except NotThereError:
            continue
        if len(data) != tile_bytes(candidate):
            raise ArchiveError(candidate.path, f"it has {len(data)} bytes")
        return data[:wanted]
    raise NotThereError(place.path)


def tiles_in(archive: Folder) -> Iterator[tuple[str, Place | None]]:
    """Every file below `tile`, with the place that its name gives it."""
    return ((path, place_of(path)) for path in archive.paths(TILES))


def partial_widths(places: Iterable[Place]) -> dict[Place, list[int]]:
    """The widths in which parts of a tile are kept, by the tile."""
    found: dict[Place, list[int]] = {}
    for place in places:
        if place.width < TILE_WIDTH:
            found.setdefault(whole(place), []).append(place.width)
    return found


def whole(place: Place) -> Place:
    return msgspec.structs.replace(place, width=TILE_WIDTH)


def _candidates(archive: Folder, place: Place) -> Iterator[Place]:
    yield place
    if place.width == TILE_WIDTH:
        return
    yield whole(place)
    # Only where an archive begins inside a tile that it has not filled since.
    others = (place_of(path) for path in archive.paths(f"{whole(place).path}.p"))
    yield from (other for other in others if other is not None and other.width > place.width)
