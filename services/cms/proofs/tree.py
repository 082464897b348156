"""The Merkle tree over the log, kept as it grows: what proofs and checkpoints are made from.

Its leaves are the hashes of entries, which outlive the entries, so a trimmed log is proved like any
other. In memory are only the tiles at the right edge and those that were used last; full tiles of
higher levels are stored, so that nobody computes them twice.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

from audit.merkle import Hashes, prove_consistency, prove_inclusion, root_at, root_of
from audit.tiles import (
    HASH_BYTES,
    TILE_LEVELS_MAX,
    TILE_WIDTH,
    Place,
    Tile,
    TileTree,
    subtree_root,
    tile_bytes,
    tile_of_leaves,
)
from log.store import LogStore, StoreUnavailableError
from metadata.epoch import Epoch
from services.cms.proofs.tiles import TileStore

PAGE_ENTRIES = 4_096
"""Taken in without a pause, which others notice."""
TILES_KEPT_MAX = 256
"""Two megabytes."""
LOWEST_STORED = 1
"""Below it a tile is as quickly computed as read."""

T = TypeVar("T")


class LogTree:
    """Answers for every size up to the log's own; `grow` first."""

    def __init__(self, log: LogStore, tiles: TileStore) -> None:
        self._log = log
        self._tiles = tiles
        self._tree: TileTree | None = None
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._unstored: dict[tuple[int, int], Tile] = {}
        self._turn = asyncio.Lock()

    async def grow(self, size: Epoch) -> None:
        """Take in all entries up to this one, which is in the log."""
        if self._tree is not None and self._tree.size >= size:
            return
        async with self._turn:
            tree = self._tree = self._tree or await self._restored(size)
            while tree.size < size:
                wanted = min(PAGE_ENTRIES, size - tree.size)
                page = await self._log.hashes_after(Epoch(tree.size), entries_max=wanted)
                if len(page) < wanted:
                    raise StoreUnavailableError(f"of {wanted} hashes there are {len(page)}")
                for tile in _extend(tree, page):
                    self._unstored[tile.place.level, tile.place.index] = tile
                await self._store()

    async def root(self, size: Epoch) -> bytes:
        return await self._made(size, lambda hashes: root_at(size, hashes))

    async def inclusion(self, epoch: Epoch, size: Epoch) -> list[bytes]:
        return await self._made(size, lambda hashes: prove_inclusion(epoch - 1, size, hashes))

    async def consistency(self, old: Epoch, size: Epoch) -> list[bytes]:
        return await self._made(size, lambda hashes: prove_consistency(old, size, hashes))

    async def tile(self, place: Place) -> bytes:
        """The file of a tile that lies within the tree."""
        if place.level <= 0:
            first = Epoch(place.index * TILE_WIDTH)
            leaves = await self._log.hashes_after(first, entries_max=place.width)
            return tile_of_leaves(place.level, leaves)
        whole = await self._whole(place)
        return whole[: tile_bytes(place)]

    async def _store(self) -> None:
        """In one statement, so that the stored ones of a level never have a gap."""
        stored = dict(self._unstored)
        if stored:
            await self._tiles.keep(list(stored.values()))
            for key in stored:
                del self._unstored[key]

    async def _made(self, size: Epoch, make: Callable[[Hashes], T]) -> T:
        """Once to learn which tiles it takes, and then with those."""
        wanted: dict[Place, bytes] = {}

        def noted(place: Place) -> bytes:
            wanted[place] = b""
            return bytes(tile_bytes(place))

        make(lambda level, index: subtree_root(level, index, noted, size))
        for place in wanted:
            wanted[place] = await self.tile(place)
        return make(lambda level, index: subtree_root(level, index, wanted.__getitem__, size))

    async def _whole(self, place: Place) -> bytes:
        """As much of a tile as there is."""
        key = (place.level, place.index)
        if key in self._unstored:
            return self._unstored[key].data
        found = self._kept.get(key)
        if found is None:
            found = self._at_the_edge(place)
            if found is not None:
                return found
            found = await self._tiles.read(*key)
            if found is None:
                raise StoreUnavailableError(f"{place.path} is not stored yet")
            self._kept[key] = found
            if len(self._kept) > TILES_KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found

    def _at_the_edge(self, place: Place) -> bytes | None:
        assert self._tree is not None
        for tile in self._tree.partial():
            if (tile.place.level, tile.place.index) == (place.level, place.index):
                return tile.data
        return None

    async def _restored(self, size: Epoch) -> TileTree:
        """The tree of all entries whose tiles are stored, with its right edge."""
        count = min(await self._tiles.count(LOWEST_STORED), size // TILE_WIDTH**2)
        edge: list[Sequence[bytes]] = [(), ()]
        numbers = count
        for level in range(LOWEST_STORED, TILE_LEVELS_MAX):
            if not numbers:
                break
            begin = numbers // TILE_WIDTH * TILE_WIDTH
            stored = await self._tiles.between(level, begin, numbers)
            edge.append([root_of(_hashes(data)) for data in stored])
            numbers //= TILE_WIDTH
        return TileTree(count * TILE_WIDTH**2, edge)


def _extend(tree: TileTree, hashes: Sequence[bytes]) -> list[Tile]:
    """The tiles worth storing that these leaves filled."""
    filled = [tile for leaf in hashes for tile in tree.append(leaf)]
    return [tile for tile in filled if tile.place.level >= LOWEST_STORED]


def _hashes(data: bytes) -> list[bytes]:
    return [data[start : start + HASH_BYTES] for start in range(0, len(data), HASH_BYTES)]
