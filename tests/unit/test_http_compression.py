"""Which way of packing an answer is chosen."""

import gzip

import pytest
import zstandard

from services.http.compression import chosen, compressed


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("", None),
        ("gzip", "gzip"),
        ("GZIP, deflate", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("zstd;q=0, gzip", "gzip"),
        ("zstd;q=0.5, gzip;q=1", "zstd"),
        ("gzip; q=0", None),
        ("*", "gzip"),
        ("gzip;q=0, *", None),
        ("*;q=0", None),
        ("br", None),
        ("identity", None),
    ],
)
def test_the_cheapest_that_the_client_takes(accepted, coding):
    assert chosen(accepted) == coding


def test_what_is_packed_can_be_unpacked():
    body = b"ringlog " * 1000
    for coding, unpack in (
        ("gzip", gzip.decompress),
        ("zstd", zstandard.ZstdDecompressor().decompress),
    ):
        packed = compressed(coding, body)
        assert len(packed) < len(body)
        assert unpack(packed) == body
