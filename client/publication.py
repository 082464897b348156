"""From a step of the follower to everybody in the process: kept first, then told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from log.follower import Step
from log.listeners import Listeners
from log.published import Published
from log.replay import Applied


class NotKeptError(Exception):
    """Nothing of it is on disk, for a reason that may pass; the text is a sentence."""


class Journal(Protocol):
    """Where a follower keeps what it has applied, so that it can start without a CMS.

    Whatever raises a `NotKeptError` is tried again.
    """

    @property
    def doubt(self) -> str:
        """Why what is kept may be wrong; empty if nothing speaks against it."""
        ...

    async def append(self, steps: Sequence[Step]) -> None:
        """Keep the entries; they are on disk when this returns."""
        ...

    async def jump(self, to: Step) -> None:
        """Keep a snapshot, with its entry, from which the entries go on; those before may go."""
        ...

    async def keep_doubt(self, doubt: str) -> None:
        """Whoever starts from here must not trust it more than its writer did."""
        ...


class NoJournal:
    """Nothing is kept: the next start asks the CMS for everything."""

    doubt = ""

    async def append(self, steps: Sequence[Step]) -> None:
        del steps

    async def jump(self, to: Step) -> None:
        del to

    async def keep_doubt(self, doubt: str) -> None:
        self.doubt = doubt


class Publication:
    """Only the follower's task calls it. Nobody sees a version that could still be forgotten."""

    def __init__(
        self,
        published: Published,
        listeners: Listeners,
        journal: Journal,
        observe: Callable[[Applied], None] = lambda _: None,
    ) -> None:
        self.published = published
        self._listeners = listeners
        self._journal = journal
        self._observe = observe

    async def go_on(self, steps: Sequence[Step]) -> None:
        await self._journal.append(steps)
        applied = steps[-1].applied
        self.published.publish(applied, [step.sealed for step in steps])
        for step in steps:
            self._listeners.publish(step.applied.metadata)
        self._observe(applied)

    async def jump(self, to: Step) -> None:
        await self._journal.jump(to)
        self.published.jump(to.applied)
        self._listeners.publish(to.applied.metadata)
        self._observe(to.applied)

    @property
    def doubt(self) -> str:
        return self._journal.doubt

    async def keep_doubt(self, doubt: str) -> None:
        await self._journal.keep_doubt(doubt)
