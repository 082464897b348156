"""The cluster as a driver sees it: its own copy of the metadata, and commits to any CMS."""

from __future__ import annotations

import asyncio

from client.answers import Committed, Rejected
from client.client import Client
from client.embedded import EmbeddedFollower
from client.errors import ClientError
from metadata.cluster import ClusterMetadata
from metadata.epoch import Epoch
from sequences.ports import Refused, WorkError
from transformations.kinds import AnyTransformation

APPLY_TIMEOUT_S = 30.0


class LiveCluster:
    def __init__(self, follower: EmbeddedFollower, client: Client, name: str) -> None:
        self._follower = follower
        self._client = client
        self._name = name

    @property
    def metadata(self) -> ClusterMetadata:
        return self._follower.metadata

    async def newest(self) -> ClusterMetadata:
        """Not older than any entry that was acknowledged before the call."""
        self._check_trusted()
        try:
            found = await self._client.component("locks")
        except ClientError as error:
            raise WorkError(str(error)) from error
        await self._reach(Epoch(found["epoch"]))
        return self.metadata

    async def beyond(self, epoch: Epoch, timeout_s: float) -> None:
        clock = asyncio.get_running_loop().time
        ends_s = clock() + timeout_s
        if not await self._follower.reached(epoch + 1, timeout_s=timeout_s):
            # One that has stopped says so at once, and again to everybody who looks for news.
            await asyncio.sleep(max(0.0, ends_s - clock()))

    async def commit(self, transformation: AnyTransformation, reason: str) -> Epoch | Refused:
        """The metadata here is at least as new as the answer, which it may explain."""
        self._check_trusted()
        try:
            outcome = await self._client.commit(transformation, actor=self._name, reason=reason)
        except ClientError as error:
            raise WorkError(str(error)) from error
        match outcome:
            case Committed(epoch=epoch):
                await self._reach(epoch)
                return epoch
            case Rejected(code=code, detail=detail, epoch=epoch):
                await self._reach(epoch or Epoch(0))
                return Refused(code, detail)

    def _check_trusted(self) -> None:
        """What the log contradicts is another history's: its steps, too, are none of this log."""
        standing = self._follower.standing
        if not standing.is_trusted:
            raise WorkError(f"this driver does nothing: {standing.detail}")

    async def _reach(self, epoch: Epoch) -> None:
        if not await self._follower.reached(epoch, timeout_s=APPLY_TIMEOUT_S):
            raise WorkError(
                f"epoch {epoch} is not applied here yet: {self._follower.standing.detail or 'late'}"
            )
