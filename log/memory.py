"""A log in a list, for tests and simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from encoding.entries import EntryId
from log.chain import NO_ENTRIES, Tip, link, tip_of
from log.entry import SealedEntry
from log.store import (
    AlreadyDecided,
    Appended,
    AppendResult,
    Decision,
    Refusal,
    TipMoved,
    committed,
)
from metadata.epoch import Epoch, following


class MemoryLog:
    """Does nothing between looking and changing, so its answers are those of one statement."""

    def __init__(self) -> None:
        self._entries: list[SealedEntry] = []
        self._decisions: dict[EntryId, Decision] = {}

    async def append(
        self,
        entries: Sequence[SealedEntry],
        *,
        onto: Tip,
        refusals: Sequence[Refusal] = (),
    ) -> AppendResult:
        claims: list[Decision] = [*map(committed, entries), *refusals]
        assert len({claim.entry_id for claim in claims}) == len(claims), "an entry id comes twice"
        assert_chained(entries, onto)
        decided = await self.decisions([claim.entry_id for claim in claims])
        if decided:
            return AlreadyDecided(decided)
        if onto != await self.tip():
            return TipMoved(await self.tip())

        self._entries.extend(entries)
        self._decisions.update((claim.entry_id, claim) for claim in claims)
        return Appended(await self.tip())

    async def decisions(self, entry_ids: Sequence[EntryId]) -> Mapping[EntryId, Decision]:
        known = self._decisions
        return {entry_id: known[entry_id] for entry_id in entry_ids if entry_id in known}

    async def read_after(
        self, epoch: Epoch, *, entries_max: int, bytes_max: int
    ) -> Sequence[SealedEntry]:
        found: list[SealedEntry] = []
        size_bytes = 0
        for sealed in islice(self._entries, epoch, epoch + entries_max):
            size_bytes += len(sealed.payload)
            if found and size_bytes > bytes_max:
                break
            found.append(sealed)
        return found

    async def hash_at(self, epoch: Epoch) -> bytes | None:
        found = self._entries[max(0, epoch - 1) : epoch]
        return found[0].hash if found else None

    async def hashes_after(self, epoch: Epoch, *, entries_max: int) -> Sequence[bytes]:
        return [sealed.hash for sealed in islice(self._entries, epoch, epoch + entries_max)]

    async def tip(self) -> Tip:
        return tip_of(self._entries[-1]) if self._entries else NO_ENTRIES


def assert_chained(entries: Sequence[SealedEntry], onto: Tip) -> None:
    """Assert that the entries continue the log behind `onto`."""
    for sealed in entries:
        assert sealed.epoch == following(onto.epoch), (sealed.epoch, onto.epoch)
        assert sealed.previous_hash == onto.hash, sealed.epoch
        assert sealed.hash == link(onto.hash, sealed.payload), sealed.epoch
        onto = tip_of(sealed)
