"""Partition keys as people write them, and the tokens they have."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote_plus

from metadata.cluster import ClusterMetadata
from metadata.columns import ColumnType
from metadata.partitioners import token_of
from metadata.schema import Table
from metadata.tokens import Token

_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)


class KeyTextError(ValueError):
    """No key of this keyspace. `field` is what to correct, `unknown` if the table is not there."""

    def __init__(self, message: str, *, field: str, unknown: bool = False) -> None:
        super().__init__(message)
        self.field = field
        self.unknown = unknown


def key_token(metadata: ClusterMetadata, keyspace: str, table: str | None, raw_key: str) -> Token:
    """`raw_key` is the key before percent-decoding: only there `,` and `%2C` differ."""
    types = _key_types(metadata, keyspace, table)
    texts = _split(raw_key, len(types))
    if len(texts) != len(types):
        raise KeyTextError(
            f"The key has {len(types)} columns, joined by commas; {len(texts)} were given.",
            field="key",
        )
    try:
        values = [(kind, _PARSED[kind](text)) for kind, text in zip(types, texts, strict=True)]
        return token_of(metadata.cluster.partitioner, values)
    except (TypeError, ValueError, OverflowError) as error:
        raise KeyTextError(f"The key is not valid: {error}.", field="key") from error


def _split(raw_key: str, count: int) -> list[str]:
    if count == 1:
        return [unquote_plus(raw_key)]
    parts = raw_key.split(",")
    # Many clients escape every comma; then those between the columns are escaped as well.
    return (
        [unquote_plus(part) for part in parts]
        if len(parts) > 1
        else unquote_plus(raw_key).split(",")
    )


def _key_types(metadata: ClusterMetadata, keyspace: str, table: str | None) -> list[ColumnType]:
    """The types of the key's columns: those of the table, or of all tables if they agree."""
    tables = metadata.schema.tables_of(keyspace)
    if table is not None:
        tables = [item for item in tables if item.name == table]
        if not tables:
            raise KeyTextError(f"There is no table {table}.", field="table", unknown=True)
    found = {tuple(_types(item)) for item in tables}
    if len(found) > 1:
        raise KeyTextError(
            "Tables of this keyspace have keys of different types; name the table.",
            field="table",
        )
    return list(found.pop()) if found else [ColumnType.STRING]


def _types(table: Table) -> list[ColumnType]:
    by_name = {column.name: column.type for column in table.columns}
    return [by_name[name] for name in table.partition_key]


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text == "true"


def _timestamp(text: str) -> int:
    """Microseconds since 1970, or ISO 8601."""
    if text.lstrip("-").isdigit():
        return int(text)
    moment = datetime.fromisoformat(text)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH_START) // timedelta(microseconds=1)


def _binary(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_PARSED: dict[ColumnType, Callable[[str], object]] = {
    ColumnType.STRING: str,
    ColumnType.BIGINT: int,
    ColumnType.INT: int,
    ColumnType.DOUBLE: float,
    ColumnType.BOOLEAN: _boolean,
    ColumnType.BINARY: _binary,
    ColumnType.TIMESTAMP: _timestamp,
}
