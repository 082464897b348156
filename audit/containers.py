"""Avro object containers of stored entries and of snapshots, compressed, block by block.

Any Avro library reads them; zstandard, where that was chosen, is an addition to some. They are read
here by hand, because a damaged one has to say which epoch is the first that is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from audit import codecs
from encoding.entries import ENTRY_BYTES_MAX
from encoding.varints import Cursor, DamagedError, encoded_bytes, encoded_long
from log.chain import HASH_BYTES
from log.containers import SCHEMA as ENTRY_SCHEMA
from log.entry import SealedEntry

BLOCK_ENTRIES_MAX = 256
BLOCK_BYTES_MAX = 256 * 1024
"""A block is closed when it has reached one of these; a single entry may be larger."""

INFLATED_BYTES_MAX = BLOCK_BYTES_MAX + ENTRY_BYTES_MAX + 1024
"""No block of entries is larger."""

_MAGIC = b"Obj\x01"
_SYNC = bytes.fromhex("9d1f5e0c72ab43d8b6e1804f2c97a35b")

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
    schema: Mapping[str, object],
    blocks: Sequence[Sequence[bytes]],
    notes: Mapping[str, bytes],
    codec: str = codecs.DEFAULT,
) -> bytes:
    """Blocks of encoded items; `notes` go into the header's metadata."""
    header = {
        "avro.codec": codec.encode(),
        "avro.schema": msgspec.json.encode(schema),
        **{f"ringlog.{name}": value for name, value in notes.items()},
    }
    pairs = (encoded_bytes(name.encode()) + encoded_bytes(value) for name, value in header.items())
    parts = [_MAGIC, encoded_long(len(header)), *pairs, encoded_long(0), _SYNC]
    for block in blocks:
        data = codecs.compressed(b"".join(block), codec)
        parts += [encoded_long(len(block)), encoded_bytes(data), _SYNC]
    return b"".join(parts)


def entry_container(
    entries: Sequence[SealedEntry], notes: Mapping[str, bytes], codec: str = codecs.DEFAULT
) -> bytes:
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
    return container(ENTRY_SCHEMA, blocks, notes, codec)


class Container:
    """A container's header, and its blocks as they are asked for."""

    def __init__(
        self,
        cursor: Cursor,
        notes: Mapping[str, bytes],
        expand: codecs.Expand,
        *,
        inflated_bytes_max: int,
    ) -> None:
        self._cursor = cursor
        self.notes = notes
        self._expand = expand
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
        # A second one is not even unpacked: each may be as large as an image can be.
        count, data = self._block()
        if count != 1 or not self._cursor.is_at_end:
            raise DamagedError("it does not hold one snapshot and nothing else")
        (found,) = self._unpacked(count, data)
        return found

    def _items(self) -> Iterator[Stored]:
        while not self._cursor.is_at_end:
            yield from self._unpacked(*self._block())

    def _unpacked(self, count: int, data: bytes) -> Iterator[Stored]:
        block = Cursor(self._expand(data, self._inflated_bytes_max))
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
    codec = notes.pop("avro.codec", b"").decode("utf-8", "replace")
    if codec not in codecs.EXPANDING:
        raise DamagedError("it is compressed in a way that this release does not know")
    if notes.pop("avro.schema", None) != msgspec.json.encode(schema):
        raise DamagedError("it is written with a schema that this release does not know")
    plain = {name.removeprefix("ringlog."): note for name, note in notes.items()}
    expand = codecs.EXPANDING[codec]
    return Container(cursor, plain, expand, inflated_bytes_max=inflated_bytes_max)
