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
from metadata.sessions import Purpose, Session, SessionId
from sequences.driver import Drive, World
from sequences.ports import Cleaner, Refused, Repairer, WorkError
from sequences.status import Board
from transformations.cms import AdvanceCmsReconfiguration
from transformations.sessions import CloseSession, Errand, OpenSession

RECHECK_S = 2.0
CLEANING_AT_ONCE_MAX = 8

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
                running = {key: task for key, task in self._running.items() if not task.done()}
                due = {key: work for key, work in self._due(metadata) if key not in running}
                started = {key: group.create_task(work()) for key, work in due.items()}
                self._running = running | started
                await self._world.cluster.beyond(metadata.epoch, RECHECK_S)

    def _due(self, metadata: ClusterMetadata) -> list[tuple[Key, Work]]:
        due: list[tuple[Key, Work]] = [
            (("sequence", sequence), Drive(sequence, self._world, self._board).run)
            for sequence in sorted(metadata.sequences.in_progress)
        ]
        due += [
            ((session.purpose.value, session.id), partial(self._serve, session.id))
            for session in metadata.sessions.open.values()
            if session.sequence is None and not _is_reserved(metadata, session)
        ]
        if metadata.cms.reconfiguration is not None:
            due.append((("cms", metadata.cms.reconfiguration.id), self._reconfigure))
        return due

    async def _serve(self, wanted: SessionId) -> None:
        """Do what a session is for, then close it; while its ranges move it rests."""
        failures = 0
        while (session := self._free(wanted)) is not None:
            try:
                await self._work(session)
                await self._close(session)
            except WorkError as error:
                failures += 1
                self._report((session.purpose.value, wanted), str(error))
                await asyncio.sleep(self._world.pause_s(failures))

    def _free(self, wanted: SessionId) -> Session | None:
        metadata = self._world.cluster.metadata
        session = metadata.sessions.find(wanted)
        return None if session is None or _is_reserved(metadata, session) else session

    async def _work(self, session: Session) -> None:
        if session.purpose is Purpose.REPAIR:
            await self._workers.repairer.repair(self._world.cluster.metadata, session)
            return
        failed = await self._clean(session)
        if not failed:
            return
        why = "; ".join(failed.values())
        if set(failed) == set(session.nodes):
            raise WorkError(why)
        await self._narrow(session, tuple(failed))
        self._report((session.purpose.value, session.id), why)

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
            try:
                outcome = await self._world.cluster.commit(step, f"reconfiguration {found.id}")
                if self._world.cluster.metadata.cms.reconfiguration == found:
                    raise _undone(outcome)
            except WorkError as error:
                failures += 1
                self._report(("cms", found.id), str(error))
                await asyncio.sleep(self._world.pause_s(failures))


def staying(metadata: ClusterMetadata, session: Session) -> tuple[NodeId, ...]:
    """Its nodes but those that left: nobody asks them, and what they hold is nobody's."""
    nodes = metadata.directory.nodes
    return tuple(
        node for node in session.nodes if node in nodes and nodes[node].state is not NodeState.LEFT
    )


def _is_reserved(metadata: ClusterMetadata, session: Session) -> bool:
    """Nobody works on a range outside the log while it is being moved."""
    return any(affected.overlaps(session.ranges) for affected in metadata.locks.held.values())


def _undone(outcome: Epoch | Refused) -> WorkError:
    """For what is still to be done after it was committed: nobody else has done it either."""
    assert isinstance(outcome, Refused), outcome
    return WorkError(f"{outcome.detail} ({outcome.code})")
