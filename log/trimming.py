"""What may be let go of at the old end of a log; pure."""

from __future__ import annotations

import msgspec

from log.chain import Tip
from metadata.epoch import Epoch

PARTITIONS_MAX = 100_000
"""More than any log has."""


class TrimRefusedError(Exception):
    """Nothing was trimmed, or nothing more. The message is one sentence for people."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a log is cut: `seam` is where its rows begin, 0 where all of them are there."""

    epochs_per_partition: int
    seam: Epoch
    tip: Epoch

    def seams(self, up_to: Epoch) -> list[Epoch]:
        """Where partitions end that hold nothing beyond `up_to`; the newest entry always stays."""
        size = self.epochs_per_partition
        last = min(up_to, self.tip - 1)
        first = (self.seam + 1) // size * size + size - 1
        return [Epoch(end) for end in range(first, last + 1, size)][:PARTITIONS_MAX]


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """One partition to let go of: it ends at `seam`, and this is what vouches for it."""

    seam: Tip
    root: bytes
    archive: str
    anchored_by: tuple[str, ...]
    by: str
