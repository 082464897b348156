"""Batches that brokers take and that cannot be read here."""

import gzip

from aiokafka.record.util import calc_crc32c

_HEADER_BYTES = 61
_GZIP, _SNAPPY = 1, 2


def garbled(batch):
    """One message whose header has a name that is no text."""
    content = _closed(batch)
    at = content.index(b"name")
    content[at : at + 4] = b"\xff\xfe\xff\xfe"
    _sealed(content, codec=0)
    return batch


def snappy(batch):
    """One message in a codec for which there is no library: as a single run of literal bytes."""
    content = _closed(batch)
    records = bytes(content[_HEADER_BYTES:])
    assert len(records) <= 60, "longer ones have a longer tag"
    content[_HEADER_BYTES:] = bytes([len(records), (len(records) - 1) << 2]) + records
    _sealed(content, codec=_SNAPPY)
    return batch


def tailed(batch):
    """One message in gzip with something behind it, which Java passes over."""
    content = _closed(batch)
    content[_HEADER_BYTES:] = gzip.compress(content[_HEADER_BYTES:]) + b"tail"
    _sealed(content, codec=_GZIP)
    return batch


def _closed(batch):
    batch.append(timestamp=None, key=b"k", value=b"v", headers=[("name", b"")])
    batch.close()
    return batch._build()


def _sealed(content, codec):
    """Length, codec and checksum as they have to be."""
    content[8:12] = (len(content) - 12).to_bytes(4, "big")
    content[21:23] = codec.to_bytes(2, "big")
    content[17:21] = calc_crc32c(content[21:]).to_bytes(4, "big")
