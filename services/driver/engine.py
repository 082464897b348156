"""What a driver answers from: the metadata that it follows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from client.embedded import EmbeddedFollower
from log.replay import Applied
from metadata.epoch import Epoch
from services.http.problems import Code, ProblemError


class DriverEngine:
    """`folder` is where it keeps what it keeps, or Spark its files for a while."""

    def __init__(
        self, name: str, folder: Path, follower: EmbeddedFollower, clock: Callable[[], float]
    ) -> None:
        self.name = name
        self.folder = folder
        self.follower = follower
        self.clock = clock

    @property
    def applied(self) -> Applied:
        return self.follower.applied

    async def latest(self) -> Applied:
        standing = self.follower.standing
        if not standing.is_trusted:
            raise ProblemError(Code.UNAVAILABLE, f"This driver does nothing: {standing.detail}")
        return self.applied

    async def wait_beyond(self, epoch: Epoch, timeout_s: float) -> None:
        await self.follower.reached(epoch + 1, timeout_s=timeout_s)
