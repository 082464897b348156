"""Driving sequences to their end: barrier, work, commit, until there is none left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Listed

import msgspec

from metadata.barriers import Level
from metadata.directory import NodeId
from metadata.locks import SequenceId
from metadata.plans import Step
from metadata.receipts import Receipt
from metadata.sequences import Sequence
from metadata.sessions import Purpose
from sequences.barrier import Barrier, barrier_before
from sequences.ports import Cluster, Mover, Refused, Watermarks, WorkError
from sequences.status import Board, Doing, Status
from sequences.steps import Leftovers, due_step, left_behind, needs_movement
from sequences.while_due import while_due
from transformations.kinds import AnyTransformation
from transformations.sessions import Errand, OpenSession

ASK_WAIT_S = 1.0
"""How long nodes are waited for in one question about their watermark."""


class World(msgspec.Struct, frozen=True):
    """What the driver works with.

    `pause_s` says how long to leave something alone that has failed so often in a row, `round_s`
    how long a round of questions lasts at least when so many in a row brought nothing new.
    """

    cluster: Cluster
    watermarks: Watermarks
    mover: Mover
    clock: Callable[[], float]
    pause_s: Callable[[int], float]
    round_s: Callable[[int], float]
    level: Level = Level.EACH_QUORUM


class Drive:
    """One sequence, from wherever the metadata says it is to its end.

    Nothing is remembered but what the metadata holds: whoever drives next goes on from there.
    Two who drive the same sequence do no harm, because the log takes each step once.
    """

    def __init__(self, sequence: SequenceId, world: World, board: Board) -> None:
        self._id = sequence
        self._world = world
        self._board = board
        self._failures = 0

    async def run(self) -> None:
        while (sequence := self._found()) is not None:
            try:
                await self._take_step(sequence)
                self._failures = 0
            except WorkError as error:
                self._failures += 1
                self._say(sequence, Doing.STUCK, str(error))
                await self._rest(sequence, self._world.pause_s(self._failures))
        self._board.drop(self._id)

    async def _rest(self, sequence: Sequence, pause_s: float) -> None:
        """Leave it alone for so long, unless it moves on: whoever cancels it need not wait."""
        clock = self._world.clock
        ends_s = clock() + pause_s
        while self._found() == sequence and (left_s := ends_s - clock()) > 0:
            await self._world.cluster.beyond(self._world.cluster.metadata.epoch, left_s)

    async def _take_step(self, sequence: Sequence) -> None:
        """One step, or none if somebody else took it, or cancelled, in the meantime."""
        if sequence.due is Step.RETIRE:
            # Before the barrier: an operator may retire it without nodes that died.
            await self._note_leftovers(sequence)
            if self._found() != sequence:
                return
        barrier = await self._hold(sequence)
        if barrier is None:
            return
        receipts: Listed[Receipt] = ()
        if needs_movement(self._world.cluster.metadata, sequence):
            moved = await while_due(
                self._world.cluster, lambda: self._found() == sequence, self._move(sequence)
            )
            if moved is None:
                return
            receipts = moved
        self._say(sequence, Doing.COMMITTING)
        await self._commit(sequence, due_step(sequence, barrier.evidence, receipts))

    async def _hold(self, sequence: Sequence) -> Barrier | None:
        """The barrier, once it has passed; None if the sequence moved on meanwhile."""
        barrier, quiet = self._barrier(sequence), 0
        while not barrier.passed:
            self._say(sequence, Doing.WAITING, barrier=barrier)
            began_s, asked = self._world.clock(), barrier.unseen
            await self._world.watermarks.observe(asked, barrier.epoch, ASK_WAIT_S, barrier.observe)
            if self._found() != sequence:
                return None
            quiet = quiet + 1 if barrier.unseen == asked else 0
            # Tables may have come or gone meanwhile, and with them those who vote.
            barrier = self._barrier(sequence, barrier.applied)
            if quiet and not barrier.passed:
                # A closed port refuses at once. Who is only behind has been waited for, and is
                # asked again without a pause.
                took_s = self._world.clock() - began_s
                await asyncio.sleep(max(0.0, self._world.round_s(quiet) - took_s))
        return barrier

    def _barrier(self, sequence: Sequence, applied: Iterable[NodeId] = ()) -> Barrier:
        metadata = self._world.cluster.metadata
        return barrier_before(metadata, sequence, self._world.level, applied)

    async def _move(self, sequence: Sequence) -> Listed[Receipt]:
        self._say(sequence, Doing.MOVING)
        return await self._world.mover.move(self._world.cluster.metadata, sequence)

    async def _note_leftovers(self, sequence: Sequence) -> None:
        """Before the sequence is gone: what it leaves behind is noted in the metadata."""
        await self._world.mover.sweep(sequence)
        leftovers = left_behind(self._world.cluster.metadata, sequence)
        if leftovers is not None and not self._is_open(leftovers):
            opening = OpenSession(
                purpose=Errand.CLEANUP, nodes=leftovers.nodes, ranges=leftovers.ranges
            )
            await self._commit(sequence, opening)

    def _is_open(self, leftovers: Leftovers) -> bool:
        """Also where it was noted for more nodes, before some were declared dead."""
        sessions = self._world.cluster.metadata.sessions.open.values()
        return any(
            session.purpose is Purpose.CLEANUP
            and session.ranges == leftovers.ranges
            and set(leftovers.nodes) <= set(session.nodes)
            for session in sessions
        )

    async def _commit(self, sequence: Sequence, transformation: AnyTransformation) -> None:
        reason = f"{sequence.kind} {sequence.id}"
        outcome = await self._world.cluster.commit(transformation, reason)
        if isinstance(outcome, Refused) and self._found() == sequence:
            raise WorkError(f"{outcome.detail} ({outcome.code})")

    def _found(self) -> Sequence | None:
        return self._world.cluster.metadata.sequences.find(self._id)

    def _say(
        self, sequence: Sequence, doing: Doing, detail: str = "", *, barrier: Barrier | None = None
    ) -> None:
        self._board.put(
            Status(
                sequence=self._id,
                step=sequence.due,
                doing=doing,
                since_s=self._world.clock(),
                detail=detail,
                waiting=() if barrier is None else tuple(barrier.waiting()),
                failures=self._failures,
            )
        )
