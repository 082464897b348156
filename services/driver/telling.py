"""Telling the CMS what is being done about each sequence, so that anybody can look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from client.connection import Connection
from metadata.barriers import Level
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from sequences.status import Board, ReconfigurationStatus, SessionStatus, Status
from services.http.progress import (
    NODES_MAX,
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
                await self._teller.tell(found, ProgressAnswer)
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
                    group=item.group,
                    needed=item.needed,
                    missing=item.missing,
                    all_of=item.all_of,
                )
                for item in status.waiting
            ),
            moved=self._moved(status.sequence),
            level=self._level,
        )


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
