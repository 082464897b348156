"""Entries come back from bytes as they went in, and nothing else does."""

from __future__ import annotations

import io
from typing import Any
from uuid import UUID

import fastavro
import msgspec
import pytest

from encoding import avro
from encoding.entries import (
    ENTRY_BYTES_MAX,
    EncodeError,
    EntryId,
    decode_entry,
    encode_entry,
    entry_of,
    peek,
    proposal_digest,
    reader,
)
from encoding.errors import DecodeError
from encoding.registry import Written, fingerprint_of, newest, parsed
from encoding.upcasts import upcasts_from
from metadata.directory import NodeId
from metadata.image import image_of
from tests.builders import CLUSTER
from tests.golden.history import history
from tests.golden.scribe import Scribe
from transformations.directory import Startup
from transformations.extensions import SetExtension
from transformations.initialize import ForceSnapshot, Initialize
from transformations.kinds import KINDS

HISTORY = history()
ENTRIES = [sealed.entry for sealed in HISTORY.entries]
LAST = ENTRIES[-1]


ANY_ID = EntryId(UUID(int=7))


def changed(entry=LAST, **fields):
    return msgspec.structs.replace(entry, **fields)


def body_of(written, content):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, written.parsed(), content)
    return out.getvalue()


def plain(entry):
    content = msgspec.to_builtins(entry, str_keys=True, builtin_types=(bytes,))
    return {**content, "entry_id": entry.entry_id.bytes}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.epoch}-{entry.kind}")
def test_comes_back_as_it_was(entry):
    assert decode_entry(encode_entry(entry)) == entry


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.epoch}-{entry.kind}")
def test_the_heading_alone_says_which_entry_it_is(entry):
    heading = peek(encode_entry(entry))

    assert heading.kind == entry.kind
    assert heading.cluster == entry.cluster
    assert heading.epoch == entry.epoch
    assert heading.entry_id == entry.entry_id


def test_a_founding_entry_brings_an_image_along():
    """A cluster that existed before is adopted as it was."""
    proposed = [entry.transformation for entry in ENTRIES]
    (image,) = [item.image for item in proposed if isinstance(item, ForceSnapshot)]
    scribe = Scribe()
    scribe.commit(Initialize(name="adopted", cluster=CLUSTER, image=image))

    (sealed,) = scribe.entries

    assert decode_entry(sealed.payload).transformation == sealed.entry.transformation


def test_a_proposal_is_known_again_after_the_round_trip():
    """However it was spelled, and whatever process asks: an id used again is told by this."""
    digests = {proposal_digest(entry.transformation, ANY_ID) for entry in ENTRIES}

    decoded = [decode_entry(encode_entry(entry)) for entry in ENTRIES]
    again = {proposal_digest(entry.transformation, ANY_ID) for entry in decoded}

    assert again == digests
    assert len(digests) > len(KINDS)


def test_a_proposal_is_the_same_in_whatever_order_its_names_came():
    first = Startup(node=NodeId(1), addresses={"a": "x:1", "b": "y:2"}, version="1")
    second = Startup(node=NodeId(1), addresses={"b": "y:2", "a": "x:1"}, version="1")
    other = Startup(node=NodeId(1), addresses={"b": "x:1", "a": "y:2"}, version="1")

    assert proposal_digest(first, ANY_ID) == proposal_digest(second, ANY_ID)
    assert proposal_digest(first, ANY_ID) != proposal_digest(other, ANY_ID)


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        (b"", "not an Avro"),
        (b"\xc3\x01short", "not an Avro"),
        (b"\xc3\x02" + bytes(40), "not an Avro"),
        (b"Obj\x01" + bytes(40), "not an Avro"),
        (avro.MARKER + bytes(40), "fingerprint 0000000000000000 is known"),
        (bytes(ENTRY_BYTES_MAX + 1), "more than the 16777216 allowed"),
        (avro.header(newest("Image")) + bytes(40), "is known"),
        (encode_entry(LAST)[:-1], "damaged"),
        (encode_entry(LAST)[:10], "ends too early"),
        (encode_entry(LAST) + b"\x00", "1 bytes follow"),
        (encode_entry(changed(epoch=0)), "epoch"),
        (encode_entry(changed(epoch=-1)), "epoch"),
        (encode_entry(changed(epoch=2**53 + 1)), "epoch"),
        (encode_entry(changed(transformation=SetExtension(name="", value=""))), "name"),
        (encode_entry(changed(transformation=SetExtension(name="a\n", value=""))), "name"),
    ],
)
def test_refuses_other_bytes(payload, complaint):
    with pytest.raises(DecodeError, match=complaint):
        decode_entry(payload)


def test_a_known_fingerprint_excuses_no_size():
    message = encode_entry(LAST)
    decode_entry(message)

    with pytest.raises(DecodeError, match="allowed"):
        decode_entry(message + bytes(ENTRY_BYTES_MAX))


def test_a_heading_is_checked_too():
    with pytest.raises(DecodeError, match="heading"):
        peek(encode_entry(changed(epoch=0)))
    with pytest.raises(DecodeError, match="damaged"):
        peek(encode_entry(LAST)[:40])


def test_what_avro_cannot_express_is_not_encoded():
    lone_surrogate = SetExtension(name="a", value="\ud800")
    image = msgspec.structs.replace(image_of(HISTORY.metadata), epoch=2**63)

    with pytest.raises(EncodeError, match="SetExtension"):
        encode_entry(changed(transformation=lone_surrogate))
    with pytest.raises(EncodeError, match="ForceSnapshot"):
        encode_entry(changed(transformation=ForceSnapshot(image=image)))


def test_what_nobody_would_read_back_is_not_encoded():
    large = SetExtension(name="a", value="x" * ENTRY_BYTES_MAX)

    with pytest.raises(EncodeError, match="more than"):
        encode_entry(changed(transformation=large))


class MadeUp(Written, frozen=True):
    """A version of a schema that was never released."""

    text: dict[str, Any]

    def document(self):
        return self.text

    def parsed(self):
        return parsed(self.text)


def older(document):
    """SetExtension as it might have been once: `key` for the name, and no value."""
    key = {"name": "key", "type": "string"}
    inner = {"type": "record", "name": "SetExtension", "namespace": "ringlog", "fields": [key]}
    fields = [
        {**field, "type": inner} if field["name"] == "transformation" else field
        for field in document["fields"]
    ]
    return {**document, "fields": fields}


def made_up(version, document):
    return MadeUp("SetExtension", version, fingerprint_of(document), document)


def test_an_older_version_is_read_as_todays_type():
    """Two releases back: the first upcast gives a value, the second renames the key."""
    today = newest("SetExtension").document()
    first = made_up(1, older(today))
    upcasts = {
        ("SetExtension", 1): lambda old: {**old, "value": "unknown"},
        ("SetExtension", 2): lambda old: {"name": old["key"], "value": old["value"]},
    }
    readable = reader([first, made_up(3, today)], upcasts)
    content = {**plain(LAST), "transformation": {"key": "colour"}}

    entry = entry_of(*readable.read(avro.header(first) + body_of(first, content)))

    assert entry == changed(transformation=SetExtension(name="colour", value="unknown"))


def test_a_version_that_only_lacks_defaults_needs_no_upcast():
    assert upcasts_from("Register", 1, 4, {}) == ()
    assert upcasts_from("Register", 2, 2, {("Register", 2): dict}) == ()


def test_a_cluster_may_be_left_out_of_the_founding_proposal():
    named = Initialize(name="shop", cluster=str(ANY_ID))
    unnamed = Initialize(name="shop")
    another = Initialize(name="shop", cluster=str(UUID(int=8)))

    assert proposal_digest(named, ANY_ID) == proposal_digest(unnamed, ANY_ID)
    assert proposal_digest(another, ANY_ID) != proposal_digest(unnamed, ANY_ID)
