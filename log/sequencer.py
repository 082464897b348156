"""One queue, one writer: batches are decided in order and appended in one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from encoding.entries import EntryId
from log.batch import Answer, Draft, Request, Stamp, drafted
from log.entry import SealedEntry
from log.queue import Job, ProposalQueue
from log.replay import Applied, apply
from log.store import (
    AlreadyDecided,
    Appended,
    Decision,
    LogStore,
    StoreUnavailableError,
    TipMoved,
    TrimmedError,
)
from metadata.epoch import EMPTY, Epoch
from metadata.limits import ID_MAX


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    queue_max: int = 10_000
    batch_max: int = 512
    races_max: int = 100
    retry_first_s: float = 0.05
    retry_last_s: float = 1.0
    unknown_after_s: float = 10.0
    read_entries_max: int = 250
    read_bytes_max: int = 8 * 1024 * 1024


DEFAULT_LIMITS = Limits()

BEYOND_ALL = Epoch(ID_MAX)
"""For those who do not know how far the log goes."""


class OutcomeUnknownError(Exception):
    """The store did not answer. The proposals may or may not be in the log; ask again by id."""


class StoppedError(Exception):
    """The sequencer takes no more proposals."""


class Hooks(msgspec.Struct, frozen=True):
    """What the process around it gives: who commits and when, and who is told of new versions.

    `jump` leads behind a seam where what comes next was trimmed, and publishes that by itself.
    """

    stamp: Callable[[], Stamp]
    publish: Callable[[Applied, Sequence[SealedEntry]], None]
    jump: Callable[[TrimmedError], Awaitable[Applied]] | None = None


class Sequencer:
    """Owns the metadata of its process: `run` is the only one to change it.

    Whatever waits is decided together and appended in one statement, so batches grow with the
    load and nobody lingers when idle. Losing a race costs a read and another try. Proposals
    are never given up half way: whoever stops waiting does not stop the append.
    """

    def __init__(
        self,
        store: LogStore,
        applied: Applied,
        hooks: Hooks,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.applied = applied
        self._store = store
        self._hooks = hooks
        self._limits = limits
        self._queue = ProposalQueue(limits.queue_max)
        self._stopping = False
        self._heard_of = EMPTY

    @property
    def depth(self) -> int:
        """How many proposals wait."""
        return self._queue.depth

    async def submit(self, request: Request) -> list[Answer]:
        """One answer for each proposal; an atomic request stops at the first that fails."""
        if self._stopping:
            raise StoppedError
        job = self._queue.put(request)
        return await asyncio.shield(job.answers)

    def poke(self, tip: Epoch = BEYOND_ALL) -> None:
        """Somebody may have appended, up to `tip` where that is known: look, if it is news."""
        self._heard_of = max(self._heard_of, tip)
        self._queue.wake.set()

    def stop(self) -> None:
        """Take no more; `run` ends when what was taken is answered."""
        self._stopping = True
        self._queue.wake.set()

    async def run(self) -> None:
        while not (self._stopping and not self._queue):
            await self._queue.wake.wait()
            self._queue.wake.clear()
            if self._queue:
                await self._decide(self._queue.take(self._limits.batch_max))
                if self._queue:
                    self._queue.wake.set()
            elif not self._stopping and self._heard_of > self.applied.metadata.epoch:
                await self._look()

    async def _decide(self, jobs: list[Job]) -> None:
        known: dict[EntryId, Decision] = {}
        delay_s = self._limits.retry_first_s
        races = 0
        while races < self._limits.races_max:
            requests = [job.request for job in jobs]
            draft = drafted(requests, self.applied, known, self._hooks.stamp())
            try:
                if await self._appended(draft, known):
                    break
                races += 1
            except StoreUnavailableError:
                jobs = self._expired(jobs)
                if not jobs:
                    return
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, self._limits.retry_last_s)
        else:
            self._fail(jobs)
            return
        for job, answers in zip(jobs, draft.answers, strict=True):
            if not job.answers.done():
                job.answers.set_result(answers)

    async def _appended(self, draft: Draft, known: dict[EntryId, Decision]) -> bool:
        """True if the draft is the truth now; else what stood in the way has been learnt."""
        if not draft.entries and not draft.refusals:
            return True
        result = await self._store.append(
            draft.entries, onto=self.applied.tip, refusals=draft.refusals
        )
        match result:
            case Appended():
                self._go_to(draft.after, draft.entries)
                return True
            case AlreadyDecided(decisions=decisions):
                known.update(decisions)
                await self._catch_up()
            case TipMoved():
                await self._catch_up()
        return False

    async def _catch_up(self, upto: Epoch = BEYOND_ALL) -> None:
        """Apply what others appended."""
        while self.applied.metadata.epoch < upto:
            try:
                entries = await self._store.read_after(
                    self.applied.metadata.epoch,
                    entries_max=self._limits.read_entries_max,
                    bytes_max=self._limits.read_bytes_max,
                )
            except TrimmedError as error:
                # This process slept for so long that what it missed is in an archive by now.
                if self._hooks.jump is None:
                    raise
                self.applied = await self._hooks.jump(error)
                continue
            if not entries:
                return
            applied = self.applied
            for sealed in entries:
                applied = apply(sealed, applied)
            self._go_to(applied, entries)

    async def _look(self) -> None:
        upto, self._heard_of = self._heard_of, EMPTY
        try:
            await self._catch_up(upto)
        except StoreUnavailableError:
            await asyncio.sleep(self._limits.retry_first_s)
            self.poke(upto)

    def _go_to(self, applied: Applied, entries: Sequence[SealedEntry]) -> None:
        self.applied = applied
        if entries:
            self._hooks.publish(applied, entries)

    def _expired(self, jobs: list[Job]) -> list[Job]:
        """Answer those who have waited too long for the store; keep the others."""
        now = asyncio.get_running_loop().time()
        limit = self._limits.unknown_after_s
        self._fail([job for job in jobs if now - job.since >= limit])
        return [job for job in jobs if now - job.since < limit]

    def _fail(self, jobs: list[Job]) -> None:
        for job in jobs:
            if not job.answers.done():
                job.answers.set_exception(OutcomeUnknownError())
