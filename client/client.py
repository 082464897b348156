"""The client of a cluster, for programs that run an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from types import TracebackType
from typing import Any, Literal, Self, overload
from urllib.parse import quote
from uuid import UUID

import msgspec

from client.answers import Cms, Committed, Outcome, Plain, Rejected, Status
from client.connection import CONFLICT, OK, Connection, failure
from client.containers import verified_container
from client.errors import AnswerError, OutcomeUnknownError
from client.patience import ORDINARY, Patience
from client.proposals import (
    Proposable,
    Proposal,
    batch_body,
    commit_body,
    committed_in,
    new_entry_id,
    outcomes_in,
    problem_in,
)
from client.transport import Query, Request
from encoding.entries import EntryId
from log.containers import MEDIA_TYPE
from log.entry import SealedEntry
from metadata.epoch import EMPTY, Epoch

FOLLOW_LIMIT = 1_000
FOLLOW_WAIT_S = 20.0
PROBE_TIMEOUT_S = 3.0
BATCH_ROUNDS_MAX = 20
BATCH_PAUSE_S = 0.1


class Client:
    """Proposes, reads and follows, over any of several addresses of one cluster.

    Make it inside a running event loop and close it, or use it as a context. Any number of
    tasks may share it.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        token: str | None = None,
        *,
        cluster: str | None = None,
        patience: Patience = ORDINARY,
    ) -> None:
        self._connection = Connection(
            [urls] if isinstance(urls, str) else urls,
            token=token,
            cluster=cluster,
            patience=patience,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._connection.close()

    def learn(self, urls: Sequence[str]) -> None:
        """All other addresses of the same cluster; those given at first are kept."""
        self._connection.learn(urls)

    def send_as(self, node: int) -> None:
        """Name this node as the sender of all that follows, as the role node needs it."""
        self._connection.send_as(node)

    async def commit(
        self,
        transformation: Proposable,
        *,
        entry_id: UUID | None = None,
        actor: str | None = None,
        reason: str | None = None,
        last_known: int | None = None,
    ) -> Outcome:
        """Commit once, however often it has to be sent.

        A caller that wants to survive its own crash keeps `entry_id` and commits with it again.
        """
        proposal = Proposal(
            transformation=transformation,
            entry_id=new_entry_id() if entry_id is None else EntryId(entry_id),
            actor=actor,
            reason=reason,
            last_known=None if last_known is None else Epoch(last_known),
        )
        request = Request(path="/v1/commit", body=commit_body(proposal))
        answer = await self._connection.ask(request, commits=(proposal.entry_id,))
        match answer.status:
            case status if status == OK:
                return committed_in(answer.body, proposal)
            case status if status == CONFLICT:
                return problem_in(answer.body, status).as_rejected()
            case _:
                raise failure(answer)

    @overload
    async def commit_batch(
        self, proposals: Sequence[Proposal], *, atomic: Literal[False] = False
    ) -> list[Outcome]: ...

    @overload
    async def commit_batch(
        self, proposals: Sequence[Proposal], *, atomic: Literal[True]
    ) -> list[Outcome] | Rejected: ...

    async def commit_batch(
        self, proposals: Sequence[Proposal], *, atomic: bool = False
    ) -> list[Outcome] | Rejected:
        """The outcome of each, in order. With `atomic` all are committed, or one is refused.

        What a batch left undecided is sent again by itself, with the same entry ids.
        """
        if atomic:
            return await self._commit_whole(proposals)
        outcomes: dict[int, Outcome] = {}
        for round_ in range(BATCH_ROUNDS_MAX):
            left = [index for index in range(len(proposals)) if index not in outcomes]
            if not left:
                break
            await asyncio.sleep(BATCH_PAUSE_S * round_)
            found = await self._send_batch([proposals[index] for index in left])
            outcomes |= {
                index: outcome
                for index, outcome in zip(left, found, strict=True)
                if outcome is not None
            }
        undecided = tuple(
            proposal.entry_id for index, proposal in enumerate(proposals) if index not in outcomes
        )
        if undecided:
            raise OutcomeUnknownError(f"{len(undecided)} commits stay undecided.", undecided)
        return [outcomes[index] for index in range(len(proposals))]

    async def follow(
        self, after: int = EMPTY, *, after_hash: bytes | None = None
    ) -> AsyncGenerator[SealedEntry, None]:
        """Entries from `after` + 1 on, each verified, for as long as the caller asks for more.

        To resume, pass epoch and hash of the last one: a log that lost it, or holds another one
        there, is a `DivergedError` and not followed. Entries that are no longer kept are a
        `TrimmedError`.
        """
        while True:
            body = await self._page(after, after_hash, wait_s=FOLLOW_WAIT_S)
            for sealed in verified_container(body, after=Epoch(after), after_hash=after_hash):
                after, after_hash = sealed.epoch, sealed.hash
                yield sealed

    async def entries(self, after: int = EMPTY, *, limit: int = FOLLOW_LIMIT) -> list[SealedEntry]:
        """What is in the log from `after` + 1 on, now, and at most `limit` of it."""
        body = await self._page(after, None, limit=limit)
        return list(verified_container(body, after=Epoch(after), after_hash=None))

    async def metadata(self, at: int | None = None) -> Plain:
        """All components, at the newest epoch or at a past one."""
        return await self._object("/v1/metadata", {"at": at})

    async def component(self, name: str, at: int | None = None) -> Plain:
        return await self._object(f"/v1/metadata/{quote(name, safe='')}", {"at": at})

    async def owners(
        self,
        keyspace: str,
        *,
        key: str | None = None,
        token: int | None = None,
        at: int | None = None,
    ) -> Plain:
        """Readers and writers of a key, or of a token."""
        return await self._object(
            "/v1/owners", {"keyspace": keyspace, "key": key, "token": token, "at": at}
        )

    async def diff(self, start: int, end: int) -> Plain:
        """What changed between two epochs, by meaning."""
        return await self._object("/v1/diff", {"from": start, "to": end})

    async def status(self) -> Status:
        """Who serves and how far the log is, or `UnreachableError` where nobody does."""
        found = await self.component("cluster")
        cms = [await self._look_at(url) for url in self._connection.urls]
        return Status(
            epoch=found.get("epoch", EMPTY),
            cluster=found.get("id") or None,
            name=found.get("name") or None,
            partitioner=found.get("partitioner") if found.get("id") else None,
            cms=tuple(cms),
        )

    async def _commit_whole(self, proposals: Sequence[Proposal]) -> list[Outcome] | Rejected:
        request = Request(path="/v1/commit/batch", body=batch_body(proposals, atomic=True))
        ids = tuple(proposal.entry_id for proposal in proposals)
        answer = await self._connection.ask(request, commits=ids)
        if answer.status == CONFLICT:
            return problem_in(answer.body, answer.status).as_rejected()
        if answer.status != OK:
            raise failure(answer)
        outcomes = [item for item in outcomes_in(answer.body, proposals) if item is not None]
        if not all(isinstance(item, Committed) for item in outcomes):
            raise AnswerError("A batch that is all or nothing came back in part.")
        return outcomes

    async def _send_batch(self, proposals: Sequence[Proposal]) -> list[Outcome | None]:
        request = Request(path="/v1/commit/batch", body=batch_body(proposals, atomic=False))
        ids = tuple(proposal.entry_id for proposal in proposals)
        answer = await self._connection.ask(request, commits=ids)
        if answer.status != OK:
            raise failure(answer)
        return outcomes_in(answer.body, proposals)

    async def _page(
        self,
        after: int,
        after_hash: bytes | None,
        *,
        limit: int = FOLLOW_LIMIT,
        wait_s: float = 0.0,
    ) -> bytes:
        query: dict[str, str | int] = {"after": after, "limit": limit}
        if wait_s:
            query["wait"] = int(wait_s)
        if after_hash is not None and after != EMPTY:
            query["hash"] = after_hash.hex()
        request = Request(path="/v1/log", query=query, accept=MEDIA_TYPE)
        return await self._connection.read(request, wait_s=wait_s)

    async def _object(self, path: str, query: dict[str, Any]) -> Plain:
        given: Query = {name: value for name, value in query.items() if value is not None}
        return _plain(await self._connection.read(Request(path=path, query=given)))

    async def _look_at(self, url: str) -> Cms:
        alive = await self._connection.probe(url, "/healthz", timeout_s=PROBE_TIMEOUT_S)
        ready = alive and await self._connection.probe(url, "/readyz", timeout_s=PROBE_TIMEOUT_S)
        return Cms(url=url, alive=alive, ready=ready)


def _plain(body: bytes) -> Plain:
    try:
        return msgspec.json.decode(body, type=Plain)
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"The answer cannot be read: {error}.") from error
