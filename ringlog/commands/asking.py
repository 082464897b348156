"""Asking a cluster whatever a verb wants to know, one question after another."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from ringlog.commands.commit import say_rejected
from ringlog.commands.doubting import remedy
from ringlog.commands.ending import Exit, sentences, undoubted
from ringlog.commands.finding import ABSENT_S, DEADLINE_S, Found, find

if TYPE_CHECKING:
    # At run time they come when a verb runs, so that --help stays quick.
    import asyncio
    from uuid import UUID

    from client.answers import Committed, Outcome
    from client.client import Client
    from client.connection import Connection
    from ringlog.commands.naming import Roster

T = TypeVar("T")
Plain = dict[str, Any]

COMMIT_DEADLINE_S = 60.0
"""A commit is worth more patience than a question: giving up leaves its outcome unknown."""


class Talk:
    """One cluster. What goes wrong on the way is raised as the client raises it."""

    def __init__(self, found: Found, runner: asyncio.Runner) -> None:
        self.found = found
        self._runner = runner
        self._connection: Connection | None = None
        self._client: Client | None = None

    def get(self, path: str, query: Mapping[str, str | int | None] | None = None) -> Plain:
        from client.transport import Request

        given = {name: value for name, value in (query or {}).items() if value is not None}
        return self._read(Request(path=path, query=given))

    def post(self, path: str, body: object) -> Plain:
        import msgspec

        from client.transport import Request

        return self._read(Request(path=path, body=msgspec.json.encode(body)))

    def commit(
        self,
        transformation: Plain,
        *,
        actor: str | None = None,
        reason: str | None = None,
        as_json: bool = False,
    ) -> Committed:
        """Committed, or the verb ends here with the reason."""
        from uuid import uuid4

        from client.answers import Rejected

        entry_id = uuid4()
        with undoubted("the commit was made", remedy(transformation, entry_id, actor, reason)):
            outcome = self._run(self._commit(transformation, entry_id, actor, reason))
        if isinstance(outcome, Rejected):
            say_rejected(outcome, as_json=as_json)
            raise typer.Exit(Exit.REFUSED)
        return outcome

    def roster(self) -> Roster:
        """Everybody in the directory, by all their names."""
        from ringlog.commands.naming import roster

        # The cluster knows nodes by number; who runs them on this machine has names as well.
        names = {process.url: process.name for process in self.found.processes}
        return roster(self.get("/v1/nodes")["nodes"], names)

    def close(self) -> None:
        self._run(self._close())

    def _read(self, request: Any) -> Plain:  # noqa: ANN401 - its type is imported late
        import msgspec

        return msgspec.json.decode(self._run(self._ask(request)), type=Plain)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def _ask(self, request: Any) -> bytes:  # noqa: ANN401 - its type is imported late
        from client.connection import Connection
        from client.patience import Patience

        if self._connection is None:
            patience = Patience(deadline_s=DEADLINE_S, absent_s=ABSENT_S)
            self._connection = Connection(
                self.found.urls, token=self.found.token, cluster=None, patience=patience
            )
        return await self._connection.read(request)

    async def _commit(
        self, transformation: Plain, entry_id: UUID, actor: str | None, reason: str | None
    ) -> Outcome:
        if self._client is None:
            self._client = self.found.maker(deadline_s=COMMIT_DEADLINE_S)()
        return await self._client.commit(
            transformation, entry_id=entry_id, actor=actor, reason=reason
        )

    async def _close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
        if self._client is not None:
            await self._client.close()


@contextmanager
def talking(state_dir: Path | None, url: str | None, token: str | None) -> Iterator[Talk]:
    """With what goes wrong turned into sentences."""
    import asyncio

    with sentences(), asyncio.Runner() as runner:
        talk = Talk(find(state_dir, url, token), runner)
        try:
            yield talk
        finally:
            talk.close()
