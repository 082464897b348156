"""The hash chain: each entry's hash covers its bytes and all history before it."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from encoding.entries import Entry, encode_entry, peek
from log.entry import SealedEntry
from metadata.epoch import EMPTY, Epoch

HASH_BYTES = 32
NO_HASH = b"\x00" * HASH_BYTES
"""What stands before the first entry."""


class Tip(msgspec.Struct, frozen=True):
    """The last entry of a log: its epoch, and the hash that vouches for all entries up to it."""

    epoch: Epoch
    hash: bytes


NO_ENTRIES = Tip(EMPTY, NO_HASH)


def link(previous_hash: bytes, payload: bytes) -> bytes:
    return sha256(previous_hash + payload).digest()


def seal(entry: Entry, previous_hash: bytes) -> SealedEntry:
    """Encode an entry and chain it to the one before."""
    payload = encode_entry(entry)
    sealed = SealedEntry(
        epoch=entry.epoch,
        entry_id=entry.entry_id,
        kind=entry.kind,
        payload=payload,
        previous_hash=previous_hash,
        hash=link(previous_hash, payload),
    )
    # Whoever seals an entry often goes on to look at it; spare them the decoding.
    sealed.__dict__["entry"] = entry
    return sealed


def seal_payload(payload: bytes, previous_hash: bytes) -> SealedEntry:
    """Chain bytes that came without a store's columns, as Kafka brings them."""
    heading = peek(payload)
    return SealedEntry(
        epoch=heading.epoch,
        entry_id=heading.entry_id,
        kind=heading.kind,
        payload=payload,
        previous_hash=previous_hash,
        hash=link(previous_hash, payload),
    )


def tip_of(sealed: SealedEntry) -> Tip:
    return Tip(sealed.epoch, sealed.hash)
