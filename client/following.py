"""Following the log by whichever roads there are: the waiting around `log.follower`."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import msgspec

from client.asking import GAP_PAUSE_S, Asking, Jumping
from client.errors import ClientError, CorruptEntryError, DivergedError, TrimmedError
from client.pages import PAGE_ENTRIES, Page
from client.publication import NotKeptError, Publication
from client.standing import Standing, State, begun
from log.backoff import Backoff
from log.follower import Fault, Follower, Step
from log.messages import Message
from log.replay import Applied, ReplayError
from metadata.epoch import Epoch

T = TypeVar("T")

POLL_S = 20.0
"""How long the log holds a request while there is nothing new."""
NEWS_MAX = 16
"""So many entries may be too new for a neighbour to have them."""
KEEPING = Backoff(first_s=0.1, last_s=5.0)
"""A disk that is full may have room again."""


class Log(Protocol):
    """The log itself, by way of any CMS."""

    async def page(self, applied: Applied, *, wait_s: float, snapshot: bool) -> Page: ...

    async def snapshot(self, epoch: Epoch) -> Step: ...


class Neighbours(Protocol):
    """Others who may have the same entries."""

    async def page(self, applied: Applied) -> Page | None:
        """What one of them has behind `applied`; `CorruptEntryError` where that cannot be."""
        ...


class NoNeighbours:
    async def page(self, applied: Applied) -> Page | None:
        del applied
        return None


class Notices(Protocol):
    """Told when something becomes worth a line in a log."""

    def stands(self, standing: Standing) -> None: ...

    def jumped(self, before: Epoch, to: Epoch) -> None: ...

    def disbelieved(self, fault: Fault) -> None:
        """Something that arrived was not true: told once for each kind, counted every time."""
        ...


class Roads(msgspec.Struct, frozen=True):
    """How entries come, apart from fan-out, which calls `hear` and `hear_of`."""

    log: Log
    neighbours: Neighbours
    is_fanned_out: bool
    """Whether somebody will call; if not, the log is asked all the time."""
    brings_entries: bool = True
    """Whether what is missing is on its way; a NOTIFY comes with it, or it has to be asked for."""

    def asking(self) -> Asking:
        pause_s = GAP_PAUSE_S if self.brings_entries else 0.0
        return Asking(is_fanned_out=self.is_fanned_out, gap_pause_s=pause_s)


class Following:
    """One task runs it and alone moves the follower on; `hear` and `hear_of` only wake it.

    `in_touch` is set while the log answers and what is at hand is no older than its answer.
    One that the log contradicted before it stopped is not trusted until the log agrees.
    """

    def __init__(
        self, follower: Follower, roads: Roads, publication: Publication, notices: Notices
    ) -> None:
        self.follower = follower
        self.clock: Callable[[], float] = asyncio.get_running_loop().time
        self.standing = begun(publication.doubt, self.clock())
        self._roads = roads
        self._publication = publication
        self._notices = notices
        self.in_touch = asyncio.Event()
        self._news = asyncio.Event()
        self._asking = roads.asking()
        self._jumping = Jumping()
        self._faults_told: set[Fault] = set()
        self._random = random.Random()  # noqa: S311 spreads load, guards nothing

    def hear(self, message: Message) -> None:
        """An entry came by fan-out; whether it is true shows when it is next in line."""
        if self.follower.hear(message) is None:
            self._asking.heard()
            self._news.set()
        else:
            self._tell_faults()

    def hear_of(self, tip: Epoch) -> None:
        self.follower.hear_of(tip)
        self._asking.heard()
        self._news.set()

    def want(self, epoch: Epoch) -> None:
        """Somebody in this process needs an epoch of which fan-out has said nothing."""
        self.follower.hear_of(epoch)
        self._news.set()

    async def run(self) -> None:
        """Until cancelled, or until nothing may be applied any more."""
        while self.standing.state is not State.STOPPED:
            self._news.clear()
            if await self._went_on():
                continue
            pause_s = self._asking.pause_s(self.follower.missing_from, self.clock())
            if pause_s > 0:
                await self._rest(pause_s)
            else:
                await self._catch_up()

    def stop(self, detail: str) -> None:
        """Say that nothing will be applied any more, though the log may go on."""
        self._stand(State.STOPPED, detail)

    async def _went_on(self) -> bool:
        """Whether there was something next in line; then it is published."""
        steps = self.follower.advance()
        self._tell_faults()
        if steps:
            await self._kept(self._publication.go_on, steps)
        return bool(steps)

    async def _rest(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._news.wait()

    async def _catch_up(self) -> None:
        if self._may_neighbours_know and await self._asked_neighbours():
            return
        heard_of = self.follower.heard_of
        try:
            page = await self._page()
            if page is not None:
                await self._take(page, heard_of)
        except DivergedError as error:
            self._fail(State.DIVERGED, str(error))
            await self._keep_doubt()
        except ReplayError as error:
            self._stand(State.STOPPED, f"{error}; nothing after that epoch is applied here")
            await self._keep_doubt()
        except ClientError as error:
            if isinstance(error, TrimmedError):
                self._jumping.trimmed()
            self._fail(State.AWAY, str(error))
        self._tell_faults()

    @property
    def _may_neighbours_know(self) -> bool:
        """Of the newest entries they have only just been told, as we have."""
        if self.follower.missing_from is None:
            return False
        behind = self.follower.heard_of - self.follower.applied.metadata.epoch
        return self._roads.brings_entries or behind > NEWS_MAX

    async def _asked_neighbours(self) -> bool:
        try:
            page = await self._roads.neighbours.page(self.follower.applied)
        except CorruptEntryError:
            self.follower.refuse_peer()
            return False
        steps = self.follower.take_from_peer(page.entries) if page is not None else []
        if steps:
            await self._kept(self._publication.go_on, steps)
        return bool(steps)

    async def _page(self) -> Page | None:
        """A page of the log, or None if it waited for news and fan-out had them first.

        A question that does not wait is never given up for news: they are applied meanwhile, and
        a busy fan-out keeps nobody from learning how the log stands.
        """
        applied = self.follower.applied
        is_idle = self.follower.missing_from is None
        # Who does not know how the log stands must not wait for news to learn it.
        may_wait = is_idle and self._asking.is_silent and self.in_touch.is_set()
        wait_s = POLL_S if may_wait else 0.0
        asking = asyncio.ensure_future(
            self._roads.log.page(applied, wait_s=wait_s, snapshot=self._may_jump)
        )
        try:
            while not await self._answered(asking):
                if wait_s:
                    return None
                self._news.clear()
                await self._went_on()
            return await asking
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    @property
    def _may_jump(self) -> bool:
        """Not over what one page holds: listeners and peers would miss it for nothing."""
        epoch = self.follower.applied.metadata.epoch
        is_far = not self.in_touch.is_set() or self.follower.heard_of - epoch > PAGE_ENTRIES
        return is_far and self._jumping.is_worthwhile(epoch)

    async def _answered(self, asking: asyncio.Future[Page]) -> bool:
        """Wait for the answer or for news."""
        news = asyncio.ensure_future(self._news.wait())
        waiting: set[asyncio.Future[Any]] = {asking, news}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
            await asyncio.gather(news, return_exceptions=True)
        return asking.done()

    async def _take(self, page: Page, heard_of: Epoch) -> None:
        before = self.follower.applied.metadata.epoch
        if page.snapshot is not None and page.snapshot > before:
            await self._jump(page.snapshot)
        steps = self.follower.take(page.entries)
        if steps:
            await self._kept(self._publication.go_on, steps)
        after = self.follower.applied.metadata.epoch
        self._asking.answered(
            self.clock(),
            unannounced=after > before == heard_of,
            in_vain=after == before < heard_of,
        )
        self.follower.hear_of(page.tip)
        # What was heard of while the log answered may well be true.
        if self.follower.heard_of == max(heard_of, page.tip):
            self.follower.settle(page.tip)
        self._stand(State.FOLLOWING)
        await self._keep_doubt()
        if after >= page.tip:
            self.in_touch.set()

    async def _jump(self, epoch: Epoch) -> None:
        before = self.follower.applied.metadata.epoch
        try:
            to = await self._roads.log.snapshot(epoch)
        except ClientError as error:
            self._jumping.failed(epoch, is_damaged=isinstance(error, CorruptEntryError))
            raise
        self._jumping.jumped()
        self.follower.jump(to.applied)
        await self._kept(self._publication.jump, to)
        self._notices.jumped(before, epoch)

    async def _kept(self, keep: Callable[[T], Awaitable[None]], what: T) -> None:
        """Keep it, however long there is no room; what was published before is served on."""
        before, was_in_touch, failures = self.standing, self.in_touch.is_set(), 0
        while True:
            try:
                await keep(what)
                break
            except NotKeptError as error:
                failures += 1
                if before.is_trusted:
                    self._stand(State.HELD_UP, f"what comes next is not kept yet: {error}")
                await asyncio.sleep(KEEPING.pause_s(failures, chance=self._random.random()))
        if failures:
            self._stand(before.state, before.detail)
            if was_in_touch:
                self.in_touch.set()

    def _fail(self, state: State, detail: str) -> None:
        """Say so, and leave the log alone for a while; fan-out may go on meanwhile."""
        if self.standing.state is not State.DIVERGED or state is State.DIVERGED:
            self._stand(state, detail)
        # Otherwise the histories differ, until the log itself says that they do not.
        self._asking.failed(self.clock(), chance=self._random.random())

    async def _keep_doubt(self) -> None:
        """A start without a CMS must not trust what the log contradicted."""
        standing = self.standing
        if bool(self._publication.doubt) is standing.is_trusted:
            doubt = "" if standing.is_trusted else standing.detail or standing.state.value
            await self._kept(self._publication.keep_doubt, doubt)

    def _stand(self, state: State, detail: str = "") -> None:
        before = self.standing
        self.standing = before.become(state, self.clock(), detail)
        if state is not State.FOLLOWING:
            self.in_touch.clear()
        if before.state is not state or before.detail != detail:
            self._notices.stands(self.standing)

    def _tell_faults(self) -> None:
        for fault in self.follower.faults.keys() - self._faults_told:
            self._faults_told.add(fault)
            self._notices.disbelieved(fault)
