"""Reading messages of any released version by the fingerprints they begin with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from fastavro import parse_schema

from encoding import avro
from encoding.avro import Content
from encoding.registry import Document, Written
from encoding.upcasts import UPCASTS, Upcast, upcasts_from


class Layout(msgspec.Struct, frozen=True):
    """How messages with one fingerprint are read."""

    name: str
    whole: Document
    heading: Document
    upcasts: tuple[Upcast, ...]


class MessageReader:
    """Reads records of which one field, the `subject`, may have had other versions."""

    def __init__(
        self,
        schemas: Iterable[Written],
        *,
        subject: str,
        size_bytes_max: int,
        upcasts: Mapping[tuple[str, int], Upcast] = UPCASTS,
    ) -> None:
        self._written = {avro.header(item): item for item in schemas}
        self._subject = subject
        self._size_bytes_max = size_bytes_max
        self._upcasts = upcasts
        self._layouts: dict[bytes, Layout] = {}

    def read(self, message: bytes) -> tuple[str, Content]:
        """The schema's name and the record, its subject as of today's version."""
        layout = self._layout_of(message)
        content = avro.read(message, layout.whole)
        for change in layout.upcasts:
            content[self._subject] = change(content[self._subject])
        return layout.name, content

    def read_heading(self, message: bytes) -> tuple[str, Content]:
        """The schema's name and the fields before the subject; the rest may be damaged."""
        layout = self._layout_of(message)
        return layout.name, avro.read_beginning(message, layout.heading)

    def _layout_of(self, message: bytes) -> Layout:
        known = self._layouts.get(message[: avro.HEADER_BYTES])
        if known is None or len(message) > self._size_bytes_max:
            return self._learn(avro.header_of(message, self._size_bytes_max))
        return known

    def _learn(self, header: bytes) -> Layout:
        """Parse a schema when the first message with it turns up: few logs have every kind."""
        written = self._written.get(header)
        if written is None:
            raise avro.unknown(header)
        name = written.name
        versions = [item.version for item in self._written.values() if item.name == name]
        layout = Layout(
            name,
            written.parsed(),
            self._heading(written.document()),
            upcasts_from(name, written.version, max(versions), self._upcasts),
        )
        self._layouts[header] = layout
        return layout

    def _heading(self, document: Document) -> Document:
        """A record begins with its fields, so fewer fields describe its beginning."""
        names = [field["name"] for field in document["fields"]]
        fields = document["fields"][: names.index(self._subject)]
        parsed = parse_schema({**document, "fields": fields})
        assert isinstance(parsed, dict), parsed
        return parsed
