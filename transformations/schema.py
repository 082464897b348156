"""Keyspaces and tables that come, change and go."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from metadata.cluster import ClusterMetadata
from metadata.epoch import following
from metadata.limits import COLUMNS_MAX, Name, Sentence
from metadata.placements import Placements, RingPlacement, settled
from metadata.schema import Column, Keyspace, Network, Replication, Schema, Table
from metadata.strategies import all_owners, zones_of
from transformations.fields import Verb
from transformations.guards import locked
from transformations.outcome import Accepted, Outcome, Reason, Rejected, Result

Columns = Annotated[tuple[Column, ...], Meta(min_length=1, max_length=COLUMNS_MAX)]
NamesOfColumns = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=COLUMNS_MAX)]


class CreateKeyspace(Verb, frozen=True):
    name: Name
    replication: Replication

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        if metadata.schema.find(self.name) is not None:
            return Rejected(
                Reason.KEYSPACE_EXISTS,
                f"keyspace {self.name} exists",
                "take another name, or alter the keyspace",
            )
        if metadata.placements.find(self.replication.key) is None:
            held = locked(metadata, f"{self.replication.key} cannot be placed for the first time")
            if held is not None:
                return held

        epoch = following(metadata.epoch)
        keyspace = Keyspace(name=self.name, replication=self.replication, epoch=epoch)
        schema = metadata.schema.with_keyspace(keyspace)
        return _accepted(metadata, schema, self.replication)


class AlterKeyspace(Verb, frozen=True):
    """Change how a keyspace is replicated, in one epoch.

    Nothing is copied. Where the keyspace has tables this would make owners of nodes without the
    data, so it needs `accept_loss`: a sentence that says why that may be.
    """

    name: Name
    replication: Replication
    accept_loss: Sentence | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        before = metadata.schema.find(self.name)
        if before is None:
            return _unknown_keyspace(self.name)
        if before.replication.key != self.replication.key:
            held = locked(metadata, "replication cannot change")
            if held is not None:
                return held
            if self.accept_loss is None and self._moves_data(metadata, before):
                return Rejected(
                    Reason.NEEDS_STEPS,
                    f"keyspace {self.name} has tables, and some ranges would get other owners "
                    "without their rows",
                    "give accept_loss a sentence that says why rows may be lost",
                )

        changed = Keyspace(
            name=self.name, replication=self.replication, epoch=following(metadata.epoch)
        )
        return _accepted(metadata, metadata.schema.with_keyspace(changed), self.replication)

    def _moves_data(self, metadata: ClusterMetadata, before: Keyspace) -> bool:
        if not metadata.schema.has_tables(self.name):
            return False
        now = metadata.placements.placed[before.replication.key]
        then = _placed(metadata, self.replication)
        pairs = zip(now.read_groups(), then.read_groups(), strict=True)
        return any(old.owners != new.owners for (_, old), (_, new) in pairs)


class DropKeyspace(Verb, frozen=True):
    """Remove a keyspace with all its tables."""

    name: Name

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        keyspace = metadata.schema.find(self.name)
        if keyspace is None:
            return _unknown_keyspace(self.name)
        key = keyspace.replication.key
        if metadata.schema.keyspaces_placed_by(key) == [self.name]:
            held = locked(metadata, f"the last keyspace with {key} cannot go")
            if held is not None:
                return held

        return _accepted(metadata, metadata.schema.without_keyspace(self.name))


class CreateTable(Verb, frozen=True):
    keyspace: Name
    name: Name
    columns: Columns
    partition_key: NamesOfColumns

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        if metadata.schema.find(self.keyspace) is None:
            return _unknown_keyspace(self.keyspace)
        if metadata.schema.table(self.keyspace, self.name) is not None:
            return Rejected(
                Reason.TABLE_EXISTS,
                f"table {self.keyspace}.{self.name} exists",
                "take another name, or alter the table",
            )
        refused = _duplicate_column([], self.columns) or self._key_refusal()
        if refused is not None:
            return refused

        epoch = following(metadata.epoch)
        table = Table(
            id=metadata.schema.next_table,
            keyspace=self.keyspace,
            name=self.name,
            columns=self.columns,
            partition_key=self.partition_key,
            created=epoch,
            epoch=epoch,
        )
        after = metadata.successor(schema=metadata.schema.with_table(table))
        return Accepted(after=after, result=Result(table=table.id))

    def _key_refusal(self) -> Rejected | None:
        names = {column.name for column in self.columns}
        unknown = [name for name in self.partition_key if name not in names]
        if unknown:
            return Rejected(Reason.INVALID_KEY, f"key column {unknown[0]} is not a column")
        if len(set(self.partition_key)) < len(self.partition_key):
            return Rejected(Reason.INVALID_KEY, "the partition key names a column twice")
        return None


class AlterTable(Verb, frozen=True):
    """Add columns, drop columns. A dropped name may come back only with its old type."""

    keyspace: Name
    name: Name
    add: Annotated[tuple[Column, ...], Meta(max_length=COLUMNS_MAX)] = ()
    drop: Annotated[tuple[Name, ...], Meta(max_length=COLUMNS_MAX)] = ()

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        table = metadata.schema.table(self.keyspace, self.name)
        if table is None:
            return _unknown_table(self.keyspace, self.name)
        refused = self._drop_refusal(table) or self._add_refusal(table)
        if refused is not None:
            return refused

        gone = [column for column in table.columns if column.name in self.drop]
        kept = tuple(column for column in table.columns if column.name not in self.drop)
        back = {column.name for column in self.add}
        dropped = tuple(column for column in (*table.dropped, *gone) if column.name not in back)
        changed = msgspec.structs.replace(
            table, columns=(*kept, *self.add), dropped=dropped, epoch=following(metadata.epoch)
        )
        return Accepted(after=metadata.successor(schema=metadata.schema.with_table(changed)))

    def _drop_refusal(self, table: Table) -> Rejected | None:
        names = {column.name for column in table.columns}
        for name in self.drop:
            if name not in names:
                return Rejected(Reason.UNKNOWN_COLUMN, f"{table.name} has no column {name}")
            if name in table.partition_key:
                return Rejected(Reason.INVALID_KEY, f"column {name} is part of the key")
        return None

    def _add_refusal(self, table: Table) -> Rejected | None:
        if not self.add and not self.drop:
            return Rejected(Reason.NOTHING_TO_DO, "neither add nor drop names a column")
        kept = [column for column in table.columns if column.name not in self.drop]
        types = {column.name: column.type for column in (*table.columns, *table.dropped)}
        for column in self.add:
            if types.get(column.name, column.type) != column.type:
                return Rejected(
                    Reason.TYPE_CHANGED,
                    f"column {column.name} was {types[column.name]} and rows of it may remain",
                    f"add it as {types[column.name]}, or take another name",
                )
        return _duplicate_column(kept, self.add) or self._too_many(kept)

    def _too_many(self, kept: list[Column]) -> Rejected | None:
        if len(kept) + len(self.add) <= COLUMNS_MAX:
            return None
        return Rejected(Reason.COLUMN_EXISTS, f"a table has at most {COLUMNS_MAX} columns")


class DropTable(Verb, frozen=True):
    keyspace: Name
    name: Name

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        table = metadata.schema.table(self.keyspace, self.name)
        if table is None:
            return _unknown_table(self.keyspace, self.name)

        return Accepted(after=metadata.successor(schema=metadata.schema.without_table(table)))


def _accepted(
    metadata: ClusterMetadata, schema: Schema, wanted: Replication | None = None
) -> Accepted:
    """Place what is newly wanted, and drop the placement that no keyspace uses any more."""
    in_use = {item.replication.key for item in schema.keyspaces.values()}
    placements: Placements = metadata.placements
    if wanted is not None and placements.find(wanted.key) is None:
        placements = placements.with_placements({wanted.key: _placed(metadata, wanted)})
    for key in sorted(placements.placed.keys() - in_use):
        placements = placements.without(key)
    result = Result(warnings=_warnings(metadata, wanted))
    if placements is metadata.placements:
        return Accepted(after=metadata.successor(schema=schema), result=result)
    return Accepted(after=metadata.successor(schema=schema, placements=placements), result=result)


def _placed(metadata: ClusterMetadata, replication: Replication) -> RingPlacement:
    present = metadata.placements.find(replication.key)
    if present is not None:
        return present
    zones = zones_of(replication, metadata.ring, metadata.locations())
    return settled(all_owners(zones, metadata.ring), following(metadata.epoch))


def _warnings(metadata: ClusterMetadata, replication: Replication | None) -> tuple[str, ...]:
    if not isinstance(replication, Network):
        return ()
    known = {node.location.datacenter for node in metadata.directory.nodes.values()}
    return tuple(
        f"no node is in datacenter {name}: nothing is placed there"
        for name in sorted(replication.factors)
        if name not in known
    )


def _duplicate_column(kept: list[Column], added: tuple[Column, ...]) -> Rejected | None:
    seen = {column.name for column in kept}
    for column in added:
        if column.name in seen:
            return Rejected(Reason.COLUMN_EXISTS, f"column {column.name} is there already")
        seen.add(column.name)
    return None


def _unknown_keyspace(name: str) -> Rejected:
    return Rejected(Reason.UNKNOWN_KEYSPACE, f"no keyspace {name}", "create the keyspace first")


def _unknown_table(keyspace: str, name: str) -> Rejected:
    return Rejected(Reason.UNKNOWN_TABLE, f"no table {keyspace}.{name}")
