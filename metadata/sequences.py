"""Multi-step changes in progress."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property

import msgspec

from metadata.digest import digest_of
from metadata.directory import NodeId
from metadata.epoch import EMPTY, Epoch
from metadata.hashed_map import HashedMap
from metadata.locks import SequenceId
from metadata.plans import PlacementPlan, Step
from metadata.sessions import SessionId
from metadata.tokens import Token


class SequenceKind(StrEnum):
    JOIN = "join"
    LEAVE = "leave"
    MOVE = "move"
    REPLACE = "replace"


_DUE = {
    Step.PREPARE: Step.START,
    Step.START: Step.MID,
    Step.MID: Step.FINISH,
    Step.FINISH: Step.RETIRE,
    Step.CANCEL: Step.RETIRE,
}


class Taken(msgspec.Struct, frozen=True, gc=False):
    """A step and the epoch of its entry."""

    step: Step
    epoch: Epoch


class Sequence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of ownership on its way, with all that its remaining steps need.

    `tokens` is what `node` owns in the end; `replaced` gives its tokens to `node`. The plan was
    computed when the sequence was prepared and never changes.
    """

    id: SequenceId
    kind: SequenceKind
    node: NodeId
    tokens: tuple[Token, ...] = ()
    replaced: NodeId | None = None
    plans: tuple[PlacementPlan, ...] = ()
    dead: tuple[NodeId, ...] = ()
    accept_loss: str = ""
    session: SessionId | None = None
    taken: tuple[Taken, ...] = ()

    @property
    def last(self) -> Step:
        return self.taken[-1].step

    @property
    def last_epoch(self) -> Epoch:
        return self.taken[-1].epoch

    @property
    def due(self) -> Step:
        return _DUE[self.last]

    @property
    def cancelled(self) -> bool:
        return self.last is Step.CANCEL

    def epoch_of(self, step: Step) -> Epoch | None:
        return next((item.epoch for item in self.taken if item.step is step), None)

    def concerns(self, node: NodeId) -> bool:
        return node in (self.node, self.replaced)

    def after(self, step: Step, epoch: Epoch) -> Sequence:
        return msgspec.structs.replace(self, taken=(*self.taken, Taken(step, epoch)))


class Sequences(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    in_progress: HashedMap[SequenceId, Sequence] = HashedMap()
    epoch: Epoch = EMPTY

    @cached_property
    def digest(self) -> bytes:
        return digest_of(self.in_progress.digest, self.epoch)

    def find(self, sequence: SequenceId) -> Sequence | None:
        return self.in_progress.get(sequence)

    def of_node(self, node: NodeId) -> Sequence | None:
        return next((item for item in self.in_progress.values() if item.concerns(node)), None)

    def with_sequence(self, sequence: Sequence) -> Sequences:
        changed = self.in_progress.with_item(sequence.id, sequence)
        return Sequences(in_progress=changed, epoch=self.epoch)

    def without(self, sequence: SequenceId) -> Sequences:
        return Sequences(in_progress=self.in_progress.without([sequence]), epoch=self.epoch)
