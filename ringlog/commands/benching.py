"""A short load of commits, and how long they took."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from client.answers import Committed, Outcome, Rejected
from client.errors import ClientError
from transformations.extensions import ClearExtension, SetExtension

PREFIX = "bench."
ACTOR = "ringlog bench"
CLEAR_TIMEOUT_S = 10.0
MS = 1_000


class Cluster(Protocol):
    """Whoever commits, such as a `Client`."""

    async def commit(
        self, transformation: SetExtension | ClearExtension, *, actor: str
    ) -> Outcome: ...


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. The log has gone on from `first` to `last`; `cleared` are names."""

    seconds: float
    connections: int
    commits: int
    commits_per_s: float
    p50_ms: float
    p99_ms: float
    first: int
    last: int
    cleared: int


def names(connections: int) -> list[str]:
    """One for each connection, so that a second run leaves no more behind than the first."""
    return [f"{PREFIX}{number}" for number in range(connections)]


async def measured(cluster: Cluster, *, seconds: float, connections: int) -> Measured | Rejected:
    """Each connection sends its next commit when the one before is answered."""
    load = _Load(cluster, seconds)
    try:
        async with asyncio.TaskGroup() as group:
            for name in names(connections):
                group.create_task(load.run(name))
    except ExceptionGroup as errors:
        # The first stopped the others, and says enough.
        raise errors.exceptions[0] from None
    finally:
        # Also where it is broken off; the entries stay, but no name that nobody knows.
        cleared = await _cleared(cluster, load.set_names)
    if load.rejected is not None:
        return load.rejected
    return load.summary(cleared)


class _Load:
    def __init__(self, cluster: Cluster, seconds: float) -> None:
        self.set_names: set[str] = set()
        self.rejected: Rejected | None = None
        self._cluster = cluster
        self._began_s = time.perf_counter()
        self._until_s = self._began_s + seconds
        self._ended_s = self._began_s
        self._took_s: list[float] = []
        self._epochs: list[int] = []

    async def run(self, name: str) -> None:
        sent = 0
        # At least one each, or there is nothing to tell.
        while self.rejected is None and (not sent or time.perf_counter() < self._until_s):
            sent += 1
            began_s = time.perf_counter()
            self.set_names.add(name)
            wanted = SetExtension(name=name, value=str(sent))
            self._note(await self._cluster.commit(wanted, actor=ACTOR), began_s)

    def summary(self, cleared: int) -> Measured:
        seconds = self._ended_s - self._began_s
        took_s = sorted(self._took_s)
        return Measured(
            seconds=round(seconds, 3),
            connections=len(self.set_names),
            commits=len(took_s),
            commits_per_s=round(len(took_s) / seconds, 1),
            p50_ms=round(percentile(took_s, 0.50) * MS, 3),
            p99_ms=round(percentile(took_s, 0.99) * MS, 3),
            first=min(self._epochs),
            last=max(self._epochs),
            cleared=cleared,
        )

    def _note(self, outcome: Outcome, began_s: float) -> None:
        if isinstance(outcome, Rejected):
            self.rejected = outcome
            return
        self._ended_s = time.perf_counter()
        self._took_s.append(self._ended_s - began_s)
        self._epochs.append(outcome.epoch)


async def _cleared(cluster: Cluster, set_names: set[str]) -> int:
    """How many names are gone again; who cannot be reached any more keeps them."""
    cleared = 0
    try:
        async with asyncio.timeout(CLEAR_TIMEOUT_S):
            for name in sorted(set_names):
                outcome = await cluster.commit(ClearExtension(name=name), actor=ACTOR)
                cleared += isinstance(outcome, Committed)
    except (ClientError, TimeoutError):
        pass
    return cleared


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that so many are not above."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
