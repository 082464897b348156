"""The text of a partition key, and the token it stands at."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, unquote

import msgspec

from metadata.columns import ColumnType
from metadata.partitioners import Partitioner, token_of
from metadata.schema import Table
from metadata.tokens import Token
from store.failures import InvalidRowError
from store.values import Value, parsed, text_of

KEY_BYTES_MAX = 8 * 1024


class Key(msgspec.Struct, frozen=True):
    """`text` is the one canonical form: each value percent-encoded, joined by commas."""

    text: str
    token: Token
    values: tuple[Value, ...]


def key_types(table: Table) -> list[tuple[str, ColumnType]]:
    by_name = {column.name: column.type for column in table.columns}
    return [(name, by_name[name]) for name in table.partition_key]


def key_of(table: Table, partitioner: Partitioner, raw: str) -> Key:
    """`raw` is as it stands in an address: percent-encoded, a comma inside a value as `%2C`."""
    if len(raw) > 3 * KEY_BYTES_MAX:
        raise _too_large(table)
    named = key_types(table)
    texts = _split(raw, len(named))
    if len(texts) != len(named):
        raise InvalidRowError(
            f"The key of {table.name} has {len(named)} columns, joined by commas; "
            f"{len(texts)} were given."
        )
    values: list[Value] = []
    for (name, kind), text in zip(named, texts, strict=True):
        try:
            values.append(parsed(kind, text))
        except (ValueError, OverflowError) as error:
            raise InvalidRowError(f"Key column {name} is not valid: {error}.", name) from error
    return key_with(table, partitioner, values)


def key_with(table: Table, partitioner: Partitioner, values: Sequence[Value]) -> Key:
    """The key with these values, which are of the right types already."""
    text = ",".join(quote(text_of(value), safe="") for value in values)
    if len(text) > KEY_BYTES_MAX:
        raise _too_large(table)
    types = [kind for _, kind in key_types(table)]
    token = token_of(partitioner, list(zip(types, values, strict=True)))
    return Key(text, token, tuple(values))


def _split(raw: str, count: int) -> list[str]:
    try:
        if count == 1:
            return [unquote(raw, errors="strict")]
        parts = raw.split(",")
        if len(parts) == 1:
            # Many clients escape every comma; then those between the columns are escaped as well.
            return unquote(raw, errors="strict").split(",")
        return [unquote(part, errors="strict") for part in parts]
    except UnicodeDecodeError as error:
        raise InvalidRowError("The key is not UTF-8 once its percent signs are decoded.") from error


def _too_large(table: Table) -> InvalidRowError:
    return InvalidRowError(
        f"The key is larger than {KEY_BYTES_MAX} bytes, which is the most that {table.name} takes."
    )
