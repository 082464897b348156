"""When to take a snapshot."""

from __future__ import annotations

import msgspec

from log.entry import SealedEntry

ENTRIES_BETWEEN = 10_000
BYTES_BETWEEN = 8 * 1024 * 1024
MARKER = "TriggerSnapshot"


class Cadence(msgspec.Struct, frozen=True):
    """How much has been logged since the last snapshot. An entry may also ask for one."""

    entries: int = 0
    size_bytes: int = 0
    asked: bool = False

    def after(self, sealed: SealedEntry) -> Cadence:
        return Cadence(
            self.entries + 1,
            self.size_bytes + len(sealed.payload),
            self.asked or sealed.kind == MARKER,
        )

    @property
    def due(self) -> bool:
        return self.asked or self.entries >= ENTRIES_BETWEEN or self.size_bytes >= BYTES_BETWEEN
