"""Rules about numbers: epochs, and ids that are given once."""

from __future__ import annotations

from collections.abc import Iterator

from audit.transition import Transition, other_groups
from metadata.extensions import Extension
from metadata.placements import ReplicaGroups, RingPlacement
from metadata.schema import Keyspace, PlacementKey, Table
from metadata.strategies import Owners
from metadata.tokens import Range
from transformations.extensions import SetExtension
from transformations.schema import AlterKeyspace, AlterTable, CreateKeyspace, CreateTable


def component_epochs(found: Transition) -> Iterator[str]:
    """A component carries the new epoch if and only if its content changed."""
    if found.after.epoch != found.before.epoch + 1:
        yield f"epoch {found.before.epoch} is followed by {found.after.epoch}"
    for name in sorted(found.changed):
        earlier, later = getattr(found.before, name), getattr(found.after, name)
        if (earlier.digest != later.digest) != (later.epoch == found.epoch):
            yield f"{name} says that it changed at {later.epoch}"


def group_epochs(found: Transition) -> Iterator[str]:
    """A replica group carries the new epoch if and only if the owners of its tokens changed."""
    for key, placement in found.after.placements.items():
        earlier = found.before.placements.find(key)
        if earlier is not None and earlier is not placement:
            yield from _stamps(found, key, earlier, placement)


def _stamps(
    found: Transition, key: PlacementKey, before: RingPlacement, after: RingPlacement
) -> Iterator[str]:
    for name, old, new in (
        ("reads", before.reads, after.reads),
        ("writes", before.writes, after.writes),
    ):
        for span, group in other_groups(old, new):
            changed = _other_owners(old, span, group.owners)
            if changed != (group.epoch == found.epoch):
                yield f"{name} of {key}: {span} is stamped {group.epoch}"


def _other_owners(old: ReplicaGroups, span: Range, owners: Owners) -> bool:
    earlier = [group.owners for _, group in old.overlapping(span)]
    return not earlier or any(item != owners for item in earlier)


def item_epochs(found: Transition) -> Iterator[str]:
    """The keyspace, table or extension that an entry names carries its epoch afterwards."""
    schema = found.after.schema
    item: Keyspace | Table | Extension | None
    match found.entry.transformation:
        case CreateKeyspace(name=name) | AlterKeyspace(name=name):
            item, what = schema.find(name), f"keyspace {name}"
        case CreateTable(keyspace=keyspace, name=name) | AlterTable(keyspace=keyspace, name=name):
            item, what = schema.table(keyspace, name), f"table {keyspace}.{name}"
        case SetExtension(name=name):
            item, what = found.after.extensions.by_name.get(name), f"extension {name}"
        case _:
            return
    if item is None:
        yield f"{what} is not there after the entry that made or changed it"
    elif item.epoch != found.epoch:
        yield f"{what} is stamped {item.epoch}"


def ids(found: Transition) -> Iterator[str]:
    """Numbers of nodes and tables are given once, whatever becomes of who had them."""
    before, after = found.before, found.after
    if after.directory.next_node < before.directory.next_node:
        yield f"the next node would be {after.directory.next_node}, a number given before"
    if after.schema.next_table < before.schema.next_table:
        yield f"the next table would be {after.schema.next_table}, a number given before"
    result = found.entry.result
    if result.node is not None and result.node < before.directory.next_node:
        yield f"node {result.node} has a number that was given before"
    if result.table is not None and result.table < before.schema.next_table:
        yield f"table {result.table} has a number that was given before"
