"""Who a node is, kept in its own file: the same after every start, and no other cluster's."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from uuid import uuid4

import msgspec

from metadata.cluster import ClusterId
from metadata.directory import NodeId
from store.database import Database

SCHEMA = """
CREATE TABLE IF NOT EXISTS node_identity (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    cluster TEXT NOT NULL,
    name TEXT NOT NULL,
    host_id TEXT NOT NULL,
    node INTEGER
);
"""


class ForeignDirectoryError(Exception):
    """The state directory belongs to another node or another cluster."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """`host_id` is made before the node is registered, so that a start that died in between
    finds itself in the directory again. `node` is None until the cluster has given a number.
    """

    cluster: ClusterId
    name: str
    host_id: str
    node: NodeId | None = None


async def read_identity(database: Database) -> Identity | None:
    return await database.read(_read)


async def settle_identity(
    database: Database,
    *,
    cluster: ClusterId,
    name: str,
    new_host_id: Callable[[], str] = lambda: str(uuid4()),
) -> Identity:
    """The identity in the file, or a new one; another cluster's or node's is refused."""

    def settle(connection: sqlite3.Connection) -> Identity:
        found = _read(connection)
        if found is None:
            found = Identity(cluster=cluster, name=name, host_id=new_host_id())
            _write(connection, found)
        return found

    found = await database.write(settle)
    check_own(found, cluster=cluster, name=name)
    return found


def check_own(identity: Identity, *, cluster: ClusterId | None, name: str) -> None:
    """`cluster` is None while no CMS has said which one it is."""
    if cluster not in (None, identity.cluster):
        raise ForeignDirectoryError(
            f"The state directory belongs to cluster {identity.cluster}, and the seeds to cluster "
            f"{cluster}: give this node a state directory of its own, or the right seeds."
        )
    if name != identity.name:
        raise ForeignDirectoryError(
            f"The state directory belongs to the node named {identity.name}, not {name}: two "
            "nodes must not share one, nor one be started from the copy of another."
        )


async def keep_number(database: Database, identity: Identity, node: NodeId) -> Identity:
    """The number under which the cluster knows this node from now on."""
    numbered = msgspec.structs.replace(identity, node=node)
    await database.write(lambda connection: _write(connection, numbered))
    return numbered


def _read(connection: sqlite3.Connection) -> Identity | None:
    query = "SELECT cluster, name, host_id, node FROM node_identity"
    row = connection.execute(query).fetchone()
    if row is None:
        return None
    return Identity(cluster=ClusterId(row[0]), name=row[1], host_id=row[2], node=row[3])


def _write(connection: sqlite3.Connection, identity: Identity) -> None:
    row = (identity.cluster, identity.name, identity.host_id, identity.node)
    connection.execute("INSERT OR REPLACE INTO node_identity VALUES (1, ?, ?, ?, ?)", row)
