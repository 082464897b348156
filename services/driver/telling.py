"""Telling the CMS what is being done about each sequence, so that anybody can look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec

from client.connection import Connection
from metadata.barriers import Level
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from sequences.barrier import Waiting as Lacking
from sequences.status import Board, ReconfigurationStatus, SessionStatus, Status
from services.http.progress import (
    GROUPS_MAX,
    NODES_MAX,
    PROGRESS_BYTES_MAX,
    PROGRESS_EVERY_S,
    PROGRESS_PATH,
    SEQUENCES_MAX,
    Driven,
    Moved,
    Progress,
    ProgressAnswer,
    Served,
    Waiting,
)
from services.telling import Teller

DETAIL_MAX = 1000
GROUPS_TOLD_MAX = 100
MovedOf = Callable[[SequenceId], Moved | None]


class Telling:
    """Once a second, while there is something to tell, and once more when there is nothing."""

    def __init__(
        self, name: str, level: Level, board: Board, connection: Connection, moved: MovedOf
    ) -> None:
        self._name = name
        self._level = level
        self._board = board
        self._teller = Teller(connection, PROGRESS_PATH, "progress_not_told")
        self._moved = moved

    async def run(self, clock: Callable[[], float]) -> None:
        had_any = False
        while True:
            found = self.progress(clock())
            has_any = bool(found.sequences or found.sessions or found.reconfiguration)
            if has_any or had_any:
                for part in in_parts(found):
                    await self._teller.tell(part, ProgressAnswer)
            had_any = has_any
            await asyncio.sleep(PROGRESS_EVERY_S)

    def progress(self, now_s: float) -> Progress:
        listed = self._board.all()[:SEQUENCES_MAX]
        sessions = self._board.sessions()[:SEQUENCES_MAX]
        return Progress(
            driver=self._name,
            sequences=tuple(self._driven(status, now_s) for status in listed),
            sessions=tuple(_served(status, now_s) for status in sessions),
            reconfiguration=_reconfiguring(self._board.reconfiguration, now_s),
        )

    @property
    def stalled_s(self) -> float:
        """How long ago the movement that is stalled longest came further; 0 where none runs."""
        found = (self._moved(status.sequence) for status in self._board.all())
        return max((moved.stalled_s for moved in found if moved is not None), default=0.0)

    def _driven(self, status: Status, now_s: float) -> Driven:
        return Driven(
            sequence=Epoch(status.sequence),
            step=status.step.value,
            doing=status.doing.value,
            for_s=max(0.0, now_s - status.since_s),
            detail=status.detail[:DETAIL_MAX],
            failures=status.failures,
            waiting=tuple(
                Waiting(
                    group=item.group[:NODES_MAX],
                    needed=item.needed,
                    missing=item.missing[:NODES_MAX],
                    all_of=item.all_of,
                )
                for item in _naming_all(status.waiting)
            ),
            moved=self._moved(status.sequence),
            level=self._level,
        )


def in_parts(whole: Progress) -> Iterator[Progress]:
    """Halves of it, and halves of these, until each is no more than a CMS takes."""
    sequences, sessions = len(whole.sequences), len(whole.sessions)
    if sequences + sessions <= 1 or len(msgspec.json.encode(whole)) <= PROGRESS_BYTES_MAX:
        yield whole
        return
    one, other = (sequences + 1) // 2, sessions // 2
    first = msgspec.structs.replace(
        whole, sequences=whole.sequences[:one], sessions=whole.sessions[:other]
    )
    rest = Progress(
        driver=whole.driver, sequences=whole.sequences[one:], sessions=whole.sessions[other:]
    )
    yield from in_parts(first)
    yield from in_parts(rest)


def _naming_all(waiting: Sequence[Lacking]) -> Sequence[Lacking]:
    """Of many groups those that name everybody who is missing: with many tokens for each node
    there are thousands, of the same few nodes.
    """
    if len(waiting) <= GROUPS_TOLD_MAX:
        return waiting
    found: list[Lacking] = []
    named: set[NodeId] = set()
    for item in sorted(waiting, key=lambda item: not item.all_of):
        if not named.issuperset(item.missing):
            named.update(item.missing)
            found.append(item)
    return found[:GROUPS_MAX]


def _reconfiguring(status: ReconfigurationStatus | None, now_s: float) -> Served | None:
    if status is None:
        return None
    return Served(
        session=Epoch(status.sequence),
        doing=status.doing.value,
        for_s=max(0.0, now_s - status.since_s),
        detail=status.detail[:DETAIL_MAX],
        failures=status.failures,
    )


def _served(status: SessionStatus, now_s: float) -> Served:
    return Served(
        session=Epoch(status.session),
        doing=status.doing.value,
        for_s=max(0.0, now_s - status.since_s),
        detail=status.detail[:DETAIL_MAX],
        failures=status.failures,
        nodes=status.nodes[:NODES_MAX],
    )
