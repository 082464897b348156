"""Repair: what any owner of a range has is brought to all of them.

But for rows of a node that was set back, where the others have all that was acknowledged: of what
was deleted since, no tombstone may be left.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from uuid import uuid4

import msgspec

from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.plans import RangeChange
from metadata.schema import Table, TableId
from metadata.sessions import Session, SessionId
from metadata.strategies import Owners
from metadata.tokens import Range, coalesce, intersections
from movement.batches import Batch, batches
from movement.manifests import Manifest
from movement.transfers import Gained, Transfer, without_old
from sequences.disturbance import disturbance, rival
from sequences.ports import WorkError
from services.driver.attempt import make_sure_of, told
from services.driver.copying import Copying, Place, Tools
from services.driver.flushing import Flushed, flush_all
from services.driver.progress import Meter
from services.driver.together import all_of
from services.http.data_messages import FILES_MAX, Forget, Repaired
from services.node.data.ownership import owned_ranges

BATCHES_AT_ONCE_MAX = 2
REPAIR = "repair"

Newest = Callable[[], Awaitable[ClusterMetadata]]
"""The metadata, not older than any entry that was acknowledged before the call."""

Files = Mapping[NodeId, list[str]]


class Repairer:
    """Safe to repeat; the session stays open until somebody closes it.

    Every owner must answer: tombstones may go only when all of them have seen them.
    """

    def __init__(self, tools: Tools, newest: Newest, clock: Callable[[], float]) -> None:
        self._tools = tools
        self._newest = newest
        self._clock = clock

    async def repair(self, metadata: ClusterMetadata, session: Session) -> None:
        gained = list(shared_by(metadata, session.ranges))
        owners = sorted({item.target for item in gained})
        absent = [node for node in owners if node not in session.nodes]
        if absent:
            raise WorkError(
                f"session {session.id} does not name nodes {', '.join(map(str, absent))}: "
                "open one for all owners of its ranges"
            )
        transfers = [Transfer(item, item.change.before) for item in gained]
        opened = Epoch(session.id)
        silent = sorted(set(owners) - await self._tools.nodes.answering(owners, opened))
        if silent:
            raise WorkError(_silence(silent), silent)
        await make_sure_of(self._tools.spark)
        flushed = await flush_all(self._tools.nodes, session.id, opened, transfers)
        fresh = without_old(transfers, flushed.old)
        flushed = msgspec.structs.replace(flushed, transfers=tuple(fresh))
        wanted = batches(gained)
        forgets = list(_forgets(session.id, transfers, fresh))
        brought = await self._brought(session.id, wanted, flushed, forgets)
        files = _read(flushed)
        for batch, paths in zip(wanted, brought, strict=True):
            files[batch.target] += paths
        await self._tell(metadata, session, files)

    async def _tell(self, metadata: ClusterMetadata, session: Session, files: Files) -> None:
        """Let tombstones go that were brought to all owners, unless somebody may lack them.

        A sequence may have begun meanwhile, and have copied from an owner before what was brought
        there came. If it has not ended, it holds its ranges by the newest metadata; if it has, the
        owners have another epoch: then nothing is told, and the repair is tried again later. A
        sequence that is not in that metadata yet is no danger: its sources are flushed after its
        START, and so after all that was brought has landed, at every owner that it may copy from.

        The same holds for another repair: one that is not open yet reads what has landed by now.
        One that is open may have read an owner before, so no file is named, and no tombstone goes
        before the next repair. Nodes that are told know the metadata of now: what was closed by
        then can bring nothing more to them.
        """
        now = await self._newest()
        found = disturbance(metadata, now, session.ranges)
        if found is not None:
            raise WorkError(f"{found} since the rows were read: nothing counts as repaired yet")
        covered = {} if rival(now, session) else files
        await all_of(
            self._tools.nodes.repaired(node, message)
            for node in owners_of(metadata, session)
            for message in _messages(session, now.epoch, covered.get(node, ()))
        )

    async def _brought(
        self,
        session: SessionId,
        wanted: Sequence[Batch],
        flushed: Flushed,
        forgets: Iterable[tuple[NodeId, Forget]],
    ) -> list[tuple[str, ...]]:
        """The files that each target has imported, of which none did before all are staged.

        A try that fails for want of room at one of them has then left nothing at the others, to
        which the next one brings everything again. Nor is anything forgotten before, which is old
        but may be of use where somebody else is lost meanwhile.
        """
        attempt, turns = uuid4().hex, asyncio.Semaphore(BATCHES_AT_ONCE_MAX)
        copyings = [await self._copying(session, batch, attempt) for batch in wanted]
        staged = dict[Copying, Manifest]()

        async def stage(batch: Batch, copying: Copying) -> None:
            async with turns:
                with told(batch):
                    staged[copying] = await copying.published(flushed)

        async def land(batch: Batch, copying: Copying) -> tuple[str, ...]:
            async with turns:
                with told(batch):
                    await copying.landed(staged[copying])
                    return tuple(item.path for item in staged[copying].files)

        try:
            await all_of(map(stage, wanted, copyings))
            await all_of(self._tools.nodes.forget(node, message) for node, message in forgets)
        except BaseException:
            dropped = (copying.drop(manifest) for copying, manifest in staged.items())
            await asyncio.gather(*dropped, return_exceptions=True)
            raise
        return await all_of(map(land, wanted, copyings))

    async def _copying(self, session: SessionId, batch: Batch, attempt: str) -> Copying:
        with told(batch):
            staging = await self._tools.nodes.staging(batch.target, session)
        name = batch.name_in(session, f"{REPAIR}-{attempt}")
        place = Place(
            name=name,
            session=session,
            staging=staging,
            folder=f"{staging}/{attempt}/{name}",
            unique=attempt,
            tag=f"{REPAIR}-{session}",
        )
        return Copying(self._tools, batch, place, Meter(self._clock))


def owners_of(metadata: ClusterMetadata, session: Session) -> list[NodeId]:
    """Whom it names of those who own something there, whether there is a table or not."""
    return sorted(
        node
        for node in session.nodes
        if intersections(owned_ranges(metadata, node), session.ranges)
    )


def _read(flushed: Flushed) -> defaultdict[NodeId, list[str]]:
    found: defaultdict[NodeId, list[str]] = defaultdict(list)
    for pieces in flushed.pieces.values():
        for piece in pieces:
            found[piece.node].append(piece.path)
    return found


def _forgets(
    session: SessionId, transfers: Iterable[Transfer], fresh: Iterable[Transfer]
) -> Iterator[tuple[NodeId, Forget]]:
    """Whoever is not read of a range has old rows there, which are not to come back."""
    ranges: defaultdict[tuple[NodeId, TableId], list[Range]] = defaultdict(list)
    for every, kept in zip(transfers, fresh, strict=True):
        for node in every.sources:
            if node not in kept.sources:
                ranges[node, every.gained.table.id].append(every.gained.change.range)
    for (node, table), found in sorted(ranges.items()):
        yield node, Forget(session=session, table=table, ranges=coalesce(found))


def _messages(session: Session, epoch: Epoch, files: Sequence[str]) -> Iterator[Repaired]:
    """As many as the files need, and one where there is none."""
    for start in range(0, max(len(files), 1), FILES_MAX):
        part = tuple(files[start : start + FILES_MAX])
        yield Repaired(session=session.id, ranges=session.ranges, epoch=epoch, files=part)


def shared_by(metadata: ClusterMetadata, ranges: Iterable[Range]) -> Iterator[Gained]:
    """For each table and owner, the parts of these ranges that it shares with others."""
    listed = tuple(ranges)
    for key in sorted(metadata.placements.placed):
        tables = metadata.schema.tables_placed_by(key)
        for whole, group in metadata.placements.placed[key].write_groups():
            for part in intersections((whole,), listed):
                yield from _shared(metadata, tables, part, group.owners)


def _shared(
    metadata: ClusterMetadata, tables: Iterable[Table], part: Range, owners: Owners
) -> Iterator[Gained]:
    listed = tuple(sorted(owners))
    for table in tables:
        keyspace = metadata.schema.find(table.keyspace)
        assert keyspace is not None, table
        wanted = keyspace.replication.copies
        change = RangeChange(range=part, before=listed, after=listed, wanted=wanted)
        yield from (Gained(table, change, NodeId(node)) for node in listed)


def _silence(nodes: Iterable[NodeId]) -> str:
    listed = ", ".join(f"node {node} does not answer" for node in nodes)
    return f"{listed}: a repair needs every owner of its ranges"
