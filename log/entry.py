"""Entries as a log holds them: bytes, and their place in the chain."""

from __future__ import annotations

from functools import cached_property

import msgspec

from encoding.entries import Entry, EntryId, decode_entry, proposal_digest
from metadata.epoch import Epoch


class SealedEntry(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An entry's bytes, chained to the entry before it.

    `payload` is what counts. `epoch`, `entry_id` and `kind` repeat what it says, so that a store
    can index entries without decoding them; whoever replays compares them.
    """

    epoch: Epoch
    entry_id: EntryId
    kind: str
    payload: bytes
    previous_hash: bytes
    hash: bytes

    @cached_property
    def entry(self) -> Entry:
        """What the payload says; decoded once, when somebody first asks."""
        return decode_entry(self.payload)

    @cached_property
    def proposal(self) -> bytes:
        """The digest of what was proposed; asked for when deciding and again when appending."""
        return proposal_digest(self.entry.transformation, self.entry_id)
