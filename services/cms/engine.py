"""One CMS process without its HTTP: sequencing, reading, snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
import structlog

from audit.keys import PrivateKey
from log.batch import Answer, Request, Stamp
from log.entry import SealedEntry
from log.published import Published
from log.replay import Applied, apply
from log.sequencer import BEYOND_ALL, DEFAULT_LIMITS, Hooks, Limits, Sequencer
from log.store import LogStore, StoreUnavailableError, TrimmedError
from metadata.epoch import Epoch
from services.cms.forwarding import Submit
from services.cms.history import History
from services.cms.leading import Alone, Route
from services.cms.proofs.signed import MemorySigned, SignedStore
from services.cms.proofs.tiles import MemoryTiles, TileStore
from services.cms.proofs.tree import LogTree
from services.cms.proving import Proving, allowed
from services.cms.reports.memory import memory_stores
from services.cms.reports.reporting import Reporting
from services.cms.reports.store import Stores
from services.cms.tips import TipReader
from snapshots.policy import Cadence
from snapshots.restore import newest_usable, taken
from snapshots.store import SNAPSHOTS_PER_PAGE, SnapshotInfo, SnapshotStore

logger = structlog.get_logger()

FAR_AHEAD = Epoch(2**53)
LATEST_TIMEOUT_S = 10.0
RESTORE_ATTEMPTS_MAX = 60
RESTORE_RETRY_S = 0.5
PAGE_ENTRIES_MAX = 1000
LINES_PER_BATCH_MAX = 4
PAGE_BYTES_MAX = 8 * 1024 * 1024


class Proofs(msgspec.Struct, frozen=True):
    """Where full tiles of the tree and what was signed are kept, and the keys that sign it."""

    tiles: TileStore
    signed: SignedStore
    keys: tuple[PrivateKey, ...] = ()


class Parts(msgspec.Struct, frozen=True):
    """What an engine is made of."""

    store: LogStore
    snapshots: SnapshotStore
    published: Published
    sequencer: Sequencer
    route: Route
    reporting: Reporting
    submit: Submit
    """Decides here, where that is allowed."""
    proofs: Proofs


class Engine:
    """What the HTTP layer asks; `running` makes one and keeps its tasks."""

    def __init__(self, name: str, parts: Parts) -> None:
        self.name = name
        self._parts = parts
        self.keys = parts.proofs.keys
        self.signed = parts.proofs.signed
        self.tree = LogTree(parts.store, parts.proofs.tiles)
        self._tips = TipReader(parts.store)
        self._history = History(parts.store, parts.snapshots, report_unusable)

    @property
    def applied(self) -> Applied:
        return self._parts.published.applied

    @property
    def reporting(self) -> Reporting:
        """What nodes tell, and what follows from it."""
        return self._parts.reporting

    @property
    def queue_depth(self) -> int:
        return self._parts.sequencer.depth

    @property
    def is_sequencing(self) -> bool:
        return self._parts.route.is_sequencing

    async def commit(self, request: Request) -> list[Answer]:
        """Have it decided, here or by the CMS that sequences; not while the log is in doubt."""
        self.reporting.watch.check()
        return await self._parts.route.submit(request)

    async def sequence(self, request: Request) -> list[Answer]:
        """Decide it here, whoever sequences: what another CMS forwarded."""
        self.reporting.watch.check()
        return await self._parts.submit(request)

    async def latest(self) -> Applied:
        """At or above every epoch that any CMS acknowledged before the call."""
        tip = await self._tips.read()
        if not await self.reached(tip.epoch):
            raise StoreUnavailableError(f"epoch {tip.epoch} is not applied yet")
        return self.applied

    async def reached(self, epoch: Epoch) -> bool:
        """Catch up with an epoch that is in the log; False if that takes too long."""
        if epoch > self.applied.metadata.epoch:
            self.poke(epoch)
        return await self._parts.published.wait_beyond(Epoch(epoch - 1), LATEST_TIMEOUT_S)

    def recent_after(
        self, epoch: Epoch, *, entries_max: int, bytes_max: int
    ) -> Sequence[SealedEntry] | None:
        """Without asking the store; None where they are no longer in memory."""
        return self._parts.published.recent_after(
            epoch, entries_max=entries_max, bytes_max=bytes_max
        )

    async def entries_after(
        self, epoch: Epoch, *, entries_max: int, bytes_max: int
    ) -> Sequence[SealedEntry]:
        recent = self.recent_after(epoch, entries_max=entries_max, bytes_max=bytes_max)
        if recent is not None:
            return recent
        return await self._parts.store.read_after(
            epoch, entries_max=entries_max, bytes_max=bytes_max
        )

    async def hash_at(self, epoch: Epoch) -> bytes | None:
        """Also of an entry that is no longer kept."""
        recent = self.recent_after(Epoch(epoch - 1), entries_max=1, bytes_max=1)
        return recent[0].hash if recent else await self._parts.store.hash_at(epoch)

    async def wait_beyond(self, epoch: Epoch, timeout_s: float) -> None:
        await self._parts.published.wait_beyond(epoch, timeout_s)

    async def metadata_at(self, epoch: Epoch) -> Applied:
        if epoch == self.applied.metadata.epoch:
            return self.applied
        if epoch > self.applied.metadata.epoch:
            raise LookupError(f"epoch {epoch} is beyond the tip")
        return await self._history.at(epoch)

    async def snapshot_epochs(self, up_to: Epoch | None = None) -> Sequence[SnapshotInfo]:
        last = FAR_AHEAD if up_to is None else up_to
        return await self._parts.snapshots.listed(up_to=last, limit=SNAPSHOTS_PER_PAGE)

    async def snapshot(self, epoch: Epoch) -> bytes | None:
        found = await self._parts.snapshots.load(epoch)
        return None if found is None else found.image

    async def newest_snapshot_after(self, epoch: Epoch) -> SnapshotInfo | None:
        listed = await self._parts.snapshots.listed(up_to=self.applied.metadata.epoch, limit=1)
        return listed[0] if listed and listed[0].epoch > epoch else None

    def heard(self, tip: Epoch) -> None:
        """News of the log. While this process only forwards and nobody waits, they can wait too.

        Whoever reads looks at the tip first and then catches up, and now and then we look anyway.
        """
        if self.is_sequencing or self._parts.published.is_awaited or tip == BEYOND_ALL:
            self.poke(tip)

    def poke(self, tip: Epoch = BEYOND_ALL) -> None:
        """Somebody may have appended, up to `tip` where that is known: look."""
        self._parts.sequencer.poke(tip)


def log_applied(entries: Sequence[SealedEntry]) -> None:
    """One line an entry while there are few, one a batch under load."""
    if len(entries) > LINES_PER_BATCH_MAX:
        first, last = entries[0].epoch, entries[-1].epoch
        logger.info("applied_batch", epoch=last, first=first, entries=len(entries))
        return
    for sealed in entries:
        logger.info("applied", epoch=sealed.epoch, entry_id=str(sealed.entry_id), kind=sealed.kind)


def report_unusable(epoch: Epoch, fault: str) -> None:
    logger.error("snapshot_unusable", epoch=epoch, fault=fault)


class SnapshotTaker:
    """Counts what is published and writes a snapshot when one is due, beside everything else."""

    def __init__(self, store: SnapshotStore, name: str, cadence: Cadence) -> None:
        self._store = store
        self._name = name
        self._cadence = cadence
        self._due: asyncio.Queue[Applied] = asyncio.Queue(maxsize=1)

    def observe(self, applied: Applied, entries: Sequence[SealedEntry]) -> None:
        for sealed in entries:
            self._cadence = self._cadence.after(sealed)
        if self._cadence.due and not self._due.full():
            self._cadence = Cadence()
            self._due.put_nowait(applied)

    async def run(self) -> None:
        while True:
            applied = await self._due.get()
            try:
                snapshot = await taken(applied)
                await self._store.save(snapshot, created_by=self._name)
            except StoreUnavailableError as error:
                logger.warning("snapshot_failed", epoch=applied.metadata.epoch, error=str(error))
            else:
                size = len(snapshot.image)
                logger.info("snapshot_taken", epoch=snapshot.epoch, size_bytes=size)


class Restored(msgspec.Struct, frozen=True):
    """Where the log leads, and what has been logged since the snapshot that led there."""

    applied: Applied
    cadence: Cadence


async def restored(store: LogStore, snapshots: SnapshotStore) -> Restored:
    """From the store alone. One that goes away meanwhile is waited for."""
    for attempt in range(RESTORE_ATTEMPTS_MAX):
        try:
            return await _restored(store, snapshots)
        except StoreUnavailableError as error:
            logger.warning("restore_interrupted", error=str(error), attempt=attempt)
            await asyncio.sleep(RESTORE_RETRY_S)
    return await _restored(store, snapshots)


async def _restored(store: LogStore, snapshots: SnapshotStore) -> Restored:
    """The newest usable snapshot and every entry after it."""
    applied = await newest_usable(snapshots, store, up_to=FAR_AHEAD, report=report_unusable)
    cadence = Cadence()
    while entries := await store.read_after(
        applied.metadata.epoch, entries_max=PAGE_ENTRIES_MAX, bytes_max=PAGE_BYTES_MAX
    ):
        for sealed in entries:
            applied = apply(sealed, applied)
            cadence = cadence.after(sealed)
    return Restored(applied, cadence)


async def _jumped(
    trimmed: TrimmedError, store: LogStore, snapshots: SnapshotStore, published: Published
) -> Applied:
    """The newest snapshot, where the entries from it on are still kept; it is published."""
    newer = await newest_usable(snapshots, store, up_to=FAR_AHEAD, report=report_unusable)
    if newer.metadata.epoch < trimmed.seam:
        raise trimmed
    published.jump(newer)
    logger.warning("jumped", epoch=newer.metadata.epoch, seam=trimmed.seam)
    return newer


@asynccontextmanager
async def running(  # noqa: PLR0913 - wiring; the last five have defaults
    name: str,
    store: LogStore,
    snapshots: SnapshotStore,
    stamp: Callable[[], Stamp],
    routed: Callable[[Submit, Published], Route] = Alone,
    observed: Callable[[int], None] = lambda _: None,
    *,
    stores: Stores | None = None,
    proofs: Proofs | None = None,
    proving: Proving | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> AsyncIterator[Engine]:
    """An engine that sequences until the block ends, and then answers what it has taken.

    `stores` keep what nodes report; without them this process alone knows. `proofs` keep the tree
    and sign it; without them it is computed anew by each process, and not signed. With `proving` it
    decides nothing before this release has been held against the log.
    """
    found = await restored(store, snapshots)
    applied = found.applied
    if proving is not None:
        await proving.begin(applied)
    published = Published(applied)
    taker = SnapshotTaker(snapshots, name, found.cadence)

    def publish(newer: Applied, entries: Sequence[SealedEntry]) -> None:
        published.publish(newer, entries)
        log_applied(entries)
        observed(len(entries))
        taker.observe(newer, entries)

    hooks = Hooks(stamp, publish, lambda trimmed: _jumped(trimmed, store, snapshots, published))
    sequencer = Sequencer(store, applied, hooks, limits)
    submit = sequencer.submit if proving is None else allowed(sequencer.submit, proving)
    route = routed(submit, published)
    reporting = Reporting(
        name, stores or memory_stores(store), published, lambda: route.is_sequencing
    )
    await reporting.prepare()
    parts = Parts(
        store,
        snapshots,
        published,
        sequencer,
        route,
        reporting,
        submit,
        Proofs(MemoryTiles(), MemorySigned()) if proofs is None else proofs,
    )
    engine = Engine(name, parts)
    async with asyncio.TaskGroup() as tasks:
        sequencing = tasks.create_task(sequencer.run())
        beside = [tasks.create_task(taker.run()), tasks.create_task(reporting.run())]
        if proving is not None:
            beside.append(tasks.create_task(proving.run(lambda: published.applied)))
        try:
            yield engine
        finally:
            sequencer.stop()
            await sequencing
            for task in beside:
                task.cancel()
