"""Keys and columns as people type them, by the schema of their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any
from urllib.parse import quote, unquote

import msgspec

Table = Mapping[str, Any]
"""A table as a CMS shows it."""

_TRUTHS = {"true": True, "false": False}
_WANTED = {"double": "a finite double"}
"""JSON has no word for infinity, and null would be written instead."""


class ValuesError(ValueError):
    """The text is a sentence."""


def split_name(text: str) -> tuple[str, str]:
    keyspace, dot, table = text.partition(".")
    if not (keyspace and dot and table):
        raise ValuesError(f"{text!r} is no table: write KEYSPACE.TABLE.")
    return keyspace, table


def table_in(schema: Mapping[str, Any], text: str) -> Table:
    keyspace, name = split_name(text)
    for item in schema["keyspaces"]:
        for table in item["tables"]:
            if (item["name"], table["name"]) == (keyspace, name):
                found: Table = table
                return found
    raise ValuesError(f"There is no table {text}: `ringlog schema` lists them.")


def key_path(table: Table, key: str) -> str:
    """The address of a row on a node."""
    if not key:
        raise ValuesError("The key is empty, and no row has such a key: give another.")
    several = len(table["partition_key"]) > 1
    parts = [unquote(part) for part in key.split(",")] if several else [key]
    encoded = ",".join(quote(part, safe="") for part in parts)
    return f"/v1/tables/{quote(table['keyspace'])}/{quote(table['name'])}/rows/{encoded}"


def columns_of(table: Table, texts: Sequence[str]) -> dict[str, Any]:
    types = {column["name"]: column["type"] for column in table["columns"]}
    return dict(_column(text, types) for text in texts)


def _column(text: str, types: Mapping[str, str]) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not equals or not name:
        raise ValuesError(f"{text!r} is no column: write name=text or name:=JSON.")
    if name not in types:
        known = ", ".join(types)
        raise ValuesError(f"There is no column {name!r}; there are {known}.")
    try:
        return name, msgspec.json.decode(value) if is_json else _parsed(types[name], value)
    except (ValueError, RecursionError):
        wanted = "JSON" if is_json else _WANTED.get(types[name], f"a {types[name]}")
        raise ValuesError(f"{value!r} in column {name} is not {wanted}.") from None


def _parsed(kind: str, text: str) -> object:
    match kind:
        case "bigint" | "int":
            return int(text)
        case "double":
            if not isfinite(found := float(text)):
                raise ValueError(text)
            return found
        case "boolean":
            if text.lower() not in _TRUTHS:
                raise ValueError(text)
            return _TRUTHS[text.lower()]
        case _:
            return text
