"""What happened in a history, in a size that can be looked at: taken down while it is replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from audit.transition import STEPS
from log.entry import SealedEntry
from log.replay import Applied, apply
from metadata.cluster import ClusterMetadata
from metadata.epoch import EMPTY, Epoch
from metadata.locks import SequenceId
from metadata.placements import Placements
from metadata.plans import Step
from metadata.sequences import Sequence

SEQUENCES_KEPT_MAX = 80
SAMPLES_KEPT_MAX = 240
SHARES_KEPT_MAX = 50

_Item = TypeVar("_Item")


class StepTaken(msgspec.Struct, frozen=True):
    """A step of a sequence; `at` is in microseconds since 1970, where the entry was seen."""

    step: Step
    epoch: Epoch
    at: int | None = None


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence from its first step to the last one seen, and who began it."""

    id: SequenceId
    kind: str
    node: int
    replaced: int | None
    actor: str | None = None
    reason: str | None = None
    steps: tuple[StepTaken, ...] = ()

    @property
    def first(self) -> Epoch:
        return self.steps[0].epoch

    @property
    def last(self) -> Epoch:
        return self.steps[-1].epoch

    @property
    def is_open(self) -> bool:
        return self.steps[-1].step is not Step.RETIRE

    @property
    def outcome(self) -> str:
        if any(item.step is Step.CANCEL for item in self.steps):
            return "being cancelled" if self.is_open else "cancelled"
        return "in progress" if self.is_open else "finished"


class Sample(msgspec.Struct, frozen=True):
    """How much of all replicas the nodes had from this epoch on: `nodes` of them had any.

    The largest shares by node; those of all nodes add up to 1, or to 0.
    """

    epoch: Epoch
    nodes: int
    shares: dict[int, float]


class Chronicle(msgspec.Struct, frozen=True, kw_only=True):
    """Of long histories, every `sequences_stride`-th and `samples_stride`-th is kept."""

    kinds: dict[str, int]
    began_at: int | None
    ended_at: int | None
    sequences: tuple[Course, ...]
    sequences_total: int
    sequences_stride: int
    samples: tuple[Sample, ...]
    samples_total: int
    samples_stride: int


class Thinned(Generic[_Item]):
    """At most so many of any number of items, evenly: one is left out for each that is kept."""

    def __init__(self, kept_max: int) -> None:
        self.kept: list[_Item] = []
        self.total = 0
        self.stride = 1
        self._kept_max = kept_max

    def take(self, make: Callable[[], _Item]) -> None:
        """`make` is called only for what is kept."""
        if self.total % self.stride == 0:
            if len(self.kept) == self._kept_max:
                self.kept = self.kept[::2]
                self.stride *= 2
            if self.total % self.stride == 0:
                self.kept.append(make())
        self.total += 1


class Chronicler:
    """Applies entries, and takes down each that is applied for the first time."""

    def __init__(self) -> None:
        self.name = ""
        self._kinds: Counter[str] = Counter()
        self._times: list[int] = []
        self._epoch = EMPTY
        self._open: dict[SequenceId, Course] = {}
        self._closed: Thinned[Course] = Thinned(SEQUENCES_KEPT_MAX)
        self._samples: Thinned[Sample] = Thinned(SAMPLES_KEPT_MAX)

    def apply(self, sealed: SealedEntry, onto: Applied) -> Applied:
        """Another audit may go back to look closer; what is known already is not taken twice."""
        applied = apply(sealed, onto)
        if sealed.epoch > self._epoch:
            if onto.metadata.epoch != self._epoch:
                self._begin_at(onto.metadata)
            self._take(sealed, onto.metadata, applied.metadata)
            self._epoch = sealed.epoch
            self.name = applied.metadata.cluster.name
        return applied

    def chronicle(self) -> Chronicle:
        closed, running = self._closed, list(self._open.values())
        kept = sorted([*closed.kept, *running[-SEQUENCES_KEPT_MAX:]], key=lambda item: item.first)
        return Chronicle(
            kinds=dict(self._kinds.most_common()),
            began_at=min(self._times, default=None),
            ended_at=max(self._times, default=None),
            sequences=tuple(kept),
            sequences_total=closed.total + len(running),
            sequences_stride=closed.stride,
            samples=tuple(self._samples.kept),
            samples_total=self._samples.total,
            samples_stride=self._samples.stride,
        )

    def _begin_at(self, metadata: ClusterMetadata) -> None:
        """Where entries before were not seen, the metadata itself tells what is under way."""
        self._open = {found.id: _course(found) for found in metadata.sequences.in_progress.values()}
        self._samples.take(lambda: _sample(metadata))

    def _take(self, sealed: SealedEntry, before: ClusterMetadata, after: ClusterMetadata) -> None:
        self._kinds[sealed.kind] += 1
        at = sealed.entry.committed_at
        self._times = [min([*self._times, at]), max([*self._times, at])]
        step = STEPS.get(sealed.kind)
        if step is not None:
            self._take_step(sealed, step, after)
        if before.placements is not after.placements:
            self._samples.take(lambda: _sample(after))

    def _take_step(self, sealed: SealedEntry, step: Step, after: ClusterMetadata) -> None:
        entry = sealed.entry
        taken = StepTaken(step, sealed.epoch, entry.committed_at)
        if step is Step.PREPARE:
            begun = after.sequences.find(SequenceId(sealed.epoch))
            if begun is not None:
                course = msgspec.structs.replace(
                    _course(begun), actor=entry.actor, reason=entry.reason, steps=(taken,)
                )
                self._open[begun.id] = course
            return
        running = self._open.pop(SequenceId(getattr(entry.transformation, "sequence", 0)), None)
        if running is None:
            return
        course = msgspec.structs.replace(running, steps=(*running.steps, taken))
        if step is Step.RETIRE:
            self._closed.take(lambda: course)
        else:
            self._open[course.id] = course


def shares(placements: Placements) -> dict[int, float]:
    """Each node's part of all replicas that are read, over all placements."""
    widths: Counter[int] = Counter()
    for placement in placements.placed.values():
        for span, group in placement.read_groups():
            for owner in group.owners:
                widths[owner] += span.width
    total = widths.total()
    return {node: widths[node] / total for node in sorted(widths)}


def _sample(metadata: ClusterMetadata) -> Sample:
    found = shares(metadata.placements)
    largest = sorted(found, key=lambda node: (-found[node], node))[:SHARES_KEPT_MAX]
    return Sample(metadata.epoch, len(found), {node: found[node] for node in sorted(largest)})


def _course(found: Sequence) -> Course:
    return Course(
        id=found.id,
        kind=found.kind.value,
        node=found.node,
        replaced=found.replaced,
        steps=tuple(StepTaken(item.step, item.epoch) for item in found.taken),
    )
