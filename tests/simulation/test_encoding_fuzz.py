"""Whatever bytes come: a value or a DecodeError, never another exception, never much memory."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoding import avro
from encoding.entries import decode_entry, peek
from encoding.errors import MESSAGE_MAX, DecodeError
from encoding.images import decode_image, encode_image
from encoding.json import decode_transformation
from encoding.registry import newest, released
from tests.golden.history import history

HISTORY = history()
PAYLOADS = [sealed.payload for sealed in HISTORY.entries]
IMAGE = encode_image(HISTORY.metadata)
HEADERS = [avro.header(written) for written in released()]
TEXTS = [
    b'{"kind": "PrepareJoin", "node": 4, "tokens": ["1", -5], "dead": []}',
    (
        b'{"kind": "MidJoin", "sequence": 7, "receipts": [{"left": "1", "right": 2, "target": 3,'
        b' "sources": [{"node": 1, "epoch": 9}], "source": {"rows": 1, "xor": 5, "sum": "6"},'
        b' "target_rows": {"rows": 1, "xor": "5", "sum": 6}}]}'
    ),
    b'{"kind": "AlterTopology", "locations": {"1": {"datacenter": "a", "rack": "b"}}}',
]


def decodes_or_complains(decode, data):
    """A complaint is one sentence, however long the data."""
    complaint = ""
    try:
        decode(data)
    except DecodeError as error:
        complaint = str(error)
    assert not complaint or complaint.endswith(".")
    assert len(complaint) <= MESSAGE_MAX


@st.composite
def damaged(draw, originals):
    """A real message with some bytes changed, taken out, put in, or cut off at the end."""
    data = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        taken = draw(st.integers(0, 3))
        data[place : place + taken] = draw(st.binary(max_size=4))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


@given(st.binary(max_size=200) | st.builds(bytes.__add__, st.sampled_from(HEADERS), st.binary()))
def test_any_bytes(data):
    for decode in (decode_entry, peek, decode_image, decode_transformation):
        decodes_or_complains(decode, data)


@settings(max_examples=300)
@given(damaged(PAYLOADS))
def test_damaged_entries(data):
    decodes_or_complains(decode_entry, data)
    decodes_or_complains(peek, data)


@settings(max_examples=300)
@given(damaged([IMAGE]))
def test_damaged_images(data):
    decodes_or_complains(decode_image, data)


@settings(max_examples=300)
@given(damaged(TEXTS))
def test_damaged_json(data):
    decodes_or_complains(decode_transformation, data)


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(1, len(PAYLOADS) + 1))
def test_entries_that_end_too_early(payload):
    for size in range(len(payload)):
        with pytest.raises(DecodeError):
            decode_entry(payload[:size])


@pytest.mark.parametrize("payload", PAYLOADS[:12], ids=range(1, 13))
def test_entries_with_one_bit_flipped(payload):
    for place in range(8 * len(payload)):
        data = bytearray(payload)
        data[place // 8] ^= 1 << place % 8
        decodes_or_complains(decode_entry, bytes(data))


def test_images_with_one_bit_flipped_are_never_believed():
    """The digest covers everything, save bits by which Avro can say the same in two ways."""
    for place in range(len(IMAGE)):
        data = bytearray(IMAGE)
        data[place] ^= 1 << place % 8
        try:
            metadata = decode_image(bytes(data))
        except DecodeError:
            continue
        assert metadata == HISTORY.metadata


@pytest.mark.parametrize("kind", ["CreateTable", "Register", "OpenSession", "MidJoin"])
def test_lengths_that_lie_cost_no_memory(kind):
    """A dozen bytes may claim a string, an array or a map of 2**62 items."""
    huge = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    tracemalloc.start()
    for filler in range(64):
        decodes_or_complains(decode_entry, avro.header(newest(kind)) + bytes(filler) + huge * 8)
        decodes_or_complains(decode_image, avro.header(newest("Image")) + bytes(filler) + huge * 8)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 2_000_000


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": ' + b"[" * 100_000,
        b'{"kind": "SetExtension", "name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"kind": "PrepareJoin", "node": 1, "tokens": ' + b"[" * 9_999 + b"]" * 9_999 + b"}",
        b'{"kind": "' + b"x" * 100_000 + b'"}',
    ],
)
def test_json_that_is_nested_deeply_or_very_long(text):
    decodes_or_complains(decode_transformation, text)
