"""Metadata as bytes: what a snapshot stores."""

from __future__ import annotations

from functools import cache

import msgspec

from encoding import avro
from encoding.derivation import IMAGE
from encoding.errors import DecodeError
from encoding.messages import MessageReader
from encoding.registry import newest, released
from metadata.cluster import ClusterMetadata
from metadata.image import Image, image_of, metadata_of

IMAGE_BYTES_MAX = 1024 * 1024 * 1024


class StoredImage(msgspec.Struct, frozen=True):
    digest: bytes
    image: Image


def encode_image(metadata: ClusterMetadata) -> bytes:
    stored = StoredImage(metadata.digest, image_of(metadata))
    content = msgspec.to_builtins(stored, str_keys=True, builtin_types=(bytes,))
    return avro.write(newest(IMAGE), content)


def decode_image(message: bytes) -> ClusterMetadata:
    """The metadata that was encoded, digest and all."""
    _, content = _reader().read(message)
    try:
        stored = msgspec.convert(content, StoredImage, str_keys=True)
    except ValueError as error:
        raise DecodeError(f"The image is not valid: {error}.") from error
    return _checked(stored)


def _checked(stored: StoredImage) -> ClusterMetadata:
    """What the image stands for, if it says everything once, in order and under its digest.

    Whether a log could have led there is not asked: whoever restores a snapshot compares its
    digest with that of the entry at its epoch.
    """
    try:
        metadata = metadata_of(stored.image)
        digest = metadata.digest
        in_order = image_of(metadata) == stored.image
    except (ArithmeticError, AssertionError, LookupError, ValueError) as error:
        raise DecodeError(f"The image contradicts itself: {error!r}.") from error
    if digest != stored.digest:
        raise DecodeError(
            f"The image has digest {digest.hex()}, but {stored.digest.hex()} is written on it."
        )
    if not in_order:
        raise DecodeError("The image contradicts itself: something is given twice or out of order.")
    return metadata


@cache
def _reader() -> MessageReader:
    schemas = [item for item in released() if item.name == IMAGE]
    return MessageReader(schemas, subject="image", size_bytes_max=IMAGE_BYTES_MAX)
