"""The synchronous face of the client, for scripts and notebooks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload
from uuid import UUID

from client.answers import Outcome, Plain, Rejected, Status
from client.client import FOLLOW_LIMIT, Client
from client.proposals import Proposable, Proposal
from log.entry import SealedEntry
from metadata.epoch import EMPTY

CLOSE_TIMEOUT_S = 10.0

T = TypeVar("T")


class BlockingClient:
    """The same calls without `await`: an event loop runs in a thread of its own.

    Works inside a notebook, whose own loop is busy. Close it, or use it as a context.
    """

    def __init__(self, make: Callable[[], Client]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="ringlog client", daemon=True
        )
        self._thread.start()
        try:
            self._client = self._run(_made(make))
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the thread; closing twice is fine."""
        if not self._loop.is_closed():
            self._run(self._client.close())
            self._end()

    def commit(
        self,
        transformation: Proposable,
        *,
        entry_id: UUID | None = None,
        actor: str | None = None,
        reason: str | None = None,
        last_known: int | None = None,
    ) -> Outcome:
        return self._run(
            self._client.commit(
                transformation,
                entry_id=entry_id,
                actor=actor,
                reason=reason,
                last_known=last_known,
            )
        )

    @overload
    def commit_batch(
        self, proposals: Sequence[Proposal], *, atomic: Literal[False] = False
    ) -> list[Outcome]: ...

    @overload
    def commit_batch(
        self, proposals: Sequence[Proposal], *, atomic: Literal[True]
    ) -> list[Outcome] | Rejected: ...

    def commit_batch(
        self, proposals: Sequence[Proposal], *, atomic: bool = False
    ) -> list[Outcome] | Rejected:
        if atomic:
            return self._run(self._client.commit_batch(proposals, atomic=True))
        return self._run(self._client.commit_batch(proposals))

    def follow(
        self, after: int = EMPTY, *, after_hash: bytes | None = None
    ) -> Iterator[SealedEntry]:
        """Blocks between entries; leaving the loop ends the poll."""
        following = self._client.follow(after, after_hash=after_hash)
        try:
            while True:
                yield self._run(_next(following))
        finally:
            if not self._loop.is_closed():
                self._run(following.aclose())

    def entries(self, after: int = EMPTY, *, limit: int = FOLLOW_LIMIT) -> list[SealedEntry]:
        return self._run(self._client.entries(after, limit=limit))

    def metadata(self, at: int | None = None) -> Plain:
        return self._run(self._client.metadata(at))

    def component(self, name: str, at: int | None = None) -> Plain:
        return self._run(self._client.component(name, at))

    def owners(
        self,
        keyspace: str,
        *,
        key: str | None = None,
        token: int | None = None,
        at: int | None = None,
    ) -> Plain:
        return self._run(self._client.owners(keyspace, key=key, token=token, at=at))

    def diff(self, start: int, end: int) -> Plain:
        return self._run(self._client.diff(start, end))

    def status(self) -> Status:
        return self._run(self._client.status())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("The client is closed: connect again.")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C ends the wait here; the work in the other thread ends with it.
            future.cancel()
            raise

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_TIMEOUT_S)
        with contextlib.suppress(RuntimeError):
            self._loop.close()


class Connecting:
    """An address to connect to, in either way.

    `with` gives a `BlockingClient`, `async with` a `Client`; `open` gives a `BlockingClient` that
    the caller closes, for notebooks.
    """

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._exits = contextlib.ExitStack()
        self._async_exits = contextlib.AsyncExitStack()

    def open(self) -> BlockingClient:
        return BlockingClient(self._make)

    def __enter__(self) -> BlockingClient:
        return self._exits.enter_context(self.open())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exits.close()

    async def __aenter__(self) -> Client:
        return await self._async_exits.enter_async_context(self._make())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._async_exits.aclose()


async def _made(make: Callable[[], Client]) -> Client:
    return make()


async def _next(following: AsyncGenerator[SealedEntry, None]) -> SealedEntry:
    return await anext(following)
