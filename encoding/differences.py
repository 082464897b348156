"""What changed between two versions of the metadata, by meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from encoding.views import component_view
from metadata.cluster import ClusterMetadata
from metadata.placements import Group, Placement, RingPlacement
from metadata.tokens import Range, position, ranges_between

Item = dict[str, Any]
Keyed = dict[object, Item]

_LISTED: dict[str, tuple[str, str]] = {
    "directory": ("nodes", "id"),
    "ring": ("tokens", "token"),
    "locks": ("locks", "sequence"),
    "sequences": ("sequences", "id"),
    "sessions": ("sessions", "id"),
    "cms": ("members", "name"),
    "extensions": ("extensions", "name"),
}
"""Components that are a list: its name in the view, and what tells its items apart."""


class Difference(msgspec.Struct, frozen=True):
    """What one component lists; `changed` items hold `before` and `after`."""

    added: list[Item]
    removed: list[Item]
    changed: list[Item]


def differences(before: ClusterMetadata, after: ClusterMetadata) -> dict[str, Difference]:
    """By component; one that means the same is left out."""
    found: dict[str, Difference] = {}
    for (name, old), (_, new) in zip(before.components(), after.components(), strict=True):
        if old.digest == new.digest:
            continue
        difference = _compared(_items(before, name), _items(after, name))
        if name == "placements":
            moved = list(placement_changes(before, after))
            difference = Difference([], [], moved)
        if difference.added or difference.removed or difference.changed:
            found[name] = difference
    return found


def placement_changes(before: ClusterMetadata, after: ClusterMetadata) -> Iterator[Item]:
    """Every range whose readers or writers differ. A split or merge alone changes nothing."""
    keys = sorted({*before.placements.placed, *after.placements.placed})
    for key in keys:
        old = before.placements.find(key) or RingPlacement()
        new = after.placements.find(key) or RingPlacement()
        if old.digest == new.digest:
            continue
        for span, sides in _overlay(old, new):
            readers = {"before": _owners(sides[0]), "after": _owners(sides[1])}
            writers = {"before": _owners(sides[2]), "after": _owners(sides[3])}
            if readers["before"] != readers["after"] or writers["before"] != writers["after"]:
                yield {
                    "placement": key,
                    "left": str(span.left),
                    "right": str(span.right),
                    "readers": readers,
                    "writers": writers,
                }


def _overlay(old: Placement, new: Placement) -> Iterator[tuple[Range, list[Group | None]]]:
    """Both placements cut wherever either is."""
    sides = (old.read_groups, new.read_groups, old.write_groups, new.write_groups)
    places = sorted({position(span.right) for side in sides for span, _ in side()})
    lookups: tuple[Callable[[Any], Group | None], ...] = (
        old.readers,
        new.readers,
        old.writers,
        new.writers,
    )
    for span in ranges_between(places):
        yield span, [lookup(span.right) for lookup in lookups]


def _owners(group: Group | None) -> list[int]:
    return [] if group is None else list(group.owners)


def _items(metadata: ClusterMetadata, name: str) -> Keyed:
    if name == "placements":
        return {}
    view = component_view(metadata, name)
    del view["epoch"]
    if name == "schema":
        return _schema_items(view)
    if name not in _LISTED:
        return {name: view} if view["id"] else {}
    listed, key = _LISTED[name]
    found: Keyed = {item[key]: item for item in view.pop(listed)}
    running = view.get("reconfiguration")
    return found if running is None else {**found, (name,): {"reconfiguration": running}}


def _schema_items(view: Item) -> Keyed:
    found: Keyed = {}
    for keyspace in view["keyspaces"]:
        tables: Iterable[Item] = keyspace.pop("tables")
        found["keyspace", keyspace["name"]] = {"keyspace": keyspace}
        found.update({("table", table["id"]): {"table": table} for table in tables})
    return found


def _compared(before: Keyed, after: Keyed) -> Difference:
    return Difference(
        added=[item for key, item in after.items() if key not in before],
        removed=[item for key, item in before.items() if key not in after],
        changed=[
            {"before": before[key], "after": item}
            for key, item in after.items()
            if key in before and before[key] != item
        ],
    )
