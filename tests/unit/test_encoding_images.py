"""Images come back as the metadata they were made of, or not at all."""

from __future__ import annotations

import io

import fastavro
import msgspec
import pytest

from encoding import avro
from encoding.errors import DecodeError
from encoding.images import StoredImage, decode_image, encode_image
from encoding.registry import newest
from log.replay import replayed
from metadata.cluster import NOTHING_YET
from metadata.image import image_of
from metadata.schema import Network
from tests.builders import founded, joined_cluster
from tests.golden.history import history

HISTORY = history()
IMAGE = image_of(HISTORY.metadata)


def encoded(**changes):
    """The image with something changed, under the digest of the unchanged one."""
    image = msgspec.structs.replace(IMAGE, **changes)
    stored = StoredImage(HISTORY.metadata.digest, image)
    content = msgspec.to_builtins(stored, str_keys=True, builtin_types=(bytes,))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, newest("Image").parsed(), content)
    return avro.header(newest("Image")) + out.getvalue()


@pytest.mark.parametrize(
    "metadata",
    [
        NOTHING_YET,
        founded(),
        joined_cluster(nodes=5, tables=3),
        joined_cluster(replication=Network({"dc1": 2})),
    ],
)
def test_comes_back_with_its_digest(metadata):
    again = decode_image(encode_image(metadata))

    assert again.digest == metadata.digest
    assert image_of(again) == image_of(metadata)


def test_every_version_of_a_history_survives():
    for applied in replayed(HISTORY.entries):
        assert decode_image(encode_image(applied.metadata)) == applied.metadata


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (b"", "not an Avro"),
        (encode_image(HISTORY.metadata)[:-1], "damaged"),
        (encode_image(HISTORY.metadata) + b"x", "follow"),
        (HISTORY.entries[0].payload, "No schema"),
        (encoded(name="another shop"), "digest"),
        (encoded(epoch=IMAGE.epoch + 1), "digest"),
        (encoded(epoch=-1), "contradicts"),
        (encoded(keyspaces=()), "contradicts"),
        (encoded(tables=IMAGE.tables[:1] + IMAGE.tables), "given twice"),
        (encoded(nodes=IMAGE.nodes[::-1]), "out of order"),
        (encoded(extensions=()), "digest"),
        (encoded(partitioner="md5"), "not valid"),
    ],
)
def test_refuses_other_bytes(message, complaint):
    with pytest.raises(DecodeError, match=complaint):
        decode_image(message)
