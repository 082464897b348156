"""What an expression can name: parts of the metadata as plain data, and a few functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import msgspec

from encoding.views import component_view
from metadata.cluster import ClusterMetadata
from metadata.placements import Group, Placement
from metadata.tokens import MAXIMUM, MINIMUM, Token

Plain = Any
"""Lists, dictionaries by field, texts, numbers, True, False, None."""


class Root(msgspec.Struct, frozen=True):
    """A name for a part of the metadata, and the components that it is made of."""

    components: tuple[str, ...]
    view: Callable[[ClusterMetadata], Plain]


class Look:
    """One version of the metadata; views are made when they are first asked for."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self.metadata = metadata
        self._views: dict[str, Plain] = {}

    def root(self, name: str) -> Plain:
        if name not in self._views:
            self._views[name] = ROOTS[name].view(self.metadata)
        return self._views[name]

    @cached_property
    def nodes(self) -> dict[object, Plain]:
        return {item["id"]: item for item in self.root("nodes")}

    @cached_property
    def keyspaces(self) -> dict[object, Plain]:
        return {item["name"]: item for item in self.root("keyspaces")}


class Function(msgspec.Struct, frozen=True):
    """`work` gets the look at the metadata first; `components` is what it looks at there."""

    work: Callable[..., Plain]
    components: tuple[str, ...] = ()
    takes: int = 1


def _listed(component: str, name: str) -> Root:
    return Root((component,), lambda metadata: component_view(metadata, component)[name])


def _nodes(metadata: ClusterMetadata) -> Plain:
    """The directory, each node with its tokens."""
    return [
        {**item, "tokens": [str(token) for token in metadata.ring.tokens_of(item["id"])]}
        for item in component_view(metadata, "directory")["nodes"]
    ]


def _tables(metadata: ClusterMetadata) -> Plain:
    keyspaces = component_view(metadata, "schema")["keyspaces"]
    return [table for keyspace in keyspaces for table in keyspace["tables"]]


def _extensions(metadata: ClusterMetadata) -> Plain:
    """By name: `extensions["owner/team"] == "sales"`."""
    return {name: item.value for name, item in metadata.extensions.by_name.items()}


ROOTS: dict[str, Root] = {
    "epoch": Root((), lambda metadata: metadata.epoch),
    "nodes": Root(("directory", "ring"), _nodes),
    "keyspaces": _listed("schema", "keyspaces"),
    "tables": Root(("schema",), _tables),
    "sequences": _listed("sequences", "sequences"),
    "locks": _listed("locks", "locks"),
    "sessions": _listed("sessions", "sessions"),
    "extensions": Root(("extensions",), _extensions),
    "cms": _listed("cms", "members"),
}


def _extension(look: Look, name: str) -> Plain:
    """Its value; cheaper than `extensions`, which lists them all."""
    found = look.metadata.extensions.by_name.get(name)
    return None if found is None else found.value


def _readers(look: Look, keyspace: str, token: int | str) -> Plain:
    return _owners(look.metadata, keyspace, token, lambda placement, at: placement.readers(at))


def _writers(look: Look, keyspace: str, token: int | str) -> Plain:
    return _owners(look.metadata, keyspace, token, lambda placement, at: placement.writers(at))


def _owners(
    metadata: ClusterMetadata,
    keyspace: str,
    token: int | str,
    side: Callable[[Placement, Token], Group | None],
) -> list[int]:
    number = int(token)
    if not MINIMUM <= number <= MAXIMUM:
        raise ValueError(f"{number} is no token: tokens have 64 bits")
    found = metadata.schema.find(keyspace)
    placement = None if found is None else metadata.placements.find(found.replication.key)
    group = None if placement is None else side(placement, Token(number))
    return [] if group is None else list(group.owners)


FUNCTIONS: dict[str, Function] = {
    "len": Function(lambda _, items: len(items)),
    "count": Function(lambda _, items: len(items)),
    "any": Function(lambda _, items: any(map(_truth, items))),
    "all": Function(lambda _, items: all(map(_truth, items))),
    "min": Function(lambda _, items: min(items)),
    "max": Function(lambda _, items: max(items)),
    "node": Function(lambda look, number: look.nodes.get(number), ("directory", "ring")),
    "keyspace": Function(lambda look, name: look.keyspaces.get(name), ("schema",)),
    "extension": Function(_extension, ("extensions",)),
    "readers": Function(_readers, ("schema", "placements"), takes=2),
    "writers": Function(_writers, ("schema", "placements"), takes=2),
}


def _truth(item: object) -> bool:
    if not isinstance(item, bool):
        raise TypeError(f"{item!r} is neither true nor false")
    return item
