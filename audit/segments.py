"""Segments of an archive: entries in a file with the schemas they were written with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import msgspec

from audit.archive import Segment, described, segment_path
from audit.codecs import DEFAULT
from audit.containers import Container, Stored, entry_container, opened
from audit.errors import ArchiveError
from encoding.avro import HEADER_BYTES, MARKER
from encoding.entries import ENTRY_BYTES_MAX
from encoding.registry import Document, documents
from encoding.varints import DamagedError
from log.chain import Tip, link
from log.entry import SealedEntry
from metadata.epoch import Epoch, following

SEGMENT_ENTRIES_MAX = 8192
SEGMENT_BYTES_MAX = 8 * 1024 * 1024
"""A segment is full when its payloads have reached one of these."""

SEGMENT_FILE_BYTES_MAX = 2 * (SEGMENT_BYTES_MAX + ENTRY_BYTES_MAX)
"""More than what hashes, schemas and a last large entry can add."""

SCHEMAS = "schemas"
"""The note that holds the writers' schemas by fingerprint."""


def encode_segment(entries: Sequence[SealedEntry], codec: str = DEFAULT) -> tuple[Segment, bytes]:
    """A file that needs nothing beside it to be read."""
    first, last = entries[0], entries[-1]
    data = entry_container(entries, schema_notes(sealed.payload for sealed in entries), codec)
    file = described(segment_path(first.epoch, last.epoch), data)
    segment = Segment(
        path=file.path,
        sha256=file.sha256,
        size_bytes=file.size_bytes,
        first=first.epoch,
        last=last.epoch,
        payload_bytes=sum(len(sealed.payload) for sealed in entries),
        previous_hash=first.previous_hash.hex(),
        hash=last.hash.hex(),
    )
    return segment, data


def is_full(entries: int, payload_bytes: int) -> bool:
    """Whether a segment with so much in it is closed, and never written again."""
    return entries >= SEGMENT_ENTRIES_MAX or payload_bytes >= SEGMENT_BYTES_MAX


def chained(data: bytes, segment: Segment, *, after: Epoch) -> Iterator[Stored]:
    """The stored entries behind `after`, each seen to follow the one before it.

    Whole blocks before them are passed over. An `ArchiveError` names the first epoch that is
    not as it must be.
    """
    due = Tip(Epoch(segment.first - 1), bytes.fromhex(segment.previous_hash))
    try:
        segment_file = opened(data)
        known = _embedded(segment_file)
        passed, stored = segment_file.entries_from(after - due.epoch)
        if passed:
            due = Tip(Epoch(due.epoch + passed), b"")
        for item in stored:
            fault = _fault_of(item, due, known)
            if fault is not None:
                raise ArchiveError(segment.path, fault, epoch=following(due.epoch))
            due = Tip(Epoch(item[0]), item[2])
            if due.epoch > after:
                yield item
    except DamagedError as error:
        epoch = Epoch(min(due.epoch + 1, segment.last))
        raise ArchiveError(segment.path, str(error), epoch=epoch) from error
    if due != Tip(Epoch(segment.last), bytes.fromhex(segment.hash)):
        raise ArchiveError(
            segment.path,
            f"it ends at epoch {due.epoch}, or with another hash than the manifest says",
            epoch=Epoch(min(due.epoch + 1, segment.last)),
        )


def schema_notes(messages: Iterator[bytes]) -> dict[str, bytes]:
    """The schemas of these messages; one that this release does not know cannot be archived."""
    found = {message[:HEADER_BYTES] for message in messages}
    schemas = {}
    for header in found:
        fingerprint = header.removeprefix(MARKER).hex()
        if fingerprint not in known_schemas():
            raise ArchiveError("the log", unknown_schema(fingerprint))
        schemas[fingerprint] = known_schemas()[fingerprint]
    return {SCHEMAS: msgspec.json.encode(schemas, order="sorted")}


def embedded_schemas(note: bytes | None) -> frozenset[bytes]:
    """The headers of messages that the schemas in a file's note describe."""
    try:
        schemas = msgspec.json.decode(note or b"", type=dict[str, Document])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedError(f"the schemas in it cannot be read: {error}") from error
    for fingerprint, document in schemas.items():
        if fingerprint not in known_schemas():
            raise DamagedError(unknown_schema(fingerprint))
        if document != known_schemas()[fingerprint]:
            raise DamagedError(
                f"the schema {fingerprint} in it is not what entries were written by"
            )
    return frozenset(MARKER + bytes.fromhex(fingerprint) for fingerprint in schemas)


def unknown_schema(fingerprint: str) -> str:
    return (
        f"no schema with fingerprint {fingerprint[:16]} is known to this release: use a newer one"
    )


@cache
def known_schemas() -> dict[str, Document]:
    return documents()


def _embedded(segment_file: Container) -> frozenset[bytes]:
    return embedded_schemas(segment_file.notes.get(SCHEMAS))


def _fault_of(item: Stored, due: Tip, known: frozenset[bytes]) -> str | None:
    epoch, previous_hash, entry_hash, payload = item
    if epoch != due.epoch + 1:
        return f"the entry of epoch {epoch} is in its place"
    if due.hash and previous_hash != due.hash:
        return "its previous hash is not the hash of the entry before it"
    if link(previous_hash, payload) != entry_hash:
        return "its hash does not fit its payload: one of them was changed"
    if payload[:HEADER_BYTES] not in known:
        return f"its schema {payload[2:HEADER_BYTES].hex()} is not in the file"
    return None
