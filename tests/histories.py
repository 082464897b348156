"""Histories in memory, and what an audit looks at in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from audit.history import SnapshotUnusableError
from audit.transition import Transition
from encoding.errors import DecodeError
from encoding.images import decode_image, encode_image
from log.chain import NO_ENTRIES, Tip, tip_of
from log.entry import SealedEntry
from log.replay import NOTHING_APPLIED, Applied, replayed
from metadata.epoch import Epoch
from tests.golden.scribe import Scribe
from tests.simulation.world import World
from transformations.initialize import Initialize

FOUNDING = Initialize(name="simulated", cluster="00000000-0000-0000-0000-000000000001")
"""How every simulated world begins."""


class MemoryHistory:
    """Entries in a list, with snapshots as bytes: what an archive is on a disk."""

    def __init__(
        self, entries: Sequence[SealedEntry], images: dict[Epoch, bytes] | None = None
    ) -> None:
        self._entries = entries
        self.images = images or {}

    @property
    def tip(self) -> Tip:
        return tip_of(self._entries[-1]) if self._entries else NO_ENTRIES

    def entries(self, after: Epoch, up_to: Epoch) -> Iterator[SealedEntry]:
        yield from self._entries[after:up_to]

    def snapshots(self) -> Sequence[Epoch]:
        return sorted(self.images)

    def restored(self, epoch: Epoch) -> Applied:
        if epoch not in self.images:
            raise SnapshotUnusableError(epoch, "there is none")
        try:
            metadata = decode_image(self.images[epoch])
        except DecodeError as error:
            raise SnapshotUnusableError(epoch, str(error)) from error
        sealed = self._entries[epoch - 1]
        if metadata.epoch != epoch or metadata.digest != sealed.entry.digest:
            raise SnapshotUnusableError(epoch, "it is not that of its entry")
        return Applied(metadata, sealed.hash)


def kept(entries: Sequence[SealedEntry], *, every: int = 0) -> MemoryHistory:
    """The entries with a snapshot at every so many epochs, as if read from a store."""
    bare = [_bare(sealed) for sealed in entries]
    images = {
        applied.metadata.epoch: encode_image(applied.metadata)
        for applied in replayed(bare if every else [])
        if applied.metadata.epoch % every == 0
    }
    return MemoryHistory(bare, images)


def _bare(sealed: SealedEntry) -> SealedEntry:
    """Without what the writer knew: readers have to decode."""
    return SealedEntry(
        epoch=sealed.epoch,
        entry_id=sealed.entry_id,
        kind=sealed.kind,
        payload=sealed.payload,
        previous_hash=sealed.previous_hash,
        hash=sealed.hash,
    )


def transitions(entries: Sequence[SealedEntry]) -> list[Transition]:
    """Every step of a history, as an audit looks at it."""
    versions = [NOTHING_APPLIED, *replayed(entries)]
    return [
        Transition(before.metadata, sealed.entry, after.metadata)
        for sealed, (before, after) in zip(entries, pairwise(versions), strict=True)
    ]


def simulated(seed: int, steps: int) -> Scribe:
    """What a random world accepted, written down."""
    world, scribe = World(seed), Scribe()
    scribe.commit(FOUNDING)
    for _ in range(steps):
        before = world.metadata
        action = world.step()
        if action is not None and world.metadata is not before:
            scribe.commit(action.transformation)
    return scribe
