"""What else the metadata asks for: cleanup, repair, and changing the members of the CMS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId, NodeState
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from metadata.sessions import Purpose, Session, SessionId
from sequences.disturbance import holder
from sequences.driver import Drive, World
from sequences.ports import Cleaner, Refused, Repairer, WorkError
from sequences.status import Board, Doing, ReconfigurationStatus, SessionStatus
from sequences.while_due import while_due
from transformations.cms import AdvanceCmsReconfiguration
from transformations.sessions import CloseSession, Errand, OpenSession

RECHECK_S = 2.0
CLEANING_AT_ONCE_MAX = 8

_DOING = {Purpose.CLEANUP: Doing.CLEANING, Purpose.REPAIR: Doing.REPAIRING}

Key = tuple[str, int]
Work = Callable[[], Coroutine[Any, Any, None]]
Report = Callable[[Key, str], None]
"""Told of an errand that could not be done, and why; it is tried again."""


class Workers(msgspec.Struct, frozen=True):
    """Who does what sessions were opened for."""

    cleaner: Cleaner
    repairer: Repairer


class Errands:
    """Starts something for each sequence, open session and reconfiguration, and keeps at it."""

    def __init__(self, world: World, workers: Workers, board: Board, report: Report) -> None:
        self._world = world
        self._workers = workers
        self._board = board
        self._report = report
        self._running: dict[Key, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                metadata = self._world.cluster.metadata
                self._look(metadata)
                running = {key: task for key, task in self._running.items() if not task.done()}
                due = {key: work for key, work in self._due(metadata) if key not in running}
                started = {key: group.create_task(work()) for key, work in due.items()}
                self._running = running | started
                await self._world.cluster.beyond(metadata.epoch, RECHECK_S)

    def _look(self, metadata: ClusterMetadata) -> None:
        """Sessions that are over are not spoken of; of those that wait it is said for whom."""
        self._board.keep_sessions(metadata.sessions.open)
        for session in metadata.sessions.open.values():
            if session.sequence is not None:
                continue
            mover = holder(metadata, session.ranges)
            if mover is not None:
                self._say(session, Doing.WAITING, f"sequence {mover} moves these ranges")

    def _due(self, metadata: ClusterMetadata) -> list[tuple[Key, Work]]:
        due: list[tuple[Key, Work]] = [
            (("sequence", sequence), Drive(sequence, self._world, self._board).run)
            for sequence in sorted(metadata.sequences.in_progress)
        ]
        due += [
            ((session.purpose.value, session.id), partial(self._serve, session.id))
            for session in metadata.sessions.open.values()
            if session.sequence is None and holder(metadata, session.ranges) is None
        ]
        if metadata.cms.reconfiguration is not None:
            due.append((("cms", metadata.cms.reconfiguration.id), self._reconfigure))
        return due

    async def _serve(self, wanted: SessionId) -> None:
        """Do what a session is for, then close it; while its ranges move it rests.

        Nobody works on for a session that was closed by hand.
        """
        failures = 0

        def is_due() -> bool:
            return self._free(wanted) is not None

        while (session := self._free(wanted)) is not None:
            if not failures:
                self._say(session, _DOING[session.purpose])
            try:
                if await while_due(self._world.cluster, is_due, self._work(session)):
                    await self._close(session)
            except WorkError as error:
                failures += 1
                self._report((session.purpose.value, wanted), str(error))
                self._say(session, Doing.STUCK, str(error), error.nodes, failures)
                await asyncio.sleep(self._world.pause_s(failures))

    def _free(self, wanted: SessionId) -> Session | None:
        metadata = self._world.cluster.metadata
        session = metadata.sessions.find(wanted)
        is_free = session is not None and holder(metadata, session.ranges) is None
        return session if is_free else None

    def _say(
        self,
        session: Session,
        doing: Doing,
        detail: str = "",
        nodes: tuple[NodeId, ...] = (),
        failures: int = 0,
    ) -> None:
        self._board.put_session(
            SessionStatus(
                session=session.id,
                purpose=session.purpose,
                doing=doing,
                since_s=self._world.clock(),
                detail=detail,
                nodes=nodes,
                failures=failures,
            )
        )

    async def _work(self, session: Session) -> bool:
        """True, once it is done."""
        if session.purpose is Purpose.REPAIR:
            await self._workers.repairer.repair(self._world.cluster.metadata, session)
            return True
        failed = await self._clean(session)
        if not failed:
            return True
        why = "; ".join(failed.values())
        if set(failed) == set(session.nodes):
            raise WorkError(why, failed)
        await self._narrow(session, tuple(failed))
        self._report((session.purpose.value, session.id), why)
        return True

    async def _clean(self, session: Session) -> dict[NodeId, str]:
        """All that have not left, each for itself; why it failed, where it did."""
        turns = asyncio.Semaphore(CLEANING_AT_ONCE_MAX)

        async def cleaned(node: NodeId) -> str:
            async with turns:
                try:
                    await self._workers.cleaner.clean(session, node)
                except WorkError as error:
                    return str(error)
            return ""

        nodes = staying(self._world.cluster.metadata, session)
        answers = await asyncio.gather(*map(cleaned, nodes))
        return {node: why for node, why in zip(nodes, answers, strict=True) if why}

    async def _narrow(self, session: Session, rest: tuple[NodeId, ...]) -> None:
        """Before it is closed for those that are done, another is open for the rest of them.

        So nobody who may still delete something is without one, and nobody who has cleaned up
        waits for a node that is down.
        """
        if any(
            other.purpose is Purpose.CLEANUP
            and other.ranges == session.ranges
            and set(rest) <= set(other.nodes) < set(session.nodes)
            for other in self._world.cluster.metadata.sessions.open.values()
        ):
            return
        opening = OpenSession(purpose=Errand.CLEANUP, nodes=rest, ranges=session.ranges)
        outcome = await self._world.cluster.commit(opening, f"rest of cleanup {session.id}")
        if isinstance(outcome, Refused):
            raise _undone(outcome)

    async def _close(self, session: Session) -> None:
        close = CloseSession(session=session.id)
        outcome = await self._world.cluster.commit(close, f"{session.purpose} {session.id}")
        if self._world.cluster.metadata.sessions.find(session.id) == session:
            raise _undone(outcome)

    async def _reconfigure(self) -> None:
        """One member at a time; whoever else advances it too does no harm."""
        failures = 0
        while (found := self._world.cluster.metadata.cms.reconfiguration) is not None:
            step = AdvanceCmsReconfiguration(sequence=found.id, step=found.index)
            if not failures:
                self._say_reconfiguring(found.id, Doing.COMMITTING)
            try:
                outcome = await self._world.cluster.commit(step, f"reconfiguration {found.id}")
                if self._world.cluster.metadata.cms.reconfiguration == found:
                    raise _undone(outcome)
                failures = 0
            except WorkError as error:
                failures += 1
                self._report(("cms", found.id), str(error))
                self._say_reconfiguring(found.id, Doing.STUCK, str(error), failures)
                await asyncio.sleep(self._world.pause_s(failures))
        self._board.reconfiguration = None

    def _say_reconfiguring(
        self, sequence: SequenceId, doing: Doing, detail: str = "", failures: int = 0
    ) -> None:
        self._board.put_reconfiguration(
            ReconfigurationStatus(
                sequence=sequence,
                doing=doing,
                since_s=self._world.clock(),
                detail=detail,
                failures=failures,
            )
        )


def staying(metadata: ClusterMetadata, session: Session) -> tuple[NodeId, ...]:
    """Its nodes but those that left: nobody asks them, and what they hold is nobody's."""
    nodes = metadata.directory.nodes
    return tuple(
        node for node in session.nodes if node in nodes and nodes[node].state is not NodeState.LEFT
    )


def _undone(outcome: Epoch | Refused) -> WorkError:
    """For what is still to be done after it was committed: nobody else has done it either."""
    assert isinstance(outcome, Refused), outcome
    return WorkError(f"{outcome.detail} ({outcome.code})")
