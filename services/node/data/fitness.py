"""Whether a node may serve data: not while rows that it acknowledged may be missing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import partial

import msgspec
import structlog

from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId, NodeState
from metadata.epoch import Epoch
from metadata.schema import TableId
from metadata.tokens import Range
from services.http.problems import Code, ProblemError
from services.http.reports import ReportAnswer
from services.node.data.ownership import owned_ranges
from services.node.engine import NodeEngine
from store import hot
from store.database import Database
from store.ranges import coalesced, without

logger = structlog.get_logger()

SCHEMA = """
CREATE TABLE IF NOT EXISTS node_fitness (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    restored_at INTEGER NOT NULL,
    set_back INTEGER NOT NULL,
    repaired BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS node_forgotten (
    table_id INTEGER PRIMARY KEY,
    ranges BLOB NOT NULL
);
"""


class _Doubt(msgspec.Struct, frozen=True):
    """On disk from the start until the CMS has said that nothing is missing, or it is repaired."""

    restored_at: Epoch
    set_back: bool
    repaired: tuple[Range, ...]


class Fitness:
    """A node restored from an old copy has forgotten rows that it acknowledged.

    Only the CMS knows how far the node had been, and it says so once; hence the doubt is on disk
    before the first report, and a start that died in between asks again.
    """

    def __init__(self, database: Database, engine: NodeEngine) -> None:
        self._database = database
        self._engine = engine
        self._doubt: _Doubt | None = None

    async def begin(self) -> None:
        """Before the first report."""
        found = await self._database.read(_read)
        if found is None:
            found = _Doubt(self._engine.restored_at, set_back=False, repaired=())
            await self._keep(found)
        self._doubt = found
        # Nothing is written while there is doubt, so a start that died has not counted on.
        self._engine.restored_writes = await self.writes()
        self._engine.restored_at = min(found.restored_at, self._engine.restored_at)
        if found.set_back:
            self._engine.was_set_back = True

    async def settle(self, told: ReportAnswer) -> None:
        """After a report was answered."""
        if self._doubt is None or self._doubt.set_back or self._engine.was_set_back is None:
            return
        if self._engine.was_set_back:
            # From where the lost file ended: once repaired, the next start must not be behind it.
            await self._keep(
                msgspec.structs.replace(self._doubt, set_back=True), told.reported_writes or 0
            )
        else:
            await self._keep(None)

    async def writes(self) -> int:
        """How often rows were put here, of which the CMS remembers the most."""
        return await self._database.read(hot.writes)

    async def old_rows(self, table: TableId, ranges: Iterable[Range]) -> tuple[Range, ...]:
        """Where rows are as they were before this node was set back.

        Of what was deleted since, the tombstone may be gone from all others.
        """
        if self._doubt is None or not self._doubt.set_back:
            return ()
        forgotten = await self._database.read(partial(_forgotten, table=table))
        return without(ranges, (*self._doubt.repaired, *forgotten))

    def check_known(self) -> None:
        """Raise until it is known whether this node was set back."""
        if self._doubt is not None and not self._doubt.set_back:
            raise _doubtful(self._doubt)

    def check(self) -> None:
        """Raise while this node serves no data."""
        self._engine.check_trusted()
        if self._doubt is not None:
            raise _doubtful(self._doubt)
        if self._engine.node is None:
            raise ProblemError(Code.UNAVAILABLE, "The cluster does not know this node yet.")

    async def repaired(self, ranges: tuple[Range, ...]) -> bool:
        """Whether the node may serve, now that these ranges are whole again."""
        if self._doubt is None or not self._doubt.set_back:
            return self._doubt is None
        whole = coalesced((*self._doubt.repaired, *ranges))
        node = self._engine.node
        assert node is not None
        owned = owned_ranges(self._engine.applied.metadata, node)
        is_whole = not without(owned, whole)
        await self._keep(None if is_whole else msgspec.structs.replace(self._doubt, repaired=whole))
        if is_whole:
            self._engine.was_set_back = False
            logger.info("repaired", epoch=self._engine.applied.metadata.epoch)
        return is_whole

    async def _keep(self, doubt: _Doubt | None, writes: int = 0) -> None:
        def work(connection: sqlite3.Connection) -> None:
            _write(connection, doubt)
            hot.raise_writes(connection, writes)

        await self._database.write(work)
        self._doubt = doubt


def note_forgotten(
    connection: sqlite3.Connection, table: TableId, ranges: tuple[Range, ...]
) -> None:
    """In the transaction that deletes the old rows; raises if they are not old any more.

    Another repair may have ended meanwhile, and the node may have taken in new ones.
    """
    doubt = _read(connection)
    if doubt is None or not doubt.set_back:
        raise ProblemError(Code.NO_PERMIT, "This node is repaired: nothing that it has is old.")
    whole = coalesced((*_forgotten(connection, table), *ranges))
    connection.execute(
        "INSERT OR REPLACE INTO node_forgotten VALUES (?, ?)", (table, msgspec.json.encode(whole))
    )


def check_member(metadata: ClusterMetadata, node: NodeId) -> None:
    """A node that leaves serves until its sequence is retired, then stops."""
    found = metadata.directory.nodes.get(node)
    is_gone = found is None or found.state is NodeState.LEFT
    if is_gone and metadata.sequences.of_node(node) is None:
        raise ProblemError(
            Code.UNAVAILABLE,
            f"Node {node} has left the cluster: ask another node.",
            epoch=metadata.epoch,
        )


def _doubtful(doubt: _Doubt) -> ProblemError:
    if doubt.set_back:
        return ProblemError(
            Code.NEEDS_REPAIR,
            f"This node was set back to epoch {doubt.restored_at}, so rows may be missing: "
            "repair its ranges, or replace it.",
        )
    return ProblemError(
        Code.UNAVAILABLE,
        "This node has just started and waits for a CMS to confirm that it was not set back.",
    )


def _read(connection: sqlite3.Connection) -> _Doubt | None:
    query = "SELECT restored_at, set_back, repaired FROM node_fitness"
    row = connection.execute(query).fetchone()
    if row is None:
        return None
    repaired = msgspec.json.decode(row[2], type=tuple[Range, ...])
    return _Doubt(Epoch(row[0]), set_back=bool(row[1]), repaired=repaired)


def _write(connection: sqlite3.Connection, doubt: _Doubt | None) -> None:
    connection.execute("DELETE FROM node_fitness")
    if doubt is None:
        connection.execute("DELETE FROM node_forgotten")
    else:
        row = (doubt.restored_at, doubt.set_back, msgspec.json.encode(doubt.repaired))
        connection.execute("INSERT INTO node_fitness VALUES (1, ?, ?, ?)", row)


def _forgotten(connection: sqlite3.Connection, table: TableId) -> tuple[Range, ...]:
    query = "SELECT ranges FROM node_forgotten WHERE table_id = ?"
    row = connection.execute(query, (table,)).fetchone()
    return () if row is None else msgspec.json.decode(row[0], type=tuple[Range, ...])
