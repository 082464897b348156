"""Stored entries out of an Avro object container, as `/v1/log` answers them.

The bytes are those that the log holds, so entries of any release, past or to come, hash to what
their successors say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from client.errors import CorruptEntryError
from encoding.errors import DecodeError
from encoding.varints import Cursor, DamagedError
from log.chain import HASH_BYTES, seal_payload
from log.entry import SealedEntry
from metadata.epoch import Epoch, following

FIELDS = ("epoch", "previous_hash", "hash", "payload")

_MAGIC = b"Obj\x01"
_NOTE = b"ringlog."
_SYNC_BYTES = 16


def notes_in(body: bytes) -> Mapping[str, str]:
    """What the answer says beside the entries, such as the tip."""
    named = {
        name.removeprefix(_NOTE): value
        for name, value in _opened(Cursor(body)).items()
        if name.startswith(_NOTE)
    }
    try:
        return {name.decode(): value.decode() for name, value in named.items()}
    except UnicodeDecodeError as error:
        raise CorruptEntryError("The entries came with notes that are no text.") from error


def verified_container(
    body: bytes, *, after: Epoch, after_hash: bytes | None
) -> Iterator[SealedEntry]:
    """Entries from `after` + 1 on; `after_hash` is None where it is not known."""
    for epoch, previous_hash, entry_hash, payload in _records(Cursor(body)):
        due = following(after)
        try:
            sealed = seal_payload(payload, previous_hash)
        except DecodeError as error:
            raise CorruptEntryError(f"Epoch {due} cannot be read: {error}") from error
        if not epoch == sealed.epoch == due:
            raise CorruptEntryError(f"Epoch {due} was due and {sealed.epoch} came.")
        if after_hash is not None and previous_hash != after_hash:
            raise CorruptEntryError(f"Epoch {due} does not continue the entry before it.")
        if sealed.hash != entry_hash:
            raise CorruptEntryError(f"The hash of epoch {due} does not fit what it says.")
        after, after_hash = sealed.epoch, sealed.hash
        yield sealed


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except DamagedError as error:
        raise CorruptEntryError(f"The entries cannot be read: {error}.") from error


def _records(cursor: Cursor) -> Iterator[tuple[int, bytes, bytes, bytes]]:
    _opened(cursor)
    with _told():
        sync = cursor.take(_SYNC_BYTES)
        while not cursor.is_at_end:
            count, _ = cursor.long(), cursor.long()
            for _ in range(count):
                yield (
                    cursor.long(),
                    cursor.take(HASH_BYTES),
                    cursor.take(HASH_BYTES),
                    cursor.bytes(),
                )
            if cursor.take(_SYNC_BYTES) != sync:
                raise CorruptEntryError("The entries came out of step with their container.")


def _opened(cursor: Cursor) -> dict[bytes, bytes]:
    """Only the one schema is read, and only as it is: anything else is another release's."""
    with _told():
        if cursor.take(len(_MAGIC)) != _MAGIC:
            raise CorruptEntryError("The entries did not come as an Avro container.")
        notes: dict[bytes, bytes] = {}
        while (count := cursor.long()) != 0:
            if count < 0:
                # A negative count is followed by the block's size.
                count, _ = -count, cursor.long()
            notes |= {cursor.bytes(): cursor.bytes() for _ in range(count)}
    try:
        schema = msgspec.json.decode(notes.get(b"avro.schema", b""), type=_Schema)
    except ValueError as error:
        raise CorruptEntryError(f"The entries came without a schema: {error}.") from error
    if tuple(field.name for field in schema.fields) != FIELDS:
        raise CorruptEntryError("The entries came in a form that this release does not know.")
    if notes.get(b"avro.codec", b"null") != b"null":
        raise CorruptEntryError("The entries came compressed in a way nobody asked for.")
    return notes


class _Field(msgspec.Struct, frozen=True):
    name: str


class _Schema(msgspec.Struct, frozen=True):
    fields: tuple[_Field, ...]
