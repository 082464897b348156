"""The schemas that entries and images were ever written with, by name, version and fingerprint."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import msgspec
from fastavro import parse_schema
from fastavro.schema import fingerprint, to_parsing_canonical_form

from encoding.schemas.released import RELEASED

Document = dict[str, Any]
"""An Avro schema as it stands in its file."""


class Written(msgspec.Struct, frozen=True):
    """One version of one schema, and the fingerprint that its messages begin with."""

    name: str
    version: int
    fingerprint: bytes

    @property
    def file(self) -> str:
        return f"{self.name}.{self.version}.avsc"

    def document(self) -> Document:
        return _document(self.file)

    def parsed(self) -> Document:
        return _parsed(self.file)


@cache
def released() -> tuple[Written, ...]:
    """Every version of every schema, oldest first."""
    return tuple(
        Written(name, version, bytes.fromhex(fingerprints))
        for name, versions in RELEASED.items()
        for version, fingerprints in enumerate(versions, start=1)
    )


@cache
def newest(name: str) -> Written:
    """What values of this name are written with today."""
    return max((item for item in released() if item.name == name), key=lambda item: item.version)


def documents() -> dict[str, Document]:
    """All schemas by fingerprint in hex: what is kept beside a log and inside an archive."""
    return {item.fingerprint.hex(): item.document() for item in released()}


def fingerprint_of(document: Document) -> bytes:
    """CRC-64-AVRO of the parsing canonical form, as the bytes that stand in a message."""
    canonical = to_parsing_canonical_form(document)
    return bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))


def parsed(document: Document) -> Document:
    """A schema in the form in which the Avro library reads and writes by it."""
    found = parse_schema(document)
    assert isinstance(found, dict), found
    return found


def _document(file: str) -> Document:
    text = resources.files("encoding.schemas").joinpath(file).read_bytes()
    return msgspec.json.decode(text, type=Document)


@cache
def _parsed(file: str) -> Document:
    return parsed(_document(file))
