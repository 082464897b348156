"""Keyspaces and their tables."""

from __future__ import annotations

from functools import cached_property
from typing import NewType

import immutables
import msgspec

from metadata.columns import ColumnType
from metadata.digest import digest_of
from metadata.epoch import EMPTY, Epoch
from metadata.hashed_map import HashedMap
from metadata.limits import Factor, Factors, Name

TableId = NewType("TableId", int)
"""Given once by the schema and never again, so that rows of a dropped table stay its own."""

PlacementKey = NewType("PlacementKey", str)
"""One replication setting as text; keyspaces with the same one share a placement."""


class Simple(msgspec.Struct, frozen=True, tag_field="strategy", tag="simple", gc=False):
    """The first `factor` distinct nodes clockwise."""

    factor: Factor

    @property
    def key(self) -> PlacementKey:
        return PlacementKey(f"simple:{self.factor}")

    @property
    def copies(self) -> int:
        return self.factor


class Network(msgspec.Struct, frozen=True, tag_field="strategy", tag="network"):
    """In each datacenter its own number of nodes, on different racks where there are enough."""

    factors: Factors

    @property
    def key(self) -> PlacementKey:
        named = (f"{name}={count}" for name, count in sorted(self.factors.items()) if count)
        return PlacementKey(f"network:{','.join(named)}")

    @property
    def copies(self) -> int:
        """How many are wanted, those in datacenters that have no node left included."""
        return sum(self.factors.values())


Replication = Simple | Network


class Keyspace(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    name: str
    replication: Replication
    epoch: Epoch


class Column(msgspec.Struct, frozen=True, gc=False):
    name: Name
    type: ColumnType


class Table(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """`dropped` remembers columns that went, so that a name never returns with another type."""

    id: TableId
    keyspace: str
    name: str
    columns: tuple[Column, ...]
    partition_key: tuple[str, ...]
    created: Epoch
    epoch: Epoch
    dropped: tuple[Column, ...] = ()


class Schema(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Keyspaces by name and tables by id; `by_name` is an index: keyspace, table name, id."""

    keyspaces: HashedMap[str, Keyspace] = HashedMap()
    tables: HashedMap[TableId, Table] = HashedMap()
    next_table: TableId = TableId(1)
    epoch: Epoch = EMPTY
    by_name: immutables.Map[str, immutables.Map[str, TableId]] = immutables.Map()

    @cached_property
    def digest(self) -> bytes:
        return digest_of(self.keyspaces.digest, self.tables.digest, self.next_table, self.epoch)

    def find(self, keyspace: str) -> Keyspace | None:
        return self.keyspaces.get(keyspace)

    def table(self, keyspace: str, name: str) -> Table | None:
        found = self.by_name.get(keyspace, immutables.Map()).get(name)
        return None if found is None else self.tables[found]

    def tables_of(self, keyspace: str) -> list[Table]:
        ids = self.by_name.get(keyspace, immutables.Map()).values()
        return [self.tables[table] for table in sorted(ids)]

    def has_tables(self, keyspace: str) -> bool:
        return bool(self.by_name.get(keyspace))

    def keyspaces_placed_by(self, key: PlacementKey) -> list[str]:
        return [item.name for item in self.keyspaces.values() if item.replication.key == key]

    def tables_placed_by(self, key: PlacementKey) -> list[Table]:
        placed = self.keyspaces_placed_by(key)
        return [table for keyspace in placed for table in self.tables_of(keyspace)]

    def with_keyspace(self, keyspace: Keyspace) -> Schema:
        by_name = self.by_name
        if keyspace.name not in by_name:
            by_name = by_name.set(keyspace.name, immutables.Map())
        keyspaces = self.keyspaces.with_item(keyspace.name, keyspace)
        return msgspec.structs.replace(self, keyspaces=keyspaces, by_name=by_name)

    def without_keyspace(self, name: str) -> Schema:
        return msgspec.structs.replace(
            self,
            keyspaces=self.keyspaces.without([name]),
            tables=self.tables.without(self.by_name[name].values()),
            by_name=self.by_name.delete(name),
        )

    def with_table(self, table: Table) -> Schema:
        named = self.by_name[table.keyspace].set(table.name, table.id)
        return msgspec.structs.replace(
            self,
            tables=self.tables.with_item(table.id, table),
            next_table=max(self.next_table, TableId(table.id + 1)),
            by_name=self.by_name.set(table.keyspace, named),
        )

    def without_table(self, table: Table) -> Schema:
        named = self.by_name[table.keyspace].delete(table.name)
        return msgspec.structs.replace(
            self,
            tables=self.tables.without([table.id]),
            by_name=self.by_name.set(table.keyspace, named),
        )
