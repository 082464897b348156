"""Avro schemas of today's types.

An entry's schema holds everything needed to read it, so that a program in any language can
decode an entry with nothing but that one file.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import NODEFAULT, inspect

from metadata.digest import DIGEST_BYTES
from metadata.image import Image
from transformations.kinds import KINDS
from transformations.outcome import Result

Schema = str | list["Schema"] | dict[str, object]
"""An Avro schema as JSON: a name, a union, or a definition."""

NAMESPACE = "ringlog"
IMAGE = "Image"
"""Stands beside the kinds: the schema that snapshots are written with."""

ENTRY_ID_BYTES = 16

_PRIMITIVES: dict[type[inspect.Type], str] = {
    inspect.BoolType: "boolean",
    inspect.EnumType: "string",
    inspect.IntType: "long",
    inspect.NoneType: "null",
    inspect.StrType: "string",
}


def schema_names() -> list[str]:
    """All that has a schema: every kind of entry, and the image."""
    return [*KINDS, IMAGE]


def schema_of(name: str) -> dict[str, object]:
    return image_schema() if name == IMAGE else entry_schema(KINDS[name])


def entry_schema(kind: type) -> dict[str, object]:
    """The schema of an entry whose transformation is of this type."""
    derived = Derivation()
    fields = [
        _field("cluster", "string", "The cluster's id, a UUID as text."),
        _field("epoch", "long", "The entry's place in the log, from 1."),
        _field("entry_id", _fixed("EntryId", ENTRY_ID_BYTES), "Chosen by the client, a UUID."),
        _field(
            "transformation",
            derived.of(inspect.type_info(kind)),
            "The change itself; its kind is the name of this record.",
        ),
        _field("result", derived.of(inspect.type_info(Result)), "What the proposer was told."),
        _field("digest", _fixed("Digest", DIGEST_BYTES), "Of the metadata that it led to."),
        _field("actor", ["null", "string"], "Who proposed it."),
        _field("reason", ["null", "string"], "Why, in the proposer's words."),
        _field("committed_at", "long", "Microseconds since 1970-01-01T00:00:00Z."),
        _field("committed_by", "string", "The member of the metadata service that did."),
    ]
    return _record("Entry", fields)


def image_schema() -> dict[str, object]:
    digest = _field("digest", _fixed("Digest", DIGEST_BYTES), "The state digest.")
    image = _field("image", Derivation().of(inspect.type_info(Image)), "The metadata, whole.")
    return _record("StoredImage", [digest, image])


class Derivation:
    """Types to schemas within one file: a record is spelled out where it first occurs."""

    def __init__(self) -> None:
        self._defined: dict[str, type] = {}

    def of(self, info: inspect.Type) -> Schema:
        match info:
            case inspect.StructType():
                return self._struct(info)
            case inspect.UnionType(types=types):
                # Null first, because the default of a union belongs to its first branch.
                ordered = sorted(types, key=lambda item: not isinstance(item, inspect.NoneType))
                return [self.of(item) for item in ordered]
            case inspect.VarTupleType(item_type=item):
                return {"type": "array", "items": self.of(item)}
            case inspect.DictType(value_type=value):
                return {"type": "map", "values": self.of(value)}
            case _:
                return _PRIMITIVES[type(info)]

    def _struct(self, info: inspect.StructType) -> Schema:
        name = info.cls.__name__
        if name in self._defined:
            assert self._defined[name] is info.cls, f"two types are named {name}"
            return f"{NAMESPACE}.{name}"
        self._defined[name] = info.cls
        return _record(name, [*_discriminator(info), *map(self._struct_field, info.fields)])

    def _struct_field(self, field: inspect.Field) -> Mapping[str, object]:
        described: dict[str, object] = {"name": field.encode_name, "type": self.of(field.type)}
        if field.default is not NODEFAULT:
            described["default"] = _plain(field.default)
        return described


def _discriminator(info: inspect.StructType) -> list[Mapping[str, object]]:
    """Variants say in the record itself which one they are; a transformation's kind is its name."""
    if info.tag_field is None or info.cls in KINDS.values():
        return []
    return [_field(info.tag_field, "string", f"Always {info.tag!r}.")]


def _plain(default: object) -> object:
    if isinstance(default, Enum):
        return default.value
    return list(default) if isinstance(default, tuple) else default


def _record(name: str, fields: list[Mapping[str, object]]) -> dict[str, object]:
    return {"type": "record", "name": name, "namespace": NAMESPACE, "fields": fields}


def _field(name: str, kind: Schema, doc: str) -> Mapping[str, object]:
    return {"name": name, "type": kind, "doc": doc}


def _fixed(name: str, size: int) -> dict[str, object]:
    return {"type": "fixed", "name": name, "namespace": NAMESPACE, "size": size}
