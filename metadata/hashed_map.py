"""A persistent map that knows the digest of its content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import immutables

from metadata import digest
from metadata.digest import Tree

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class HashedMap(Generic[K, V]):
    """Keys to values; a copy with one change costs the same in a large map as in a small one.

    Iteration is in key order, never in the order of the hash table, because that differs from
    process to process.
    """

    __slots__ = ("_items", "_tree")

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        self._items: immutables.Map[K, V] = immutables.Map(items or {})
        leaves = [digest.leaf(key, value) for key, value in self._items.items()]
        self._tree = digest.updated(None, ((item.path, item) for item in leaves))

    @property
    def digest(self) -> bytes:
        return digest.root(self._tree)

    def with_item(self, key: K, value: V) -> HashedMap[K, V]:
        tree = digest.put(self._tree, digest.leaf(key, value))
        return self._copy(self._items.set(key, value), tree)

    def with_items(self, items: Mapping[K, V]) -> HashedMap[K, V]:
        leaves = [digest.leaf(key, value) for key, value in items.items()]
        tree = digest.updated(self._tree, ((item.path, item) for item in leaves))
        return self._copy(self._items.update(items), tree)

    def without(self, keys: Iterable[K]) -> HashedMap[K, V]:
        gone = [key for key in dict.fromkeys(keys) if key in self._items]
        tree = digest.updated(self._tree, ((digest.path_of(key), None) for key in gone))
        items = self._items
        for key in gone:
            items = items.delete(key)
        return self._copy(items, tree)

    def get(self, key: K, default: D | None = None) -> V | D | None:
        return self._items.get(key, default)

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[K]:
        keys: Iterator[Any] = iter(self._items)
        return iter(sorted(keys))

    def values(self) -> list[V]:
        return [self._items[key] for key in self]

    def items(self) -> list[tuple[K, V]]:
        return [(key, self._items[key]) for key in self]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashedMap) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"HashedMap({dict(self.items())!r})"

    def _copy(self, items: immutables.Map[K, V], tree: Tree) -> HashedMap[K, V]:
        copy: HashedMap[K, V] = HashedMap.__new__(HashedMap)
        copy._items = items
        copy._tree = tree
        return copy
