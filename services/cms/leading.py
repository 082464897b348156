"""Which CMS a proposal goes to: the one that holds the lease, or this one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import aiohttp
import msgspec
import structlog

from log import lease
from log.batch import Answer, Request
from log.lease import Lease
from log.postgres_sessions import Sessions
from log.published import Published
from log.store import StoreUnavailableError
from metadata.cluster import ClusterId
from services.cms.forwarding import FORWARD_TIMEOUT_S, SEQUENCE_PATH, Forwarder, Submit
from services.http.problems import STATUSES, Code, Problem, ProblemError

logger = structlog.get_logger()


class Route(Protocol):
    """Where proposals go."""

    @property
    def is_sequencing(self) -> bool: ...

    async def submit(self, request: Request) -> list[Answer]: ...


class Alone:
    """Everything is sequenced here."""

    def __init__(self, here: Submit, published: Published) -> None:
        del published
        self._here = here

    @property
    def is_sequencing(self) -> bool:
        return True

    async def submit(self, request: Request) -> list[Answer]:
        return await self._here(request)


class Leading:
    """Follows the lease: sequences here while it is ours, forwards while it is another's.

    Where `may_lead` says no the lease is left to others.
    """

    def __init__(
        self,
        sessions: Sessions,
        session: aiohttp.ClientSession,
        name: str,
        url: str,
        may_lead: Callable[[], bool] = lambda: True,
    ) -> None:
        self._sessions = sessions
        self._session = session
        self._name = name
        self._url = url
        self._may_lead = may_lead
        self._lease: Lease | None = None

    @property
    def is_sequencing(self) -> bool:
        is_ours = self._lease is None or self._lease.holder == self._name
        return is_ours and self._may_lead()

    def around(self, here: Submit, published: Published) -> Route:
        return _Routed(self, here, published)

    async def send(self, body: bytes, cluster: ClusterId) -> bytes:
        """Ask the holder to sequence; fails as its connection fails."""
        lease_now = self._lease
        if lease_now is None:
            raise OSError("nobody is known to sequence")
        timeout = aiohttp.ClientTimeout(total=FORWARD_TIMEOUT_S)
        address = lease_now.url + SEQUENCE_PATH
        headers = {"Ringlog-Cluster": cluster, "Content-Type": "application/octet-stream"}
        try:
            async with self._session.post(
                address, data=body, timeout=timeout, headers=headers
            ) as response:
                if response.status == STATUSES[Code.DIVERGED_LOG]:
                    _raise_diverged(await response.read())
                response.raise_for_status()
                return await response.read()
        except (aiohttp.ClientConnectionError, TimeoutError):
            # What waits behind this need not learn the same way; the next look at the lease does.
            if self._lease is lease_now:
                self._lease = None
            raise

    async def run(self) -> None:
        while True:
            before = self._lease
            try:
                self._lease = await self._looked()
            except StoreUnavailableError:
                self._lease = None
            if self._lease is not None and (before is None or before.holder != self._lease.holder):
                held = self._lease
                logger.info("lease", holder=held.holder, term=held.term, ours=self.is_sequencing)
            await asyncio.sleep(lease.RENEW_EVERY_S)

    async def _looked(self) -> Lease | None:
        if self._may_lead():
            return await lease.take(self._sessions, holder=self._name, url=self._url)
        return await lease.held_by_another(self._sessions, than=self._name)

    async def give_up(self) -> None:
        if self._lease is not None and self.is_sequencing:
            try:
                await lease.give_up(self._sessions, holder=self._name)
            except StoreUnavailableError as error:
                logger.info("lease_kept", error=str(error))


class _Routed:
    def __init__(self, leading: Leading, here: Submit, published: Published) -> None:
        self._leading = leading
        self._here = here
        self._published = published
        self._forwarder = Forwarder(self._send, here)

    @property
    def is_sequencing(self) -> bool:
        return self._leading.is_sequencing

    async def submit(self, request: Request) -> list[Answer]:
        submit = self._here if self.is_sequencing else self._forwarder.submit
        return await submit(request)

    async def _send(self, body: bytes) -> bytes:
        return await self._leading.send(body, self._published.applied.metadata.cluster.id)


def _raise_diverged(body: bytes) -> None:
    """The one refusal to sequence that holds for this process as well."""
    try:
        found = msgspec.json.decode(body, type=Problem)
    except (ValueError, RecursionError):
        return
    if found.code == Code.DIVERGED_LOG:
        raise ProblemError(
            Code.DIVERGED_LOG,
            found.detail,
            epoch=found.epoch,
            tip=found.tip,
            remedy=found.remedy,
        )
