"""The sequences that were begun here, watched until they are over."""

from __future__ import annotations

import msgspec

from metadata.directory import NodeId, NodeState
from metadata.locks import SequenceId
from services.local.looking import Look


class Prepared(msgspec.Struct, frozen=True):
    """A sequence, and the state of the node to which it leads if nobody cancels it."""

    sequence: SequenceId
    node: NodeId
    hoped: NodeState


class Preparations:
    """By the name of the node. Nothing of it outlives the supervisor: then the log decides."""

    def __init__(self) -> None:
        self._begun: dict[str, Prepared] = {}

    def add(self, name: str, prepared: Prepared) -> None:
        self._begun[name] = prepared

    def cancelled(self, found: Look) -> dict[str, Prepared]:
        """Those that somebody has cancelled since; whatever is over is forgotten."""
        running = {item.id for item in found.sequences}
        states = {seat.id: seat.state for seat in found.seats.values()}
        over = {name: item for name, item in self._begun.items() if item.sequence not in running}
        self._begun = {name: item for name, item in self._begun.items() if name not in over}
        return {
            name: item
            for name, item in over.items()
            if states.get(item.node, item.hoped) is not item.hoped
        }
