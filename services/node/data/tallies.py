"""Who answered what, and whether that is enough: what a coordinator goes by."""

from __future__ import annotations

from collections.abc import Mapping

from metadata.directory import NodeId
from metadata.epoch import EMPTY, Epoch
from metadata.replicas import Consistency, Replicas
from services.http.problems import Code
from store.rows import Row, newest


class Shortage:
    """Why nodes did not do what they were asked."""

    def __init__(self) -> None:
        self.reasons: dict[NodeId, str] = {}
        self.behind: Epoch = EMPTY
        """The epoch of whoever said that the coordinator is behind it."""

    def refused(self, node: NodeId, code: str, epoch: Epoch) -> None:
        self.reasons[node] = f"{code} at epoch {epoch}"
        if code == Code.COORDINATOR_BEHIND:
            self.behind = max(self.behind, epoch)

    def told(self) -> str:
        """By name, for people."""
        return "; ".join(f"node {node}: {text}" for node, text in sorted(self.reasons.items()))


class WriteTally:
    """Of one row, sent to all its writers. A node that holds a newer row has taken this one in."""

    def __init__(self, replicas: Replicas, consistency: Consistency) -> None:
        self.replicas = replicas
        self.acknowledged: set[NodeId] = set()
        self.held_us: int | None = None
        self.shortage = Shortage()
        self.may_be_written = False
        self._consistency = consistency

    @property
    def is_met(self) -> bool:
        return self.replicas.write_met(self._consistency, self.acknowledged)

    def acknowledge(self, node: NodeId, held_us: int | None = None) -> None:
        self.acknowledged.add(node)
        self.may_be_written = True
        if held_us is not None:
            self.held_us = max(held_us, self.held_us or 0)

    def lose(self, node: NodeId, reason: str, *, may_have_arrived: bool) -> None:
        self.shortage.reasons[node] = reason
        self.may_be_written |= may_have_arrived

    def is_met_by(self, now: Replicas | None) -> bool:
        """Whether the acknowledgements are enough by another version as well."""
        return now is not None and now.write_met(self._consistency, self.acknowledged)


class ReadTally:
    """Of one row, asked of some of its readers."""

    def __init__(self, replicas: Replicas, consistency: Consistency) -> None:
        self.replicas = replicas
        self.rows: dict[NodeId, Row | None] = {}
        self.shortage = Shortage()
        self._consistency = consistency

    @property
    def is_met(self) -> bool:
        return self.would_be_met({})

    def would_be_met(self, also: Mapping[NodeId, object] | set[NodeId]) -> bool:
        return self.replicas.read_met(self._consistency, {*self.rows, *also})

    def is_met_by(self, now: Replicas | None) -> bool:
        return now is not None and now.read_met(self._consistency, self.rows.keys())

    @property
    def newest(self) -> Row | None:
        return newest(self.rows.values())

    @property
    def holders(self) -> set[NodeId]:
        """Those who have the newest version."""
        found = self.newest
        return {node for node, row in self.rows.items() if row == found}
