"""How an entry spreads: published, applied by the first node, by a quorum, by all; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from metadata.directory import Directory, NodeId, NodeState
from metadata.epoch import EMPTY, Epoch
from services.cms.reports.marks import STRIDES, AppliedTimes

MEMBER_STATES = frozenset([NodeState.JOINED, NodeState.MOVING, NodeState.LEAVING])
"""Nodes that own ranges. A quorum is a majority of them, and all are all of them, down or not."""


class Stage(StrEnum):
    PUBLISHED = "published"
    FIRST = "first"
    QUORUM = "quorum"
    ALL = "all"


class Standing(msgspec.Struct, frozen=True):
    """How far one node is, and when it got there; one that never reported is at 0."""

    node: NodeId
    watermark: Epoch
    times: AppliedTimes


class Reached(msgspec.Struct, frozen=True):
    """`at_us` is None where it happened too long ago to be known."""

    at_us: int | None
    node: NodeId | None = None


class Propagation(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that is None is not reached yet. `straggler` is the last member to apply it, or
    while not all have, the one that is furthest behind.
    """

    epoch: Epoch
    published: Reached | None
    first: Reached | None
    quorum: Reached | None
    all: Reached | None
    applied: int
    members: int
    straggler: NodeId | None

    def reached(self, stage: Stage) -> Reached | None:
        found: Reached | None = getattr(self, stage.value)
        return found


class Spread:
    """All nodes at one moment. `members` are those that count for a quorum and for all."""

    def __init__(
        self,
        standings: Iterable[Standing],
        members: Iterable[NodeId],
        published: Sequence[AppliedTimes] = (),
    ) -> None:
        by_node = {standing.node: standing for standing in standings}
        never = AppliedTimes(())
        self._all = list(by_node.values())
        self._members = [
            by_node.get(node) or Standing(node, EMPTY, never) for node in sorted(set(members))
        ]
        self._published = published

    @property
    def quorum(self) -> int:
        return len(self._members) // 2 + 1

    def of(self, epoch: Epoch) -> Propagation:
        members = self._members
        applied = [member for member in members if member.watermark >= epoch]
        times = sorted(_times(applied, epoch))
        is_whole = bool(members) and len(applied) == len(members)
        return Propagation(
            epoch=epoch,
            published=self._published_at(epoch),
            first=self._first(epoch),
            quorum=_nth(times, self.quorum) if len(applied) >= self.quorum else None,
            all=_nth(times, len(members)) if is_whole else None,
            applied=len(applied),
            members=len(members),
            straggler=self._straggler(epoch, times),
        )

    def frontiers(self) -> Mapping[Stage, Epoch]:
        """The newest epoch that has reached each stage."""
        watermarks = sorted((member.watermark for member in self._members), reverse=True)
        quorum = watermarks[self.quorum - 1] if watermarks else EMPTY
        return {
            Stage.PUBLISHED: max((marks.newest for marks in self._published), default=EMPTY),
            Stage.FIRST: max((standing.watermark for standing in self._all), default=EMPTY),
            Stage.QUORUM: quorum,
            Stage.ALL: watermarks[-1] if watermarks else EMPTY,
        }

    def _published_at(self, epoch: Epoch) -> Reached | None:
        """By the first relay; several may run."""
        if all(marks.newest < epoch for marks in self._published):
            return None
        times = [at_us for marks in self._published if (at_us := marks.at(epoch)) is not None]
        return Reached(min(times, default=None))

    def _first(self, epoch: Epoch) -> Reached | None:
        """Of any node, member or not."""
        applied = [standing for standing in self._all if standing.watermark >= epoch]
        if not applied:
            return None
        return _nth(sorted(_times(applied, epoch)), 1)

    def _straggler(self, epoch: Epoch, times: Sequence[tuple[int, NodeId]]) -> NodeId | None:
        behind = [member for member in self._members if member.watermark < epoch]
        if behind:
            return min(behind, key=lambda member: (member.watermark, member.node)).node
        return times[-1][1] if times else None


def members_of(directory: Directory) -> list[NodeId]:
    return [node.id for node in directory.nodes.values() if node.state in MEMBER_STATES]


def sampled(after: Epoch, upto: Epoch, epochs_max: int) -> list[Epoch]:
    """At most so many of the epochs behind `after`: multiples of a power of two.

    For these the times of nodes are exact, however many marks were left out.
    """
    for stride in STRIDES:
        if upto // stride - after // stride <= epochs_max:
            break
    first = (after // stride + 1) * stride
    return [Epoch(epoch) for epoch in range(first, upto + 1, stride)]


def _times(applied: Iterable[Standing], epoch: Epoch) -> Iterator[tuple[int, NodeId]]:
    for standing in applied:
        at_us = standing.times.at(epoch)
        if at_us is not None:
            yield at_us, standing.node


def _nth(times: Sequence[tuple[int, NodeId]], count: int) -> Reached:
    """The moment when so many had applied it, if as many moments are known."""
    return Reached(*times[count - 1]) if len(times) >= count else Reached(None)
