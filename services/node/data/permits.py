"""Permits: checked against the node's own metadata, in the transaction of the effect itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from metadata.cluster import ClusterMetadata
from metadata.epoch import Epoch, following
from metadata.sessions import Purpose, Session, SessionId
from metadata.tokens import Range
from services.http.problems import Code, ProblemError
from services.node.engine import NodeEngine
from store.means import Guard, allow
from store.ranges import without

ATTEMPTS_MAX = 20
PUBLISH_TIMEOUT_S = 2.0

Check = Callable[[ClusterMetadata], None]
"""Raises a `ProblemError` to forbid the effect."""

T = TypeVar("T")


class MovedOnError(Exception):
    """Entries are on disk that are not published yet; what they say about a permit is not known."""

    def __init__(self, epoch: Epoch) -> None:
        super().__init__(f"the node's own log is at epoch {epoch}")
        self.epoch = epoch


class Permits:
    """The one thread that writes the node's file keeps its log there too.

    So a guard that sees the entry that closes a session on disk comes after it, and one that
    does not comes before it: there is no effect of a session behind its end.
    """

    def __init__(self, engine: NodeEngine) -> None:
        self._engine = engine

    async def run(
        self, check: Check, effect: Callable[[Guard], Awaitable[T]], note: Guard = allow
    ) -> T:
        """The effect, under a guard that runs `check` on the metadata that is on disk.

        `note` runs behind it in the same transaction.
        """

        def guard(connection: sqlite3.Connection) -> None:
            self._guard(connection, check)
            note(connection)

        for _ in range(ATTEMPTS_MAX):
            try:
                return await effect(guard)
            except MovedOnError as moved:
                await self._engine.reached(moved.epoch, PUBLISH_TIMEOUT_S)
                # Whose session is over hears of that, not of its files that are being swept.
                check(self._engine.applied.metadata)
        raise ProblemError(
            Code.UNAVAILABLE, "The log moves on faster than the permit can be checked: try again."
        )

    def _guard(self, connection: sqlite3.Connection, check: Check) -> None:
        """In the thread that writes."""
        (durable,) = connection.execute(
            "SELECT max((SELECT coalesce(max(epoch), 0) FROM journal_entries),"
            " (SELECT coalesce(max(epoch), 0) FROM journal_snapshots))"
        ).fetchone()
        metadata = self._engine.applied.metadata
        if metadata.epoch != durable:
            raise MovedOnError(max(Epoch(durable), following(metadata.epoch)))
        check(metadata)


def permitted(
    metadata: ClusterMetadata,
    session: SessionId,
    purposes: Collection[Purpose],
    ranges: tuple[Range, ...],
) -> Session:
    """The session, if it is open for this purpose and all of these ranges."""
    found = metadata.sessions.find(session)
    if found is None:
        raise ProblemError(
            Code.NO_PERMIT,
            f"Session {session} is not open at epoch {metadata.epoch}, so it permits nothing.",
            epoch=metadata.epoch,
        )
    if found.purpose not in purposes:
        raise ProblemError(
            Code.NO_PERMIT,
            f"Session {session} is for {found.purpose}, which does not permit this.",
            epoch=metadata.epoch,
        )
    if without(ranges, found.ranges):
        raise ProblemError(
            Code.NO_PERMIT,
            f"Session {session} does not cover all of these ranges.",
            field="ranges",
            epoch=metadata.epoch,
        )
    return found
