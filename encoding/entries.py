"""Entries as bytes: what the log stores, what Kafka carries, what an archive holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from typing import Annotated, NewType
from uuid import UUID

import msgspec
from msgspec import Meta

from encoding import avro
from encoding.avro import Content
from encoding.errors import DecodeError
from encoding.messages import MessageReader
from encoding.registry import Written, newest, released
from encoding.upcasts import UPCASTS, Upcast
from metadata.cluster import ClusterId
from metadata.epoch import Epoch
from metadata.limits import ID_MAX, TEXT_MAX, Label
from transformations.kinds import KINDS, AnyTransformation, kind_of
from transformations.outcome import Result

ENTRY_BYTES_MAX = 16 * 1024 * 1024

EntryId = NewType("EntryId", UUID)
"""Chosen by the client; makes a retry harmless."""

Actor = Label
"""Who proposes; checked where a proposal comes in, not each time an entry is read."""

# Postgres has no place for the zero character in a text.
Why = Annotated[str, Meta(pattern=rf"^[^\x00]{{1,{TEXT_MAX}}}$(?!\n)")]
"""The proposer's reason, checked in the same place."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One committed transformation, with what became of it and who committed it when.

    `digest` is that of the metadata it led to. `committed_at` is for people: microseconds since
    1970 by the clock of the committer. No decision depends on it.
    """

    cluster: ClusterId
    epoch: Annotated[Epoch, Meta(ge=1, le=ID_MAX)]
    entry_id: EntryId
    transformation: AnyTransformation
    result: Result
    digest: bytes
    actor: str | None
    reason: str | None
    committed_at: int
    committed_by: str

    @property
    def kind(self) -> str:
        return kind_of(self.transformation)


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    """The first fields of an entry, for those who need not know the rest."""

    kind: str
    cluster: ClusterId
    epoch: Annotated[Epoch, Meta(ge=1, le=ID_MAX)]
    entry_id: EntryId


class EncodeError(ValueError):
    """The entry cannot be stored: it is too large, or holds what Avro cannot express."""


def encode_entry(entry: Entry) -> bytes:
    content = msgspec.to_builtins(entry, str_keys=True, builtin_types=(bytes, UUID))
    content["entry_id"] = entry.entry_id.bytes
    try:
        payload = avro.write(newest(entry.kind), content)
    except (OverflowError, UnicodeEncodeError) as error:
        raise EncodeError(f"{entry.kind} cannot be encoded: {error}.") from error
    if len(payload) > ENTRY_BYTES_MAX:
        raise EncodeError(f"{len(payload)} bytes are more than the {ENTRY_BYTES_MAX} allowed.")
    return payload


def proposal_digest(transformation: AnyTransformation, entry_id: EntryId) -> bytes:
    """Tells one proposal from another, so that an entry id used for a second one is noticed.

    A founding entry's cluster is its entry id, whether the client said so or left it out.
    """
    plain = msgspec.to_builtins(transformation, str_keys=True)
    if plain.get("cluster") == str(entry_id):
        del plain["cluster"]
    return sha256(msgspec.json.encode(plain, order="sorted")).digest()


def decode_entry(payload: bytes) -> Entry:
    """The inverse of `encode_entry`, also for what older releases wrote."""
    return entry_of(*_reader().read(payload))


def entry_of(kind: str, content: Content) -> Entry:
    content["transformation"]["kind"] = kind
    try:
        return msgspec.convert(content, Entry, str_keys=True)
    except ValueError as error:
        raise DecodeError(f"{kind} is not valid: {error}.") from error


def peek(payload: bytes) -> Heading:
    """The heading alone, at a fraction of the cost. The rest may still be damaged."""
    kind, content = _reader().read_heading(payload)
    try:
        return msgspec.convert({"kind": kind, **content}, Heading)
    except ValueError as error:
        raise DecodeError(f"The entry's heading is not valid: {error}.") from error


def reader(
    schemas: Iterable[Written], upcasts: Mapping[tuple[str, int], Upcast] = UPCASTS
) -> MessageReader:
    """Reads entries that were written with any of these schemas."""
    return MessageReader(
        [item for item in schemas if item.name in KINDS],
        subject="transformation",
        size_bytes_max=ENTRY_BYTES_MAX,
        upcasts=upcasts,
    )


@cache
def _reader() -> MessageReader:
    return reader(released())
