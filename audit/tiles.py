"""The Merkle tree as static files: C2SP tlog-tiles (c2sp.org/tlog-tiles)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from audit.merkle import leaf_hash, root_of

TILE_WIDTH = 256
TILE_LEVELS_MAX = 8
"""Enough for 2**64 leaves."""
HASH_BYTES = 32
LEAF_BYTES = 32
BUNDLED = -1
"""The level of entry bundles, which hold the leaves themselves."""

_TILE_BITS = TILE_WIDTH.bit_length() - 1
_LENGTH = LEAF_BYTES.to_bytes(2, "big")
_PATH = re.compile(r"tile/(entries|[0-7])/((?:x\d{3}/)*\d{3})(?:\.p/([1-9]\d{0,2}))?")


class Place(msgspec.Struct, frozen=True, order=True):
    """Which tile: the n-th of its level, and how many of its 256 places are taken."""

    level: int
    index: int
    width: int = TILE_WIDTH

    @property
    def path(self) -> str:
        level = "entries" if self.level == BUNDLED else str(self.level)
        digits = f"{self.index:03}"
        digits = digits.zfill(-(-len(digits) // 3) * 3)
        parts = [digits[start : start + 3] for start in range(0, len(digits), 3)]
        number = "/".join([*(f"x{part}" for part in parts[:-1]), parts[-1]])
        partial = "" if self.width == TILE_WIDTH else f".p/{self.width}"
        return f"tile/{level}/{number}{partial}"

    def is_within(self, size: int) -> bool:
        """Whether a tree of `size` leaves has filled this much of the tile."""
        return self.index * TILE_WIDTH + self.width <= _taken(self.level, size)


class Tile(msgspec.Struct, frozen=True):
    place: Place
    data: bytes


def place_of(path: str) -> Place | None:
    """The inverse of `Place.path`; None for a path that no tile has."""
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    level, number, width = match.groups()
    place = Place(
        BUNDLED if level == "entries" else int(level),
        int(re.sub(r"[x/]", "", number)),
        int(width) if width else TILE_WIDTH,
    )
    return place if place.path == path else None


def tile_bytes(place: Place) -> int:
    """The size of the file."""
    each = HASH_BYTES if place.level != BUNDLED else LEAF_BYTES + len(_LENGTH)
    return place.width * each


class TileTree:
    """A tree that grows at its right edge, of which it keeps only tiles that are not yet full.

    That is fewer than 256 hashes for each level, whatever its size.
    """

    def __init__(self, size: int = 0, edge: Sequence[Sequence[bytes]] = ((),)) -> None:
        self.size = size
        # The leaves of the last bundle, then the hashes of the last tile of each level.
        self._edge = [list(row) for row in edge]

    def append(self, leaf: bytes) -> list[Tile]:
        """One leaf more; the tiles that it filled."""
        assert len(leaf) == LEAF_BYTES, leaf
        leaves = self._edge[0]
        leaves.append(leaf)
        self.size += 1
        return self._filled() if len(leaves) == TILE_WIDTH else []

    def root(self) -> bytes:
        rest: list[bytes] = []
        for row in self._rows():
            if row or rest:
                rest = [root_of([*row, *rest])]
        return root_of(rest)

    @property
    def last_leaf(self) -> bytes | None:
        """None where it is in a tile that is full, and so no longer kept."""
        return self._edge[0][-1] if self._edge[0] else None

    def partial(self) -> list[Tile]:
        """The tiles at the right edge that are not full."""
        rows = [self._edge[0], *self._rows()]
        return [self._tile(level, row) for level, row in enumerate(rows, start=BUNDLED) if row]

    def _rows(self) -> Iterator[Sequence[bytes]]:
        """The hashes at the right edge, level by level."""
        yield [leaf_hash(leaf) for leaf in self._edge[0]]
        yield from self._edge[1:]

    def _filled(self) -> list[Tile]:
        leaves = self._edge[0]
        tiles = [self._tile(BUNDLED, leaves)]
        full = [leaf_hash(leaf) for leaf in leaves]
        leaves.clear()
        for level in range(TILE_LEVELS_MAX):
            tiles.append(self._tile(level, full))
            if level + 1 == len(self._edge):
                self._edge.append([])
            above = self._edge[level + 1]
            above.append(root_of(full))
            if len(above) < TILE_WIDTH:
                break
            full = [*above]
            above.clear()
        return tiles

    def _tile(self, level: int, row: Sequence[bytes]) -> Tile:
        index = (_taken(level, self.size) - 1) // TILE_WIDTH
        parts = (_LENGTH + leaf for leaf in row) if level == BUNDLED else row
        return Tile(Place(level, index, len(row)), b"".join(parts))


def tile_of_leaves(level: int, leaves: Sequence[bytes]) -> bytes:
    """The bundle of these leaves, or the tile of level 0 above it."""
    if level == BUNDLED:
        return b"".join(_LENGTH + leaf for leaf in leaves)
    return b"".join(map(leaf_hash, leaves))


def tree_from(size: int, read: Callable[[Place], bytes]) -> TileTree:
    """The tree of that size; `read` is asked for the tiles at its right edge."""
    leaves = _leaves(read(place)) if (place := edge_of(BUNDLED, size)) else []
    edge: list[Sequence[bytes]] = [leaves]
    level = 1
    while _taken(level, size):
        place = edge_of(level, size)
        edge.append(_hashes(read(place)) if place else [])
        level += 1
    return TileTree(size, edge)


def edge_of(level: int, size: int) -> Place | None:
    """The tile of a level that a tree of this size has begun and not filled."""
    index, width = divmod(_taken(level, size), TILE_WIDTH)
    return Place(level, index, width) if width else None


def subtree_root(level: int, index: int, read: Callable[[Place], bytes], size: int) -> bytes:
    """The root of a whole subtree of 2**level leaves in a tree of `size`; see `merkle.Hashes`."""
    tile_level, inner = divmod(level, _TILE_BITS)
    tile, first = divmod(index << inner, TILE_WIDTH)
    width = min(TILE_WIDTH, _taken(tile_level, size) - tile * TILE_WIDTH)
    found = _hashes(read(Place(tile_level, tile, width)))
    return root_of(found[first : first + (1 << inner)])


def _taken(level: int, size: int) -> int:
    """How many hashes a level has in a tree of this size."""
    return size >> _TILE_BITS * max(level, 0)


def _hashes(data: bytes) -> list[bytes]:
    return [data[start : start + HASH_BYTES] for start in range(0, len(data), HASH_BYTES)]


def _leaves(data: bytes) -> list[bytes]:
    """The leaves of a bundle; one with another length will not give the root that is expected."""
    step = len(_LENGTH) + LEAF_BYTES
    return [data[start + len(_LENGTH) : start + step] for start in range(0, len(data), step)]
