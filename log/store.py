"""The port to whatever keeps the log, with its answers as values.

What a store cannot say is an exception: `StoreUnavailableError`, or `TrimmedError` where it no
longer keeps what is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from encoding.entries import EntryId
from log.chain import Tip
from log.entry import SealedEntry
from metadata.epoch import Epoch
from transformations.outcome import Rejected, Result


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A proposal that was refused for good, so that its retry gets the same answer.

    `epoch` is the newest one at which it was judged. `proposal` is a digest of what was proposed:
    an entry id that comes again with something else is a mistake, not a retry.
    """

    entry_id: EntryId
    epoch: Epoch
    proposal: bytes
    rejected: Rejected


class Committed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A proposal that is in the log, and what its proposer is told, now and on every retry."""

    entry_id: EntryId
    epoch: Epoch
    hash: bytes
    result: Result
    proposal: bytes


Decision = Committed | Refusal
"""What became of an entry id; it never changes."""


def committed(sealed: SealedEntry) -> Committed:
    """What is to be told of an entry once it is in the log."""
    return Committed(
        entry_id=sealed.entry_id,
        epoch=sealed.epoch,
        hash=sealed.hash,
        result=sealed.entry.result,
        proposal=sealed.proposal,
    )


class StoreUnavailableError(Exception):
    """The store gave no answer. An append may or may not have happened: ask by entry id."""

    retriable = True


class TrimmedError(Exception):
    """Entries up to `seam` were let go of; `archive` has them. One sentence for people."""

    retriable = False

    def __init__(self, seam: Epoch, archive: str, because: str = "") -> None:
        super().__init__(
            f"Entries up to epoch {seam} are no longer kept here; look in the archive {archive}"
            f"{because}, or begin with a snapshot (snapshot=true)."
        )
        self.seam = seam
        self.archive = archive


class Appended(msgspec.Struct, frozen=True):
    """All entries are in the log and all refusals are on record."""

    tip: Tip


class TipMoved(msgspec.Struct, frozen=True):
    """Nothing was done: the log does not end where it was thought to."""

    tip: Tip


class AlreadyDecided(msgspec.Struct, frozen=True):
    """Nothing was done: these entry ids were appended or refused before."""

    decisions: Mapping[EntryId, Decision]


AppendResult = Appended | TipMoved | AlreadyDecided


class LogStore(Protocol):
    """An append-only list of entries, and one index of decided entry ids over both outcomes."""

    async def append(
        self,
        entries: Sequence[SealedEntry],
        *,
        onto: Tip,
        refusals: Sequence[Refusal] = (),
    ) -> AppendResult:
        """Append the entries and record the refusals, all of them or nothing.

        `entries` begin right behind `onto` and are chained. Refusals are recorded only while
        `onto` is still the tip, because a refusal must hold at the newest epoch; they may come
        alone. Where ids are decided *and* the tip has moved the answer is `AlreadyDecided`,
        which is final.
        """
        ...

    async def decisions(self, entry_ids: Sequence[EntryId]) -> Mapping[EntryId, Decision]:
        """What became of these ids; the undecided are left out."""
        ...

    async def read_after(
        self, epoch: Epoch, *, entries_max: int, bytes_max: int
    ) -> Sequence[SealedEntry]:
        """Entries from `epoch` + 1 on, without a gap.

        As many as their payloads fit in `bytes_max`, but never none where there is one, or a
        reader could not get past a large entry. Raises `TrimmedError` where the first of them is
        no longer kept.
        """
        ...

    async def hash_at(self, epoch: Epoch) -> bytes | None:
        """The hash of an entry, also of one that is no longer kept; None where there is none."""
        ...

    async def hashes_after(self, epoch: Epoch, *, entries_max: int) -> Sequence[bytes]:
        """The hashes of entries from `epoch` + 1 on without a gap, also of trimmed ones."""
        ...

    async def tip(self) -> Tip:
        """The newest entry at some moment after the call."""
        ...
