"""Which nodes a read or a write must reach, and proof that the two always meet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from metadata.directory import NodeId
from metadata.plans import RangeChange, Step
from metadata.strategies import Owners
from metadata.tokens import FULL


def majority(size: int) -> int:
    return size // 2 + 1


class Version(msgspec.Struct, frozen=True):
    """How one range is read and written at one step.

    A read needs a majority of `readers`. A write needs a majority of *each* of `write_groups`:
    while a range has writers that are not readers, those are its owners before the sequence
    and its owners after it. A majority of all writers would not be enough.
    """

    readers: Owners
    write_groups: tuple[Owners, ...]


def version_at(change: RangeChange, step: Step) -> Version:
    """The version of a range after a step on the way forward."""
    readers = change.after if step in (Step.MID, Step.FINISH) else change.before
    moving = step in (Step.START, Step.MID) and set(change.during) != set(readers)
    groups = (change.before, change.after) if moving else (readers,)
    return Version(readers, tuple(group for group in groups if group))


def version_cancelled(change: RangeChange, after: Step) -> Version:
    """The version of a range once a sequence was cancelled after the given step."""
    return version_at(change, Step.PREPARE if after is Step.PREPARE else Step.START)


FORWARD = (Step.PREPARE, Step.START, Step.MID, Step.FINISH)


def disjoint_quorums(change: RangeChange) -> str | None:
    """Where some read quorum would miss some write quorum; none if the change is safe.

    Each version is compared with itself and with its neighbours: the step after it, and
    CANCEL followed by RETIRE wherever the sequence can still be cancelled.
    """
    both = len(set(change.before) & set(change.after))
    return _disjoint(len(change.before) - both, len(change.after) - both, both)


@lru_cache(maxsize=4096)
def _disjoint(only_before: int, only_after: int, both: int) -> str | None:
    """The answer depends only on how many nodes lose the range, gain it and keep it."""
    nodes = [NodeId(number) for number in range(only_before + both + only_after)]
    change = RangeChange(
        range=FULL,
        before=tuple(nodes[: only_before + both]),
        after=tuple(nodes[only_before:]),
    )
    for name, ours, theirs in _neighbours(change):
        if not _meet(ours, theirs):
            return name
    return None


def _neighbours(change: RangeChange) -> list[tuple[str, Version, Version]]:
    forward = [version_at(change, step) for step in FORWARD]
    pairs = [(str(step), version, version) for step, version in zip(FORWARD, forward, strict=True)]
    for index, step in enumerate(FORWARD[1:]):
        pairs.append((f"between {FORWARD[index]} and {step}", forward[index], forward[index + 1]))
    undone = forward[0]
    for step, version in zip(FORWARD[:-1], forward, strict=False):
        cancelled = version_cancelled(change, step)
        pairs.append((f"cancel after {step}", version, cancelled))
        pairs.append((f"retire after cancel after {step}", cancelled, undone))
    return pairs


def _meet(ours: Version, theirs: Version) -> bool:
    return quorums_meet(ours.readers, theirs.write_groups) and quorums_meet(
        theirs.readers, ours.write_groups
    )


def quorums_meet(readers: Owners, write_groups: Sequence[Owners]) -> bool:
    """True if every majority of the readers has a node of every possible write quorum.

    The worst write takes its nodes outside the readers where it can, and inside takes first
    those that count for both groups. It knows at most two groups, before and after.
    """
    assert len(write_groups) <= 2, write_groups  # noqa: PLR2004 - before and after
    if not readers or not write_groups:
        return True
    asked = set(readers)
    first, second = set(write_groups[0]), set(write_groups[-1])
    need_first = max(0, majority(len(first)) - len(first - asked))
    need_second = max(0, majority(len(second)) - len(second - asked))
    shared = len(first & second & asked)
    fewest = min(
        taken + max(0, need_first - taken) + max(0, need_second - taken)
        for taken in range(shared + 1)
    )
    return len(asked) - fewest < majority(len(asked))
