"""A follower inside somebody else's program: the metadata at hand, and a call when it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

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
    following = Following(
        Follower(restored, cluster=cluster, apply=apply if replay is None else replay.apply),
        Roads(log, NoNeighbours(), is_fanned_out=False),
        Publication(published, listeners, journal),
        _Silent(),
    )
    return EmbeddedFollower(following, published, listeners)


class EmbeddedFollower:
    """Always some version of the metadata, never a wrong one; `standing` says whether it may be
    late. Everything happens in the event loop that it was made in.
    """

    def __init__(self, following: Following, published: Published, listeners: Listeners) -> None:
        self._following = following
        self._published = published
        self._listeners = listeners
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
        waiting = asyncio.ensure_future(self._published.wait_beyond(Epoch(epoch - 1), timeout_s))
        over: asyncio.Future[bool] = asyncio.ensure_future(self._over.wait())
        both = {waiting, over}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
        return self.metadata.epoch >= epoch

    async def in_touch(self) -> None:
        """Wait until the log has answered."""
        await self._following.in_touch.wait()

    async def run(self) -> None:
        """Until cancelled, or until nothing may be applied any more: `standing` says why."""
        try:
            await self._following.run()
        finally:
            self._over.set()


class _Silent:
    """The program asks for `standing` when it wants to know."""

    def stands(self, standing: Standing) -> None:
        del standing

    def jumped(self, before: Epoch, to: Epoch) -> None:
        del before, to

    def disbelieved(self, fault: Fault) -> None:
        del fault
