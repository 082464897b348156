"""Repair: what any owner of a range has is brought to all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from uuid import uuid4

from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.plans import RangeChange
from metadata.schema import Table
from metadata.sessions import Session, SessionId
from metadata.strategies import Owners
from metadata.tokens import Range, intersections
from movement.batches import Batch, batches
from movement.transfers import Gained, Transfer
from sequences.ports import WorkError
from services.driver.attempt import told
from services.driver.copying import Copying, Place, Tools
from services.driver.flushing import Flushed, flush_all
from services.driver.progress import Meter
from services.driver.together import all_of
from services.http.data_messages import Repaired

BATCHES_AT_ONCE_MAX = 2
REPAIR = "repair"


class Repairer:
    """Safe to repeat; the session stays open until somebody closes it.

    Every owner must answer: tombstones may go only when all of them have seen them.
    """

    def __init__(self, tools: Tools, clock: Callable[[], float]) -> None:
        self._tools = tools
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
        flushed = await flush_all(self._tools.nodes, session.id, opened, transfers)
        turns = asyncio.Semaphore(BATCHES_AT_ONCE_MAX)
        attempt = uuid4().hex
        await all_of(
            self._brought(session.id, batch, flushed, attempt, turns) for batch in batches(gained)
        )
        done = Repaired(session=session.id, ranges=session.ranges)
        await all_of(self._tools.nodes.repaired(node, done) for node in owners)

    async def _brought(
        self,
        session: SessionId,
        batch: Batch,
        flushed: Flushed,
        attempt: str,
        turns: asyncio.Semaphore,
    ) -> None:
        async with turns:
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
                copying = Copying(self._tools, batch, place, Meter(self._clock))
                await copying.landed(await copying.published(flushed))


def shared_by(metadata: ClusterMetadata, ranges: Iterable[Range]) -> Iterator[Gained]:
    """For each table and owner, the parts of these ranges that it shares with others."""
    listed = tuple(ranges)
    for key in sorted(metadata.placements.placed):
        tables = metadata.schema.tables_placed_by(key)
        for whole, group in metadata.placements.placed[key].write_groups():
            for part in intersections((whole,), listed):
                yield from _shared(tables, part, group.owners)


def _shared(tables: Iterable[Table], part: Range, owners: Owners) -> Iterator[Gained]:
    change = RangeChange(range=part, before=tuple(sorted(owners)), after=tuple(sorted(owners)))
    for table in tables:
        yield from (Gained(table, change, NodeId(node)) for node in change.before)
