"""What a node answers from: its own copy of the log and the metadata it leads to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import structlog

from client.following import Following
from client.standing import State
from log.entry import SealedEntry
from log.published import Published
from log.replay import Applied
from log.store import StoreUnavailableError
from metadata.directory import NodeId
from metadata.epoch import Epoch
from services.http.problems import Code, ProblemError
from services.http.reports import ReportAnswer
from services.node.data.gate import Gate
from services.node.journal import Journal
from snapshots.store import SnapshotInfo

logger = structlog.get_logger()


class NodeEngine:
    """Never newer than what is on disk, perhaps late; nothing at all once it cannot be right."""

    def __init__(
        self, name: str, published: Published, journal: Journal, following: Following
    ) -> None:
        self.name = name
        self.node: NodeId | None = None
        self.restored_at = published.applied.metadata.epoch
        self.restored_writes = 0
        self.was_set_back: bool | None = None
        self.tip_heard_of = self.restored_at
        self.following = following
        self._heard_s = following.clock()
        self.gate = Gate(lambda: self.applied.metadata.epoch)
        self._published = published
        self._journal = journal

    @property
    def folder(self) -> Path:
        """Where its log and its rows are."""
        return self._journal.path.parent

    @property
    def applied(self) -> Applied:
        return self._published.applied

    @property
    def lag(self) -> int:
        """How many epochs the log is ahead, by what was last heard of it."""
        return max(self.tip_heard_of - self.applied.metadata.epoch, 0)

    @property
    def silence_s(self) -> float:
        """For how long nobody has said how far the log is, and `lag` with it is what it was."""
        return self.following.clock() - self._heard_s

    def heard_from_cms(self, told: ReportAnswer) -> None:
        """How far the log is and, the first time, how far this node said it was in an earlier life.

        A node that starts behind what it once reported was restored from an old copy: its copy
        of the log catches up, but rows that it had acknowledged may be gone. Where nothing was
        committed meanwhile, only its count of writes tells.
        """
        self.tip_heard_of = told.tip
        self._heard_s = self.following.clock()
        if self.was_set_back is not None:
            return
        self.was_set_back = told.is_beyond(self.restored_at, self.restored_writes)
        if self.was_set_back:
            logger.error(
                "set_back",
                reported=told.reported,
                restored_at=self.restored_at,
                reported_writes=told.reported_writes,
                restored_writes=self.restored_writes,
            )

    def check_trusted(self) -> None:
        standing = self.following.standing
        if standing.is_trusted:
            return
        code = Code.DIVERGED if standing.state is State.DIVERGED else Code.UNAVAILABLE
        raise ProblemError(
            code, f"This node serves nothing: {standing.detail}", epoch=self.applied.metadata.epoch
        )

    async def latest(self) -> Applied:
        """What is at hand: a node may be late, and says how far it is."""
        self.check_trusted()
        return self.applied

    async def entries_after(
        self, epoch: Epoch, *, entries_max: int, bytes_max: int
    ) -> Sequence[SealedEntry]:
        recent = self._published.recent_after(epoch, entries_max=entries_max, bytes_max=bytes_max)
        if recent is not None:
            return recent
        return await self._journal.entries_after(
            epoch, entries_max=entries_max, bytes_max=bytes_max
        )

    async def hash_at(self, epoch: Epoch) -> bytes | None:
        found = await self.entries_after(Epoch(epoch - 1), entries_max=1, bytes_max=1)
        return found[0].hash if found else None

    async def wait_beyond(self, epoch: Epoch, timeout_s: float) -> None:
        """Whoever waits, or follows a stream, is sent away when this node turns out wrong."""
        await self._published.wait_beyond(epoch, timeout_s)
        standing = self.following.standing
        if not standing.is_trusted:
            raise StoreUnavailableError(f"This node serves nothing: {standing.detail}")

    async def reached(self, epoch: Epoch, timeout_s: float) -> bool:
        """Whether this epoch is applied, now or within the time given."""
        return await self._published.wait_beyond(Epoch(epoch - 1), timeout_s)

    async def catch_up(self, epoch: Epoch, timeout_s: float) -> bool:
        """The same for an epoch that somebody else spoke of: the log is asked for it at once."""
        if epoch > self.applied.metadata.epoch:
            self.following.want(epoch)
        return await self.reached(epoch, timeout_s)

    async def drained(self, epoch: Epoch, timeout_s: float) -> bool:
        """Whether it is applied and nothing that an older version let in still runs."""
        clock = self.following.clock
        deadline_s = clock() + timeout_s
        if not await self.catch_up(epoch, timeout_s):
            return False
        return await self.gate.wait_drained(epoch, max(deadline_s - clock(), 0))

    async def snapshot_epochs(self, up_to: Epoch | None = None) -> Sequence[SnapshotInfo]:
        self.check_trusted()
        listed = await self._journal.snapshots()
        return [info for info in listed if up_to is None or info.epoch <= up_to]

    async def newest_snapshot_after(self, epoch: Epoch) -> SnapshotInfo | None:
        self.check_trusted()
        listed = await self._journal.snapshots()
        return listed[0] if listed and listed[0].epoch > epoch else None

    async def snapshot(self, epoch: Epoch) -> bytes | None:
        self.check_trusted()
        return await self._journal.image(epoch)
