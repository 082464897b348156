"""The node's side of movement: flush, staging, import, cleanup; each under the permit it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.schema import Table, TableId
from metadata.sessions import Purpose, Session
from metadata.tokens import Range
from sequences.disturbance import holder
from services.http.data_messages import (
    Cleanup,
    CleanupAnswer,
    Flush,
    FlushAnswer,
    Forget,
    ForgetAnswer,
    Import,
    ImportAnswer,
    Imported,
    ImportedAnswer,
    Repaired,
    RepairedAnswer,
    Sizes,
    SizesAnswer,
    Staging,
    StagingAnswer,
    TableRanges,
    TableSize,
)
from services.http.problems import Code, ProblemError
from services.node.data.failures import told
from services.node.data.fitness import Fitness, note_forgotten
from services.node.data.manifests import imported_segments, note_import
from services.node.data.ownership import owned_of, written_of
from services.node.data.paths import DataPaths
from services.node.data.permits import Permits, permitted
from services.node.engine import NodeEngine
from store import handed
from store.database import Database
from store.failures import named_os
from store.handed import Handed
from store.imports import Staged
from store.manifest import Segment
from store.ranges import overlap, without
from store.store import Store

COPYING = (Purpose.MOVEMENT, Purpose.REPAIR)
CATCH_UP_TIMEOUT_S = 5.0


class Movement:
    """Everything may be repeated: whoever asks may have died before it heard the answer."""

    def __init__(
        self,
        engine: NodeEngine,
        store: Store,
        database: Database,
        fitness: Fitness,
        paths: DataPaths,
    ) -> None:
        self._engine = engine
        self._store = store
        self._database = database
        self._fitness = fitness
        self._paths = paths
        self._permits = Permits(engine)
        self._forgetting = asyncio.Lock()

    async def flush(self, wanted: Flush) -> FlushAnswer:
        """All that was let in to the ranges by versions older than `epoch`, in segments."""
        node = self._node()
        await self._drained(max(wanted.epoch, Epoch(wanted.session)), wanted.wait_s)
        drained = self._engine.gate.drained
        session = permitted(self._metadata, wanted.session, COPYING, wanted.ranges)
        if session.purpose is Purpose.MOVEMENT:
            # Rows that a node has forgotten would be missing in the copy.
            self._fitness.check()
        else:
            self._fitness.check_known()
        epochs, segments, old = [drained], list[Segment](), list[TableRanges]()
        for table in self._tables(wanted.tables):
            found = await self._handed(session, wanted, table)
            if found is None:
                segments += await self._flushed(wanted, table, drained)
            else:
                epochs.append(found.epoch)
                segments += found.segments
            doubted = await self._fitness.old_rows(table.id, wanted.ranges)
            old += [TableRanges(table.id, doubted)] if doubted else []
        files = tuple(map(self._paths.described, segments))
        return FlushAnswer(node=node, epoch=min(epochs), segments=files, old=tuple(old))

    async def _handed(self, session: Session, wanted: Flush, table: Table) -> Handed | None:
        """What an earlier try got: whatever came after START is written to the targets too.

        A repair has no such writers. What it brings must be what its owners have when it is tried.
        """
        if session.purpose is not Purpose.MOVEMENT:
            return None
        with told():
            found = await self._store.handed(session.id, table.id, wanted.ranges)
        return found if found is not None and found.epoch >= wanted.epoch else None

    async def _flushed(self, wanted: Flush, table: Table, drained: Epoch) -> list[Segment]:
        def check(metadata: ClusterMetadata) -> None:
            permitted(metadata, wanted.session, COPYING, wanted.ranges)

        note = partial(
            handed.note,
            session=wanted.session,
            table=table.id,
            epoch=drained,
            ranges=wanted.ranges,
        )
        with told():
            await self._permits.run(check, partial(self._store.flush, table, wanted.ranges))
            return await self._permits.run(
                check, partial(self._store.pin, wanted.session, table.id, wanted.ranges), note
            )

    async def staging(self, wanted: Staging) -> StagingAnswer:
        await self._reached(Epoch(wanted.session))
        permitted(self._metadata, wanted.session, COPYING, ())
        folder = self._paths.staging(wanted.session)
        with told():
            await asyncio.to_thread(_made, folder)
        return StagingAnswer(str(folder))

    async def take_over(self, wanted: Import) -> ImportAnswer:
        """In one transaction: the permit, and the files in the manifest."""
        node = self._node()
        await self._reached(Epoch(wanted.session))
        table = self._tables([wanted.table])[0]
        files = [
            Staged(
                path=self._paths.staged(file.path, wanted.session),
                size_bytes=file.bytes,
                sha256=file.checksum,
                ranges=wanted.ranges,
            )
            for file in wanted.files
        ]

        def check(metadata: ClusterMetadata) -> None:
            session = permitted(metadata, wanted.session, COPYING, wanted.ranges)
            _check_named(session.nodes, node)
            found = _table(metadata, table.id)
            if without(wanted.ranges, written_of(metadata, found, node)):
                raise ProblemError(
                    Code.NOT_OWNER,
                    f"Node {node} does not write all of these ranges.",
                    field="ranges",
                    epoch=metadata.epoch,
                )

        # Also where the name is known and nothing is left to do: a zombie should hear of it.
        check(self._metadata)
        with told():
            registered = await self._permits.run(
                check,
                partial(self._store.register, table, wanted.name, files),
                lambda connection: note_import(connection, wanted, [file.path for file in files]),
            )
        return ImportAnswer(registered)

    async def imported(self, wanted: Imported) -> ImportedAnswer:
        found = await self._database.read(partial(imported_segments, wanted=wanted))
        return ImportedAnswer(tuple(map(self._paths.described, found)))

    async def cleanup(self, wanted: Cleanup) -> CleanupAnswer:
        """Delete what this node neither reads nor writes by its own metadata, table by table."""
        node = self._node()
        deadline_s = self._engine.following.clock() + wanted.wait_s
        await self._drained(Epoch(wanted.session), wanted.wait_s)
        await self._released(wanted.ranges, deadline_s)
        _check_cleanup(self._metadata, wanted, node)
        deleted: list[TableRanges] = []
        for table in self._metadata.schema.tables.values():
            ranges = await self._cleaned(wanted, table, node)
            if ranges:
                deleted.append(TableRanges(table.id, ranges))
        return CleanupAnswer(node=node, epoch=self._metadata.epoch, deleted=tuple(deleted))

    async def _cleaned(self, wanted: Cleanup, table: Table, node: NodeId) -> tuple[Range, ...]:
        ranges = without(wanted.ranges, owned_of(self._metadata, table, node))
        if not ranges:
            return ()

        def check(metadata: ClusterMetadata) -> None:
            _check_cleanup(metadata, wanted, node)
            if overlap(ranges, owned_of(metadata, _table(metadata, table.id), node)):
                raise ProblemError(
                    Code.RANGES_RESERVED, "The ranges have come back to this node: ask again."
                )

        with told():
            await self._permits.run(check, partial(self._store.cleanup, table.id, ranges))
        return ranges

    async def forget(self, wanted: Forget) -> ForgetAnswer:
        """Delete old rows once; one at a time, so that nobody takes for old what came meanwhile."""
        node = self._node()
        await self._reached(Epoch(wanted.session))

        def check(metadata: ClusterMetadata) -> None:
            session = permitted(metadata, wanted.session, (Purpose.REPAIR,), wanted.ranges)
            _check_named(session.nodes, node)
            if holder(metadata, wanted.ranges) is not None:
                raise _reserved(metadata.epoch, "repair them when it is retired")

        check(self._metadata)
        async with self._forgetting:
            old = await self._fitness.old_rows(wanted.table, wanted.ranges)
            if old:
                effect = partial(self._store.cleanup, wanted.table, old)
                note = partial(note_forgotten, table=wanted.table, ranges=old)
                with told():
                    await self._permits.run(check, effect, note)
        return ForgetAnswer(old)

    async def repaired(self, wanted: Repaired) -> RepairedAnswer:
        # Whoever could undo it by the metadata of `epoch` is unknown here before that.
        await self._reached(max(wanted.epoch, Epoch(wanted.session)))
        node = self._node()

        def check(metadata: ClusterMetadata) -> None:
            session = permitted(metadata, wanted.session, (Purpose.REPAIR,), wanted.ranges)
            _check_named(session.nodes, node)

        check(self._metadata)
        paths = frozenset(map(self._paths.relative, wanted.files))
        with told():
            marked = await self._permits.run(
                check, partial(self._store.cover, wanted.session, wanted.ranges, paths)
            )
        return RepairedAnswer(marked, await self._fitness.repaired(wanted.ranges))

    async def sizes(self, wanted: Sizes) -> SizesAnswer:
        known = self._metadata.schema.tables
        tables = self._tables(known if wanted.tables is None else wanted.tables)
        found = []
        for table in tables:
            with told():
                size = await self._store.estimate(table, wanted.ranges)
            found.append(TableSize(table=table.id, rows=size.rows, bytes=size.size_bytes))
        return SizesAnswer(tuple(found))

    @property
    def _metadata(self) -> ClusterMetadata:
        return self._engine.applied.metadata

    def _node(self) -> NodeId:
        self._engine.check_trusted()
        if self._engine.node is None:
            raise ProblemError(Code.UNAVAILABLE, "The cluster does not know this node yet.")
        return self._engine.node

    def _tables(self, wanted: Iterable[TableId]) -> list[Table]:
        return [_table(self._metadata, table) for table in wanted]

    async def _reached(self, epoch: Epoch) -> None:
        """A session is named by the epoch that opened it; before that nothing is known of it."""
        if not await self._engine.catch_up(epoch, CATCH_UP_TIMEOUT_S):
            raise _not_drained(self._metadata.epoch, epoch)

    async def _drained(self, epoch: Epoch, timeout_s: float) -> None:
        if not await self._engine.drained(epoch, timeout_s):
            raise _not_drained(self._engine.gate.drained, epoch)

    async def _released(self, ranges: tuple[Range, ...], deadline_s: float) -> None:
        """Until no sequence has these ranges in hand."""
        while holder(self._metadata, ranges) is not None:
            left_s = deadline_s - self._engine.following.clock()
            if left_s <= 0:
                raise _reserved(self._metadata.epoch, "clean up when it is retired")
            await self._engine.reached(Epoch(self._metadata.epoch + 1), left_s)


def _reserved(epoch: Epoch, remedy: str) -> ProblemError:
    return ProblemError(
        Code.RANGES_RESERVED,
        f"A sequence has these ranges in hand: {remedy}.",
        field="ranges",
        epoch=epoch,
    )


def _made(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise named_os(error, str(folder)) from error


def _check_cleanup(metadata: ClusterMetadata, wanted: Cleanup, node: NodeId) -> None:
    session = permitted(metadata, wanted.session, (Purpose.CLEANUP,), wanted.ranges)
    _check_named(session.nodes, node)


def _check_named(nodes: tuple[NodeId, ...], node: NodeId) -> None:
    if node not in nodes:
        raise ProblemError(Code.NO_PERMIT, f"The session does not name node {node}.")


def _table(metadata: ClusterMetadata, table: TableId) -> Table:
    found = metadata.schema.tables.get(table)
    if found is None:
        raise ProblemError(
            Code.UNKNOWN_TABLE,
            f"There is no table {table} at epoch {metadata.epoch}.",
            field="table",
            epoch=metadata.epoch,
        )
    return found


def _not_drained(found: Epoch, wanted: Epoch) -> ProblemError:
    return ProblemError(
        Code.NOT_DRAINED,
        f"This node has applied epoch {found} and could not apply epoch {wanted} in time.",
        epoch=found,
    )
