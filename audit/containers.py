"""Avro object containers of stored entries and of snapshots, compressed, block by block.

Any Avro library reads them. They are read here by hand, because a damaged one has to say which
epoch is the first that is lost.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from audit.varints import Cursor, DamagedError, encoded_bytes, encoded_long
from encoding.entries import ENTRY_BYTES_MAX
from log.chain import HASH_BYTES
from log.containers import SCHEMA as ENTRY_SCHEMA
from log.entry import SealedEntry

BLOCK_ENTRIES_MAX = 256
BLOCK_BYTES_MAX = 256 * 1024
"""A block is closed when it has reached one of these; a single entry may be larger."""

INFLATED_BYTES_MAX = BLOCK_BYTES_MAX + ENTRY_BYTES_MAX + 1024
"""No block of entries is larger."""

COMPRESSION_LEVEL = 1
"""Hashes do not shrink and the rest shrinks at any level; higher ones only take longer."""

_MAGIC = b"Obj\x01"
_SYNC = bytes.fromhex("9d1f5e0c72ab43d8b6e1804f2c97a35b")
_DECODE_CHUNK_BYTES = 64

Stored = tuple[int, bytes, bytes, bytes]
"""Epoch, previous hash, hash and payload, as they stand in the file."""

SNAPSHOT_SCHEMA = {
    "type": "record",
    "name": "StoredSnapshot",
    "namespace": "ringlog",
    "doc": "The metadata at an epoch; image is an Avro single-object message.",
    "fields": [
        {"name": "epoch", "type": "long"},
        {"name": "digest", "type": {"type": "fixed", "name": "Sha256", "size": 32}},
        {"name": "hash", "type": "Sha256"},
        {"name": "image", "type": "bytes"},
    ],
}


def container(
    schema: Mapping[str, object], blocks: Sequence[Sequence[bytes]], notes: Mapping[str, bytes]
) -> bytes:
    """Blocks of encoded items; `notes` go into the header's metadata."""
    header = {
        "avro.codec": b"deflate",
        "avro.schema": msgspec.json.encode(schema),
        **{f"ringlog.{name}": value for name, value in notes.items()},
    }
    pairs = (encoded_bytes(name.encode()) + encoded_bytes(value) for name, value in header.items())
    parts = [_MAGIC, encoded_long(len(header)), *pairs, encoded_long(0), _SYNC]
    for block in blocks:
        data = _deflated(b"".join(block))
        parts += [encoded_long(len(block)), encoded_bytes(data), _SYNC]
    return b"".join(parts)


def entry_container(entries: Sequence[SealedEntry], notes: Mapping[str, bytes]) -> bytes:
    blocks: list[list[bytes]] = []
    size_bytes = BLOCK_BYTES_MAX
    for sealed in entries:
        if size_bytes >= BLOCK_BYTES_MAX or len(blocks[-1]) >= BLOCK_ENTRIES_MAX:
            blocks.append([])
            size_bytes = 0
        item = b"".join(
            (
                encoded_long(sealed.epoch),
                sealed.previous_hash,
                sealed.hash,
                encoded_bytes(sealed.payload),
            )
        )
        blocks[-1].append(item)
        size_bytes += len(item)
    return container(ENTRY_SCHEMA, blocks, notes)


class Container:
    """A container's header, and its blocks as they are asked for."""

    def __init__(
        self, cursor: Cursor, notes: Mapping[str, bytes], *, inflated_bytes_max: int
    ) -> None:
        self._cursor = cursor
        self.notes = notes
        self._inflated_bytes_max = inflated_bytes_max

    def entries_from(self, skipped_max: int) -> tuple[int, Iterator[Stored]]:
        """Whole blocks of at most so many entries are passed over; how many, and the rest.

        The rest is every entry up to the first byte that is wrong, then a `DamagedError`.
        """
        passed = 0
        while not self._cursor.is_at_end:
            before = self._cursor.at
            count, _ = self._block()
            if passed + count > skipped_max:
                self._cursor.at = before
                break
            passed += count
        return passed, self._items()

    def snapshot(self) -> Stored:
        """Epoch, digest, hash and image of the one snapshot in the file."""
        found = list(self._items())
        if len(found) != 1:
            raise DamagedError(f"it holds {len(found)} snapshots and not one")
        return found[0]

    def _items(self) -> Iterator[Stored]:
        while not self._cursor.is_at_end:
            count, data = self._block()
            block = Cursor(_inflated(data, self._inflated_bytes_max))
            for _ in range(count):
                yield block.long(), block.take(HASH_BYTES), block.take(HASH_BYTES), block.bytes()
            block.expect_end()

    def _block(self) -> tuple[int, bytes]:
        """How many items there are in the next block, and their bytes as they are compressed."""
        count = self._cursor.long()
        if count <= 0:
            raise DamagedError(f"a block has {count} items")
        data = self._cursor.bytes()
        if self._cursor.take(len(_SYNC)) != _SYNC:
            raise DamagedError("the mark at the end of a block is not there")
        return count, data


def opened(
    data: bytes,
    schema: Mapping[str, object] = ENTRY_SCHEMA,
    *,
    inflated_bytes_max: int = INFLATED_BYTES_MAX,
) -> Container:
    """A container of this one schema, as written here: anything else is another release's."""
    cursor = Cursor(data)
    if cursor.take(len(_MAGIC)) != _MAGIC:
        raise DamagedError("it is not an Avro object container")
    notes: dict[str, bytes] = {}
    for _ in range(cursor.long()):
        name = cursor.bytes().decode("utf-8", "replace")
        notes[name] = cursor.bytes()
    if cursor.long() != 0 or cursor.take(len(_SYNC)) != _SYNC:
        raise DamagedError("its header is not as an export writes it")
    if notes.pop("avro.codec", None) != b"deflate":
        raise DamagedError("it is compressed in a way that this release does not know")
    if notes.pop("avro.schema", None) != msgspec.json.encode(schema):
        raise DamagedError("it is written with a schema that this release does not know")
    plain = {name.removeprefix("ringlog."): note for name, note in notes.items()}
    return Container(cursor, plain, inflated_bytes_max=inflated_bytes_max)


def _deflated(data: bytes) -> bytes:
    compressor = zlib.compressobj(COMPRESSION_LEVEL, wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


def _inflated(data: bytes, bytes_max: int) -> bytes:
    """What the block holds; of a damaged one as much as can still be read."""
    inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        found = inflater.decompress(data, bytes_max)
    except zlib.error:
        return _readable_part(data, bytes_max)
    # One byte too many lets a reader come upon the fault behind the last item that is whole.
    return found if inflater.eof and not inflater.unused_data else found + b"\x00"


def _readable_part(data: bytes, bytes_max: int) -> bytes:
    """In small steps, because the library keeps back what it read before it found the fault."""
    inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    found = bytearray()
    for start in range(0, len(data), _DECODE_CHUNK_BYTES):
        try:
            found += inflater.decompress(data[start : start + _DECODE_CHUNK_BYTES])
        except zlib.error:
            break
        if len(found) > bytes_max:
            break
    return bytes(found)
