"""An entry as a message of the topic: the contract with followers in any language.

The key is the epoch (decimal), the value the entry's stored bytes, and three headers repeat what
routes and filters ask for: `epoch` (decimal), `hash` and `fingerprint` (hex). Keys and headers are
ASCII. The place of a message in its topic means nothing: the same entry may come twice, late, out
of order, or never.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from encoding import avro
from encoding.entries import ENTRY_BYTES_MAX
from log.entry import SealedEntry
from metadata.epoch import Epoch

TOPIC = "ringlog.log.v1"
PARTITION = 0

OVERHEAD_BYTES_MAX = 1024
"""More than key, headers and framing ever take."""
MESSAGE_BYTES_MAX = ENTRY_BYTES_MAX + OVERHEAD_BYTES_MAX


class Message(msgspec.Struct, frozen=True):
    """As it came, or as it will be sent. What came is not verified in any way."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


Receive = Callable[[Message], None]


def message_of(sealed: SealedEntry) -> Message:
    return as_message(sealed.epoch, sealed.payload, sealed.hash)


def as_message(epoch: Epoch, payload: bytes, entry_hash: bytes) -> Message:
    number = str(epoch).encode()
    fingerprint = payload[len(avro.MARKER) : avro.HEADER_BYTES]
    headers = (
        ("epoch", number),
        ("hash", entry_hash.hex().encode()),
        ("fingerprint", fingerprint.hex().encode()),
    )
    return Message(number, payload, headers)
