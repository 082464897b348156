"""Whether what a node has applied is what the log holds; pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from log.chain import NO_HASH, Tip
from metadata.directory import NodeId
from metadata.epoch import EMPTY, Epoch


class Fault(StrEnum):
    AHEAD = "ahead"
    OTHER_HASH = "other_hash"


class Lineage(msgspec.Struct, frozen=True):
    """The tip of the log, and the hashes that it has at some epochs; unknown ones are left out."""

    tip: Tip
    hashes: Mapping[Epoch, bytes]

    def fault(self, epoch: Epoch, found: bytes) -> Fault | None:
        """What is wrong with a log that has not the entry which somebody has applied."""
        if epoch > self.tip.epoch:
            return Fault.AHEAD
        ours = NO_HASH if epoch == EMPTY else self.hashes.get(epoch)
        return Fault.OTHER_HASH if ours is not None and ours != found else None


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody has applied what this log does not hold. No node: this CMS process itself."""

    node: NodeId | None
    epoch: Epoch
    hash: bytes
    tip: Epoch
    fault: Fault

    @property
    def sentence(self) -> str:
        who = "This process" if self.node is None else f"Node {self.node}"
        if self.fault is Fault.AHEAD:
            return (
                f"{who} has applied epoch {self.epoch} and the log ends at {self.tip}: "
                "Postgres has lost entries."
            )
        return (
            f"{who} has another entry at epoch {self.epoch} than the log: Postgres has lost "
            "entries, or that history is another one."
        )

    @property
    def remedy(self) -> str:
        if self.node is None:
            return "Restore the lost entries, or restart this process to go on without them."
        return (
            f"Restore the lost entries, or wipe node {self.node}, or let an admin acknowledge it: "
            "POST /v1/divergences/acknowledge."
        )


def divergence(
    lineage: Lineage, node: NodeId | None, epoch: Epoch, found: bytes
) -> Divergence | None:
    """What there is to say of somebody who has this hash at this epoch."""
    fault = lineage.fault(epoch, found)
    if fault is None:
        return None
    return Divergence(node=node, epoch=epoch, hash=found, tip=lineage.tip.epoch, fault=fault)
