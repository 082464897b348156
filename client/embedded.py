"""A follower inside somebody else's program: the metadata at hand, and a call when it changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from client.following import Following, Log, NoNeighbours, Roads
from client.publication import Journal, Publication
from client.standing import Standing
from log.follower import Fault, Follower
from log.listeners import Listener, Listeners
from log.messages import Message
from log.published import Published
from log.replay import Applied, apply
from log.shared_replay import SharedReplay
from metadata.cluster import ClusterId, ClusterMetadata
from metadata.epoch import EMPTY, Epoch


def embedded(
    log: Log,
    *,
    cluster: ClusterId,
    restored: Applied,
    journal: Journal,
    report: Callable[[Listener, Exception], None],
    replay: SharedReplay | None = None,
) -> EmbeddedFollower:
    """A follower that goes on from `restored`; `report` is told of listeners that fail.

    Many followers in one process may share a `replay`, so that each entry is applied once.
    """
    published, listeners = Published(restored), Listeners(report)
    if restored.metadata.epoch > EMPTY:
        listeners.publish(restored.metadata)
    doubts = _Doubts()
    following = Following(
        Follower(restored, cluster=cluster, apply=apply if replay is None else replay.apply),
        Roads(log, NoNeighbours(), is_fanned_out=False),
        Publication(published, listeners, journal),
        doubts,
    )
    return EmbeddedFollower(following, published, listeners, doubted=doubts.came)


class EmbeddedFollower:
    """Always some version of the metadata, never a wrong one; `standing` says whether it may be
    late. Everything happens in the event loop that it was made in.
    """

    def __init__(
        self,
        following: Following,
        published: Published,
        listeners: Listeners,
        *,
        doubted: asyncio.Event,
    ) -> None:
        self._following = following
        self._published = published
        self._listeners = listeners
        self._doubted = doubted
        self._over = asyncio.Event()

    @property
    def metadata(self) -> ClusterMetadata:
        """Take it once and use that version to the end: it never changes under your hands."""
        return self._published.applied.metadata

    @property
    def applied(self) -> Applied:
        """The metadata, and the hash of the last entry that led to it."""
        return self._published.applied

    @property
    def standing(self) -> Standing:
        return self._following.standing

    def listen(self, listener: Listener) -> None:
        """Call `listener` with every change from now on, the first one being all there is.

        Listeners are called in the order of their coming and must not block.
        """
        self._listeners.add(listener)

    def forget(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    def hear(self, message: Message) -> None:
        """A message of the Kafka topic, where the program consumes it: saves the polling."""
        self._following.hear(message)

    async def reached(self, epoch: int, *, timeout_s: float) -> bool:
        """Whether this epoch is applied, now or within the time given.

        A follower that has stopped says no at once: `standing` says why.
        """
        await _first_of(self._published.wait_beyond(Epoch(epoch - 1), timeout_s), self._over.wait())
        return self.metadata.epoch >= epoch

    async def in_touch(self) -> None:
        """Wait until the log has answered."""
        await self._following.in_touch.wait()

    async def touched(self, *, timeout_s: float) -> bool:
        """Whether the log has answered, now or within the time given.

        A follower that has stopped, or that the log contradicts, says no at once: `standing` says
        why.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await _first_of(self.in_touch(), self._doubted.wait(), self._over.wait())
        return self._following.in_touch.is_set()

    async def run(self) -> None:
        """Until cancelled, or until nothing may be applied any more: `standing` says why."""
        try:
            await self._following.run()
        except Exception as error:
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            self._following.stop(f"following broke off with {said}; nothing is applied any more")
            raise
        finally:
            self._over.set()


async def _first_of(*awaited: Coroutine[Any, Any, object]) -> None:
    tasks = [asyncio.ensure_future(item) for item in awaited]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Doubts:
    """The program asks for `standing` when it wants to know; whoever waits is told of the worst."""

    def __init__(self) -> None:
        self.came = asyncio.Event()

    def stands(self, standing: Standing) -> None:
        if standing.is_trusted:
            self.came.clear()
        else:
            self.came.set()

    def jumped(self, before: Epoch, to: Epoch) -> None:
        del before, to

    def disbelieved(self, fault: Fault) -> None:
        del fault
