"""Trimming a live log: whole partitions, once an archive that was verified holds them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from audit.errors import ArchiveError, OtherHistoryError
from audit.history import metadata_at
from audit.reading import Archive, Joined
from audit.verify import Verified
from log.chain import Tip
from log.postgres_trimming import PostgresTrimming
from log.store import LogStore
from log.trimming import Cut, Standing, TrimRefusedError
from metadata.epoch import EMPTY, Epoch
from snapshots.restore import taken
from snapshots.store import SnapshotStore


class Live(msgspec.Struct, frozen=True):
    """The log in its database."""

    log: LogStore
    snapshots: SnapshotStore
    trimming: PostgresTrimming


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What can go: the partitions that end at `seams`, all of them in `archive`."""

    standing: Standing
    seams: tuple[Epoch, ...]
    archive: str
    anchored_by: tuple[str, ...]

    @property
    def seam(self) -> Epoch:
        """Behind which rows will begin."""
        return self.seams[-1] if self.seams else self.standing.seam

    @property
    def entries(self) -> int:
        return self.seam - self.standing.seam


async def planned(source: Joined, verdicts: Sequence[Verified], live: Live, up_to: Epoch) -> Plan:
    """What may go up to an epoch; an error says why nothing may.

    `verdicts` are those on the archives of `source`, verified just before. Here they are held
    against the hashes of the log.
    """
    standing = await live.trimming.standing()
    _check_covered(source, standing, up_to)
    plan = Plan(
        standing=standing,
        seams=tuple(standing.seams(up_to)),
        archive=", ".join(map(_found_at, source.archives)),
        anchored_by=tuple(sorted({name for item in verdicts for name in item.anchored_by})),
    )
    for epoch in sorted({*plan.seams, standing.seam} - {EMPTY}):
        if await live.log.hash_at(epoch) != _tip_at(source, epoch).hash:
            raise OtherHistoryError(plan.archive, epoch)
    _check_anchored(verdicts, plan.seam)
    return plan


async def trim(source: Joined, plan: Plan, live: Live, by: str) -> Epoch:
    """Let the partitions go, oldest first; stop at any point and begin again."""
    for epoch in plan.seams:
        await _keep_snapshot(source, epoch, live.snapshots, by)
        cut = Cut(
            seam=_tip_at(source, epoch),
            root=await asyncio.to_thread(_holding(source, epoch).tree.root_at, epoch),
            archive=plan.archive,
            anchored_by=plan.anchored_by,
            by=by,
        )
        await live.trimming.trim(cut)
    return plan.seam


async def _keep_snapshot(source: Joined, epoch: Epoch, snapshots: SnapshotStore, by: str) -> None:
    """What is left of the log begins with it, so it is there before anything goes."""
    if await snapshots.load(epoch) is None:
        applied = await asyncio.to_thread(metadata_at, source, epoch)
        await snapshots.save(await taken(applied), created_by=by)


def _check_covered(source: Joined, standing: Standing, up_to: Epoch) -> None:
    if up_to > source.tip.epoch:
        raise TrimRefusedError(
            f"The archive ends at epoch {source.tip.epoch}: export up to {up_to} first."
        )
    if source.after.epoch > standing.seam:
        raise TrimRefusedError(
            f"The archive begins after epoch {source.after.epoch}, and the log has entries from "
            f"{standing.seam + 1} on: name the archive before it, too."
        )


def _check_anchored(verdicts: Sequence[Verified], seam: Epoch) -> None:
    """Where keys were given they must vouch for all that goes."""
    for verdict in verdicts:
        needed = min(seam, verdict.tip.epoch)
        if verdict.anchored_by and verdict.after < needed > verdict.anchored_up_to:
            raise TrimRefusedError(
                f"{verdict.archive} is signed up to epoch {verdict.anchored_up_to} only, and "
                f"{needed} is to go: export it again with --sign."
            )


def _tip_at(source: Joined, epoch: Epoch) -> Tip:
    for sealed in source.entries(Epoch(epoch - 1), epoch):
        return Tip(sealed.epoch, sealed.hash)
    raise ArchiveError(source.archives[-1].files.name, f"there is no epoch {epoch} in it")


def _holding(source: Joined, epoch: Epoch) -> Archive:
    return next(item for item in source.archives if item.after.epoch < epoch <= item.tip.epoch)


def _found_at(archive: Archive) -> str:
    """Where others find it, whatever folder they stand in."""
    name = archive.files.name
    return name if "://" in name else str(Path(name).absolute())
