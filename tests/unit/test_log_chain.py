"""Sealing entries into a chain."""

from __future__ import annotations

from hashlib import sha256

from encoding.entries import encode_entry
from log.chain import NO_ENTRIES, NO_HASH, Tip, link, seal, seal_payload, tip_of
from tests.golden.history import history

ENTRIES = history().entries


def test_the_hash_covers_the_one_before_and_the_payload():
    first, second = ENTRIES[:2]

    assert first.previous_hash == bytes(32)
    assert first.hash == sha256(bytes(32) + first.payload).digest()
    assert second.previous_hash == first.hash
    assert second.hash == sha256(first.hash + second.payload).digest()


def test_a_sealed_entry_repeats_what_its_payload_says():
    for sealed in ENTRIES:
        entry = sealed.entry

        assert sealed.payload == encode_entry(entry)
        assert (sealed.epoch, sealed.entry_id, sealed.kind) == (
            entry.epoch,
            entry.entry_id,
            entry.kind,
        )
        assert tip_of(sealed) == Tip(entry.epoch, sealed.hash)


def test_bytes_alone_are_sealed_to_the_same():
    """What Kafka brings has no columns beside the payload."""
    for sealed in ENTRIES:
        again = seal_payload(sealed.payload, sealed.previous_hash)

        assert again == sealed
        assert again.entry == sealed.entry


def test_the_same_entry_elsewhere_has_another_hash():
    entry = ENTRIES[5].entry

    assert seal(entry, NO_HASH).payload == ENTRIES[5].payload
    assert seal(entry, NO_HASH).hash != ENTRIES[5].hash
    assert link(NO_HASH, b"") != NO_HASH
    assert NO_ENTRIES.hash == NO_HASH
