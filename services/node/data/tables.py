"""What a coordinator goes by in one attempt: the metadata, taken once, and the table in it."""

from __future__ import annotations

import msgspec

from metadata.cluster import ClusterMetadata
from metadata.replicas import Replicas, replicas_of
from metadata.schema import Table
from metadata.tokens import Token
from services.http.problems import Code, ProblemError


class TableName(msgspec.Struct, frozen=True):
    keyspace: str
    table: str


class View(msgspec.Struct, frozen=True):
    """One table at one version."""

    metadata: ClusterMetadata
    table: Table

    def replicas(self, token: Token) -> Replicas:
        found = replicas_of(self.metadata, self.table.keyspace, token)
        if found is None:
            raise ProblemError(
                Code.UNAVAILABLE_REPLICAS,
                "No node owns anything yet: let a node join first.",
                epoch=self.metadata.epoch,
            )
        return found

    def replicas_in(self, later: ClusterMetadata, token: Token) -> Replicas | None:
        """By another version; None if the table is gone there, or was made anew."""
        if later.schema.tables.get(self.table.id) is None:
            return None
        return replicas_of(later, self.table.keyspace, token)


def viewed(metadata: ClusterMetadata, name: TableName) -> View:
    table = metadata.schema.table(name.keyspace, name.table)
    if table is None:
        missing = "keyspace" if metadata.schema.find(name.keyspace) is None else "table"
        shown = f"{name.keyspace[:50]}.{name.table[:50]}"
        raise ProblemError(
            Code.UNKNOWN_TABLE,
            f"There is no {missing} for {shown} at epoch {metadata.epoch}: create it first.",
            field=missing,
            epoch=metadata.epoch,
        )
    return View(metadata, table)
