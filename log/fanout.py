"""Spreading committed entries to other processes. The log is the outbox.

A relay reads what was committed behind its position, publishes it in order, and then moves the
position on. A crash in between costs duplicates; a publisher or a store that is away costs time.
Nothing is lost, because the position moves only over what was acknowledged.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

import msgspec

from log.backoff import Backoff, Delay, ignore_delay
from log.entry import SealedEntry
from log.sequencer import BEYOND_ALL
from log.store import StoreUnavailableError
from metadata.epoch import EMPTY, Epoch


class PublisherAwayError(Exception):
    """Not everything was acknowledged. Some may have been published: publish it all again."""

    retriable = True


class Publisher(Protocol):
    async def publish(self, entries: Sequence[SealedEntry]) -> None:
        """Return when all are acknowledged, in this order; raise `PublisherAwayError` if not."""
        ...


class Positions(Protocol):
    """How far a topic has come, for all relays that publish to it."""

    async def read(self) -> Epoch:
        """`EMPTY` where nothing was ever published."""
        ...

    async def advance(self, epoch: Epoch) -> Epoch:
        """Move on to `epoch`, never back; the position that now holds."""
        ...


class Outbox(Protocol):
    """The part of a `LogStore` that a relay needs."""

    async def read_after(
        self, epoch: Epoch, *, entries_max: int, bytes_max: int
    ) -> Sequence[SealedEntry]: ...


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    page_entries_max: int = 500
    page_bytes_max: int = 4 * 1024 * 1024
    look_every_s: float = 1.0
    """What a lost wake-up costs."""
    backoff: Backoff = Backoff()


DEFAULT_LIMITS = Limits()


def ignore_published(_epoch: Epoch) -> None:
    """For those who need not know."""


def ignore_back() -> None:
    """For those who need not know."""


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told what.

    `on_published`: everything up to this epoch is published; it may come again for the same one.
    `on_delayed`: something is away. `on_back`: after that, it goes on.
    """

    on_published: Callable[[Epoch], None] = ignore_published
    on_delayed: Callable[[Delay], None] = ignore_delay
    on_back: Callable[[], None] = ignore_back


NO_HOOKS = Hooks()


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Where a relay is. `tip` is the newest epoch it knows of; `failures` are those in a row,
    `failures_total` all since it runs."""

    position: Epoch
    tip: Epoch
    failures: int
    failures_total: int
    entries_published: int

    @property
    def lag(self) -> int:
        return self.tip - self.position


class Progress:
    """How far a relay has come and whether there is more to do; waits for nothing."""

    def __init__(self) -> None:
        self._position = EMPTY
        self._tip = EMPTY
        self._heard_of = BEYOND_ALL
        self._failures = 0
        self._failures_total = 0
        self._entries_published = 0

    @property
    def position(self) -> Epoch:
        return self._position

    @property
    def is_behind(self) -> bool:
        """Whether there is, or may be, something to publish."""
        return self._heard_of > self._position

    @property
    def figures(self) -> Figures:
        return Figures(
            position=self._position,
            tip=max(self._tip, self._position),
            failures=self._failures,
            failures_total=self._failures_total,
            entries_published=self._entries_published,
        )

    def heard(self, tip: Epoch) -> None:
        """There may be entries up to `tip`."""
        self._heard_of = max(self._heard_of, tip)
        if tip != BEYOND_ALL:
            self._tip = max(self._tip, tip)

    def looking(self) -> Epoch:
        """What was heard of before a look at the log; what is heard of during it counts anew."""
        target, self._heard_of = self._heard_of, EMPTY
        return target

    def moved(self, position: Epoch) -> None:
        """All up to `position` is published, by this relay or by another."""
        self._position = max(self._position, position)

    def published(self, entries: int, position: Epoch) -> None:
        """So many more, and `position` is stored."""
        self.moved(position)
        self._entries_published += entries

    def went_well(self) -> bool:
        """Whether that is news."""
        is_news, self._failures = self._failures > 0, 0
        return is_news

    def failed(self) -> int:
        """How often in a row by now; what was under way has to be looked for again."""
        self._failures += 1
        self._failures_total += 1
        self._heard_of = BEYOND_ALL
        return self._failures


class Relay:
    """Publishes one log to one topic. Any number may run; they only repeat each other."""

    def __init__(
        self,
        outbox: Outbox,
        publisher: Publisher,
        positions: Positions,
        hooks: Hooks = NO_HOOKS,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._outbox = outbox
        self._publisher = publisher
        self._positions = positions
        self._hooks = hooks
        self._limits = limits
        self._progress = Progress()
        self._woken = asyncio.Event()

    @property
    def figures(self) -> Figures:
        return self._progress.figures

    def wake(self, tip: Epoch = BEYOND_ALL) -> None:
        """Somebody appended, up to `tip` where that is known."""
        self._progress.heard(tip)
        if self._progress.is_behind:
            self._woken.set()

    async def run(self) -> NoReturn:
        """Publish until cancelled."""
        while True:
            try:
                self._progress.moved(await self._positions.read())
                await self._follow()
            except (StoreUnavailableError, PublisherAwayError) as error:
                await asyncio.sleep(self._pause_s(error))

    async def _follow(self) -> None:
        """Publish what comes; return after a while of silence, to see how far others are."""
        is_woken = True
        while is_woken:
            self._woken.clear()
            await self._catch_up()
            # Also where there was nothing to publish: the store answered.
            self._goes_well()
            is_woken = await self._is_woken()
        self._progress.heard(BEYOND_ALL)

    async def _catch_up(self) -> None:
        while self._progress.is_behind:
            target = self._progress.looking()
            page = await self._outbox.read_after(
                self._progress.position,
                entries_max=self._limits.page_entries_max,
                bytes_max=self._limits.page_bytes_max,
            )
            if page:
                self._progress.heard(target)
                await self._publish(page)

    async def _publish(self, page: Sequence[SealedEntry]) -> None:
        last = page[-1].epoch
        self._progress.heard(last)
        await self._publisher.publish(page)
        self._hooks.on_published(last)
        self._progress.published(len(page), await self._positions.advance(last))
        self._goes_well()

    def _goes_well(self) -> None:
        if self._progress.went_well():
            self._hooks.on_back()

    async def _is_woken(self) -> bool:
        try:
            async with asyncio.timeout(self._limits.look_every_s):
                return await self._woken.wait()
        except TimeoutError:
            return False

    def _pause_s(self, error: Exception) -> float:
        failures = self._progress.failed()
        chance = random.random()  # noqa: S311 spreads relays, guards nothing
        pause_s = self._limits.backoff.pause_s(failures, chance=chance)
        self._hooks.on_delayed(Delay(error=error, failures=failures, pause_s=pause_s))
        return pause_s
