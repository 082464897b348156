"""Holding this release against the log before it may sequence; reading is allowed meanwhile.

It is done once for a release: what was reproduced is kept beside the log, and while this process
applies entries it moves on. So a start looks at what is new only, which nearly always is nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from audit.reproduce import NotReproducedError, Proofs, Release
from log.batch import Answer, Request
from log.chain import NO_ENTRIES, Tip
from log.replay import Applied, ReplayError, replay
from log.store import LogStore, StoreUnavailableError, TrimmedError
from metadata.epoch import EMPTY, Epoch, following
from services.cms.forwarding import Submit
from services.http.problems import Code, ProblemError
from snapshots.restore import newest_usable
from snapshots.store import SnapshotStore

logger = structlog.get_logger()

PAGE_ENTRIES_MAX = 500
"""Executed in one go; whoever reads meanwhile waits no longer than some of them take."""

PAGE_BYTES_MAX = 8 * 1024 * 1024
KEEP_EVERY_ENTRIES = 20_000
KEEP_EVERY_S = 30.0
RETRY_S = 1.0


class Evidence(msgspec.Struct, frozen=True):
    """The stores that a proof needs and leads to."""

    log: LogStore
    snapshots: SnapshotStore
    proofs: Proofs


class Proving:
    """Knows whether this release may sequence. `refused` is called once if it must never."""

    def __init__(
        self, evidence: Evidence, release: Release, name: str, refused: Callable[[], None]
    ) -> None:
        self.refusal: NotReproducedError | None = None
        self._evidence = evidence
        self._release = release
        self._name = name
        self._refused = refused
        self._is_proved = False
        self._kept = NO_ENTRIES
        self._is_another_log = False
        self._reached = EMPTY
        self._wanted = EMPTY

    @property
    def is_proved(self) -> bool:
        return self._is_proved

    def check(self) -> None:
        """Raise a problem while this process may not decide."""
        if not self._is_proved:
            raise ProblemError(
                Code.UNAVAILABLE,
                f"this release is held against the history before it sequences, and is at epoch "
                f"{self._reached} of {self._wanted}; send it again, or to another CMS",
                epoch=self._reached,
            )

    async def begin(self, restored: Applied) -> None:
        """Find out what is left to do. What followed the newest snapshot was executed just now."""
        try:
            self._kept = await self._known()
            newest = await self._evidence.snapshots.listed(up_to=restored.metadata.epoch, limit=1)
        except StoreUnavailableError as error:
            logger.warning("proof_interrupted", error=str(error))
            self._wanted = restored.metadata.epoch
            return
        self._wanted = newest[0].epoch if newest else EMPTY
        self._reached = self._kept.epoch
        self._is_proved = self._wanted <= self._kept.epoch

    async def run(self, applied: Callable[[], Applied]) -> None:
        while not self._is_proved:
            try:
                await self._prove()
            except StoreUnavailableError as error:
                logger.warning("proof_interrupted", error=str(error))
                await asyncio.sleep(RETRY_S)
            except ReplayError as error:
                self._refuse(error)
                return
        while True:
            await self._keep_quietly(applied().tip)
            await asyncio.sleep(KEEP_EVERY_S)

    async def _known(self) -> Tip:
        """What is kept, if it is about this log."""
        kept = await self._evidence.proofs.find(self._release)
        if kept is None:
            return NO_ENTRIES
        if await self._evidence.log.hash_at(kept.epoch) == kept.hash:
            return kept
        self._is_another_log = True
        return NO_ENTRIES

    async def _prove(self) -> None:
        evidence = self._evidence
        self._kept = await self._known()
        applied = await self._snapshot(self._kept.epoch)
        logger.info("proving", release=str(self._release), up_to=self._wanted)
        while applied.metadata.epoch < self._wanted:
            try:
                page = await evidence.log.read_after(
                    applied.metadata.epoch, entries_max=PAGE_ENTRIES_MAX, bytes_max=PAGE_BYTES_MAX
                )
            except TrimmedError as error:
                # What was let go of is for `ringlog audit reproduce` on the archive.
                logger.warning("proving_from_seam", seam=error.seam, archive=error.archive)
                applied = await self._snapshot(error.seam)
                if applied.metadata.epoch != error.seam:
                    raise ReplayError(error.seam, "its snapshot cannot be used") from error
                continue
            if not page:
                raise ReplayError(following(applied.metadata.epoch), "it is missing")
            applied = await asyncio.to_thread(replay, page, applied)
            self._reached = max(self._reached, applied.metadata.epoch)
            if self._reached - self._kept.epoch >= KEEP_EVERY_ENTRIES:
                await self._keep(applied.tip)
        self._is_proved = True
        logger.info("proved", release=str(self._release), epoch=self._reached)

    async def _snapshot(self, up_to: Epoch) -> Applied:
        evidence = self._evidence
        return await newest_usable(
            evidence.snapshots, evidence.log, up_to=up_to, report=_report_unusable
        )

    def _refuse(self, error: ReplayError) -> None:
        self.refusal = NotReproducedError(self._release, error.epoch, error.fault)
        logger.error("not_reproduced", epoch=error.epoch, fault=error.fault)
        self._refused()

    async def _keep(self, tip: Tip) -> None:
        if tip.epoch > self._kept.epoch:
            await self._evidence.proofs.keep(
                self._release, tip, by=self._name, is_another_log=self._is_another_log
            )
            self._kept, self._is_another_log = tip, False

    async def _keep_quietly(self, tip: Tip) -> None:
        """It only saves the next start some time."""
        try:
            await self._keep(tip)
        except StoreUnavailableError as error:
            logger.info("proof_not_kept", error=str(error))


def allowed(submit: Submit, proving: Proving) -> Submit:
    """Decides only once the release is proved."""

    async def checked(request: Request) -> list[Answer]:
        proving.check()
        return await submit(request)

    return checked


def _report_unusable(epoch: Epoch, fault: str) -> None:
    logger.error("snapshot_unusable", epoch=epoch, fault=fault)
