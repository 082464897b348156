"""Stored entries in an Avro object container file, which any Avro library reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from encoding.varints import encoded_bytes, encoded_long
from log.entry import SealedEntry

MEDIA_TYPE = "application/avro"

_HASH = {"type": "fixed", "name": "Sha256", "size": 32}
SCHEMA = {
    "type": "record",
    "name": "StoredEntry",
    "namespace": "ringlog",
    "doc": "An entry as it is stored; payload is an Avro single-object message.",
    "fields": [
        {"name": "epoch", "type": "long"},
        {"name": "previous_hash", "type": _HASH},
        {"name": "hash", "type": "Sha256"},
        {"name": "payload", "type": "bytes"},
    ],
}

_MAGIC = b"Obj\x01"
# A marker must only be unlikely in the data; a constant one makes equal answers equal bytes.
_SYNC = bytes.fromhex("9d1f5e0c72ab43d8b6e1804f2c97a35b")


def container(entries: Sequence[SealedEntry], notes: Mapping[str, str]) -> bytes:
    """All entries in one block; `notes` go into the header's metadata."""
    header = {
        "avro.schema": msgspec.json.encode(SCHEMA),
        "avro.codec": b"null",
        **{f"ringlog.{name}": value.encode() for name, value in notes.items()},
    }
    return b"".join((_MAGIC, _map(header), _SYNC, *_block(entries)))


def _block(entries: Sequence[SealedEntry]) -> Iterable[bytes]:
    if not entries:
        return ()
    records = b"".join(
        part
        for sealed in entries
        for part in (
            encoded_long(sealed.epoch),
            sealed.previous_hash,
            sealed.hash,
            encoded_long(len(sealed.payload)),
            sealed.payload,
        )
    )
    return (encoded_long(len(entries)), encoded_long(len(records)), records, _SYNC)


def _map(items: Mapping[str, bytes]) -> bytes:
    pairs = ((name.encode(), value) for name, value in items.items())
    content = b"".join(encoded_bytes(name) + encoded_bytes(value) for name, value in pairs)
    return encoded_long(len(items)) + content + encoded_long(0)
