"""Avro single-object encoding: a marker, the writer schema's fingerprint, the body."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

from fastavro import schemaless_reader, schemaless_writer

from encoding.errors import DecodeError
from encoding.registry import Document, Written

Content = dict[str, Any]
"""A record as plain data."""

MARKER = b"\xc3\x01"
HEADER_BYTES = len(MARKER) + 8

_DAMAGED = (ValueError, LookupError, TypeError, OverflowError, struct.error)
"""What the reader may raise on bytes that no writer wrote."""


def header(written: Written) -> bytes:
    return MARKER + written.fingerprint


def write(written: Written, content: object) -> bytes:
    out = BytesIO()
    out.write(header(written))
    schemaless_writer(out, written.parsed(), content)
    return out.getvalue()


def header_of(message: bytes, size_bytes_max: int) -> bytes:
    """The first bytes, which say what the rest was written with."""
    if len(message) > size_bytes_max:
        raise DecodeError(f"{len(message)} bytes are more than the {size_bytes_max} allowed.")
    found = message[:HEADER_BYTES]
    if len(found) < HEADER_BYTES or not found.startswith(MARKER):
        raise DecodeError("This is not an Avro single-object message.")
    return found


def unknown(found: bytes) -> DecodeError:
    fingerprint = found[len(MARKER) :].hex()
    return DecodeError(f"No schema with fingerprint {fingerprint} is known to this release.")


def read(message: bytes, schema: Document) -> Content:
    """The body, which must take all bytes behind the header."""
    content, end = _read(message, schema)
    if end != len(message):
        raise DecodeError(f"{len(message) - end} bytes follow the end of the message.")
    return content


def read_beginning(message: bytes, schema: Document) -> Content:
    """As much of the body as the schema knows of."""
    content, _ = _read(message, schema)
    return content


def _read(message: bytes, schema: Document) -> tuple[Content, int]:
    body = BytesIO(message)
    body.seek(HEADER_BYTES)
    try:
        content = schemaless_reader(body, schema, None)
    except EOFError as error:
        raise DecodeError("The message is damaged: it ends too early.") from error
    except _DAMAGED as error:
        raise DecodeError(f"The message is damaged: {error}.") from error
    assert isinstance(content, dict), schema
    return content, body.tell()
