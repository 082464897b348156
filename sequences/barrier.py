"""The barrier between two steps: who has to have applied the last one, and who has not yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from metadata.barriers import Evidence, Level, closing_targets, shortfalls, voter_groups
from metadata.cluster import ClusterMetadata
from metadata.directory import Location, NodeId
from metadata.epoch import Epoch
from metadata.sequences import Sequence
from metadata.strategies import Owners


class Waiting(msgspec.Struct, frozen=True):
    """A group that is short of nodes: how many are needed, and who has not applied the epoch.

    With `all_of` nobody may be missing: they could still import under a session that is closed.
    """

    group: Owners
    needed: int
    missing: Owners
    all_of: bool = False


class Barrier:
    """Fed with what nodes have applied, it passes once enough of each group have the epoch.

    A node counts when it has stored and published the epoch and no read or write that it
    admitted under an older version of an affected range still runs.
    """

    def __init__(
        self,
        epoch: Epoch,
        groups: frozenset[Owners],
        closing: Owners,
        locations: Mapping[NodeId, Location],
        level: Level = Level.EACH_QUORUM,
        applied: Iterable[NodeId] = (),
    ) -> None:
        self.epoch = epoch
        self._groups = groups
        self._closing = closing
        self._locations = locations
        self._level = level
        self._applied = set(applied)

    @property
    def voters(self) -> Owners:
        """Everybody whose watermark matters."""
        asked = {node for group in self._groups for node in group}
        return tuple(sorted(asked.union(self._closing)))

    @property
    def applied(self) -> frozenset[NodeId]:
        """Of whom it is known that they have the epoch."""
        return frozenset(self._applied)

    @property
    def unseen(self) -> Owners:
        """Those of them of whom it is not known yet that they have the epoch."""
        return tuple(node for node in self.voters if node not in self._applied)

    def observe(self, node: NodeId, applied: Epoch) -> bool:
        """Whether the barrier has passed, with this."""
        if applied >= self.epoch:
            self._applied.add(node)
        return self.passed

    @property
    def evidence(self) -> Evidence | None:
        """What the step carries; none where the barrier is empty, since nobody has a table."""
        if not self.voters:
            return None
        return Evidence(self._level, tuple(sorted(self._applied.intersection(self.voters))))

    @property
    def passed(self) -> bool:
        return not self.waiting()

    def waiting(self) -> list[Waiting]:
        """For whom the sequence waits, by name."""
        evidence = Evidence(self._level, tuple(sorted(self._applied)))
        found = [
            Waiting(item.group, item.needed, item.missing)
            for item in shortfalls(self._groups, evidence, self._locations)
        ]
        missing = tuple(node for node in self._closing if node not in self._applied)
        if missing:
            found.append(Waiting(self._closing, len(self._closing), missing, all_of=True))
        return found


def barrier_before(
    metadata: ClusterMetadata,
    sequence: Sequence,
    level: Level = Level.EACH_QUORUM,
    applied: Iterable[NodeId] = (),
) -> Barrier:
    """The barrier that the due step of a sequence stands behind; these are known to have passed."""
    groups = voter_groups(metadata, sequence)
    closing = closing_targets(sequence) if groups else ()
    return Barrier(sequence.last_epoch, groups, closing, metadata.locations(), level, applied)
