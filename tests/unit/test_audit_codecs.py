"""Blocks of archives: what is compressed comes back, and of a damaged block what can be read."""

from __future__ import annotations

import random
from hashlib import sha256
from io import BytesIO
from typing import Any

import fastavro
import pytest

from audit import codecs
from audit.archive import SnapshotFile, described, read_manifest, snapshot_path
from audit.containers import (
    INFLATED_BYTES_MAX,
    SNAPSHOT_SCHEMA,
    container,
    entry_container,
    opened,
)
from audit.errors import ArchiveError
from audit.exporting import begin_export
from audit.folder import folder
from audit.reading import open_archive
from audit.stored_snapshots import read_snapshot
from audit.verify import Given, Verified, verify
from encoding.varints import DamagedError, encoded_bytes, encoded_long
from metadata.epoch import EMPTY, Epoch
from tests.archives import KEY, entries_of

ENTRIES = entries_of(300)
TEXT = b"".join(sha256(bytes([number])).digest() + b"and the same again" for number in range(200))
each_codec = pytest.mark.parametrize("codec", codecs.EXPANDING)


@each_codec
def test_what_is_compressed_comes_back(codec):
    packed = codecs.compressed(TEXT, codec)
    expand = codecs.EXPANDING[codec]

    assert len(packed) < len(TEXT)
    assert expand(packed, INFLATED_BYTES_MAX) == TEXT
    assert expand(packed + b"hidden", INFLATED_BYTES_MAX) == TEXT + b"\x00"


@each_codec
def test_a_damaged_block_is_never_taken_for_a_whole_one(codec):
    packed, chance = codecs.compressed(TEXT, codec), random.Random(1)
    for _ in range(300):
        data = bytearray(packed[: chance.randrange(len(packed))] or b"x")
        if chance.random() < 0.5:
            data = bytearray(packed)
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        assert len(codecs.EXPANDING[codec](bytes(data), INFLATED_BYTES_MAX)) < 10 * len(TEXT)
    assert codecs.EXPANDING[codec](packed[:-1], INFLATED_BYTES_MAX) != TEXT


@each_codec
def test_a_block_that_swells_is_cut_off(codec):
    """A small file must not fill the memory of whoever audits it."""
    bomb = codecs.compressed(bytes(50_000_000), codec)

    assert len(bomb) < 300_000
    assert len(codecs.EXPANDING[codec](bomb, 100_000)) <= 100_001


def snapshot_file(blocks, codec="deflate"):
    """A container of snapshots whose images are nothing but zeros."""
    head = encoded_long(7) + bytes(64)
    items = [[head + encoded_bytes(bytes(size)) for size in sizes] for sizes in blocks]
    return container(SNAPSHOT_SCHEMA, items, {"schemas": b"{}"}, codec)


@pytest.mark.parametrize("blocks", [[[10, 10]], [[10], [10]], []])
def test_a_file_of_more_or_fewer_snapshots_than_one_is_refused_unread(blocks, monkeypatch):
    unpacked = []
    found = opened(snapshot_file(blocks), SNAPSHOT_SCHEMA)
    monkeypatch.setattr(found, "_expand", lambda data, _: unpacked.append(data))

    with pytest.raises(DamagedError):
        found.snapshot()
    assert unpacked == []


@pytest.mark.parametrize("codec", codecs.EXPANDING)
def test_a_snapshot_that_unpacks_to_much_more_than_its_file_is_refused(
    tmp_path, codec, monkeypatch
):
    monkeypatch.setattr("audit.stored_snapshots.INFLATED_BYTES_MIN", 1_000_000)
    data = snapshot_file([[100_000_000]], codec)
    assert 200 * len(data) < 100_000_000
    path = snapshot_path(7)
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).write_bytes(data)
    plain = described(path, data)
    file = SnapshotFile(
        path=path,
        sha256=plain.sha256,
        size_bytes=plain.size_bytes,
        epoch=7,
        digest=bytes(32).hex(),
        hash=bytes(32).hex(),
    )
    unpacked = []
    expand = codecs.EXPANDING[codec]

    def watched(packed, bytes_max):
        unpacked.append(bytes_max)
        return expand(packed, bytes_max)

    monkeypatch.setitem(codecs.EXPANDING, codec, watched)

    with pytest.raises(ArchiveError, match="damaged"):
        read_snapshot(folder(tmp_path), file)
    assert unpacked == [max(1_000_000, 200 * len(data))]


def test_any_avro_library_reads_what_is_written_by_default():
    found: Any = fastavro.reader(BytesIO(entry_container(ENTRIES, {})))

    assert [item["payload"] for item in found] == [sealed.payload for sealed in ENTRIES]
    assert found.codec == codecs.DEFAULT == "deflate"


@pytest.mark.parametrize(("before", "after"), [("deflate", "zstandard"), ("zstandard", "deflate")])
def test_an_archive_is_read_whatever_its_files_were_written_with(tmp_path, before, after):
    for codec, entries in ((before, ENTRIES[:200]), (after, ENTRIES[199:])):
        with begin_export(folder(tmp_path), codec=codec) as running:
            for sealed in entries:
                running.take(sealed)
            running.finish([KEY])
        written = (tmp_path / read_manifest(folder(tmp_path)).segments[-1].path).read_bytes()
        assert codec.encode() in written[:100]

    assert list(open_archive(tmp_path).entries(EMPTY, Epoch(300))) == ENTRIES
    verdict = verify(tmp_path, Given(keys=(KEY.public,), recompute=True))
    assert isinstance(verdict, Verified)
    assert verdict.tip.epoch == 300
