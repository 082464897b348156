"""Entries out of an answer, believed only when their hashes fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from client.errors import CorruptEntryError
from encoding.entries import Entry, EntryId
from encoding.errors import DecodeError
from encoding.json import decode_transformation
from log.chain import HASH_BYTES, seal
from log.entry import SealedEntry
from metadata.cluster import ClusterId
from metadata.epoch import Epoch, following
from transformations.outcome import Result

Hex = Annotated[str, Meta(pattern=rf"^[0-9a-f]{{{2 * HASH_BYTES}}}$")]


class _Written(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as JSON has it."""

    cluster: ClusterId
    epoch: Epoch
    entry_id: EntryId
    kind: str
    transformation: msgspec.Raw
    result: Result
    digest: Hex
    actor: str | None
    reason: str | None
    committed_at: int
    committed_by: str
    previous_hash: Hex
    hash: Hex


_decoder = msgspec.json.Decoder(_Written)


def verified(
    raw: Iterable[msgspec.Raw], *, after: Epoch, after_hash: bytes | None
) -> Iterator[SealedEntry]:
    """Entries from `after` + 1 on; `after_hash` is None where it is not known.

    The bytes of each entry are made again from what it says and have to hash to what it says,
    so nothing in it, and nothing before it, can have changed on the way.
    """
    for item in raw:
        sealed = _sealed(item, following(after), after_hash)
        after, after_hash = sealed.epoch, sealed.hash
        yield sealed


def _sealed(raw: msgspec.Raw, due: Epoch, previous_hash: bytes | None) -> SealedEntry:
    try:
        written = _decoder.decode(raw)
        entry = _entry(written)
        sealed = seal(entry, bytes.fromhex(written.previous_hash))
    except (ValueError, DecodeError) as error:
        raise CorruptEntryError(f"Epoch {due} cannot be read: {error}") from error
    if sealed.epoch != due:
        raise CorruptEntryError(f"Epoch {due} was due and {sealed.epoch} came.")
    if previous_hash is not None and sealed.previous_hash != previous_hash:
        raise CorruptEntryError(f"Epoch {due} does not continue the entry before it.")
    if sealed.hash.hex() != written.hash or sealed.kind != written.kind:
        raise CorruptEntryError(f"The hash of epoch {due} does not fit what it says.")
    return sealed


def _entry(written: _Written) -> Entry:
    return Entry(
        cluster=written.cluster,
        epoch=written.epoch,
        entry_id=written.entry_id,
        transformation=decode_transformation(written.transformation),
        result=written.result,
        digest=bytes.fromhex(written.digest),
        actor=written.actor,
        reason=written.reason,
        committed_at=written.committed_at,
        committed_by=written.committed_by,
    )
