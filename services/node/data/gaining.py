"""Whoever gains a range begins with nothing of it: old rows may be older than a delete."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from client.publication import Journal, NotKeptError
from log.follower import Step as Applying
from log.replay import Applied
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.plans import Step
from metadata.schema import TableId
from metadata.tokens import Range
from store.failures import StoreError
from store.store import Store


class CleanJournal:
    """Forgets rows of ranges that the node of this host gains, before it keeps the START.

    A node that has left, or was declared dead, is not asked to clean up. If it came back to a
    range with its old rows, it would bring back what was deleted meanwhile, where the tombstone
    is gone after a repair. Before START is kept here nobody has written to this node for the
    sequence, so that a crash in between only makes it forget once more.
    """

    def __init__(
        self, journal: Journal, store: Store, host_id: str, applied: Callable[[], Applied]
    ) -> None:
        self._journal = journal
        self._store = store
        self._host_id = host_id
        self._applied = applied

    async def append(self, steps: Sequence[Applying]) -> None:
        with _kept():
            await self._forget(steps[-1].applied.metadata)
            await self._journal.append(steps)

    async def jump(self, to: Applying) -> None:
        with _kept():
            await self._forget(to.applied.metadata)
            await self._journal.jump(to)

    @property
    def doubt(self) -> str:
        return self._journal.doubt

    async def keep_doubt(self, doubt: str) -> None:
        with _kept():
            await self._journal.keep_doubt(doubt)

    async def _forget(self, after: ClusterMetadata) -> None:
        node = after.directory.by_host.get(self._host_id)
        if node is None:
            return
        for table, ranges in newly_gained(self._applied().metadata, after, node):
            await self._store.cleanup(table, ranges)


@contextmanager
def _kept() -> Iterator[None]:
    """A disk that is full, or has too much to do, is no reason to end the node."""
    try:
        yield
    except StoreError as error:
        if not error.retriable:
            raise
        raise NotKeptError(str(error)) from error


def newly_gained(
    before: ClusterMetadata, after: ClusterMetadata, node: NodeId
) -> Iterator[tuple[TableId, tuple[Range, ...]]]:
    """What a node gains by sequences that started between two versions, by table."""
    for sequence in after.sequences.in_progress.values():
        start = sequence.epoch_of(Step.START)
        if start is None or start <= before.epoch:
            continue
        for plan in sequence.plans:
            ranges = tuple(change.range for change, target in plan.gains() if target == node)
            for table in after.schema.tables_placed_by(plan.placement) if ranges else ():
                yield table.id, ranges
