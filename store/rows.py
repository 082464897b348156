"""Rows, and which of two versions of a row is the newer one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from metadata.limits import ID_MAX
from metadata.partitioners import Partitioner
from metadata.schema import Column, Table, TableId
from metadata.tokens import BoundedToken, Token
from store.failures import InvalidRowError
from store.keys import KEY_BYTES_MAX, Key, key_of, key_types
from store.ranges import Span
from store.values import Value, typed

ROW_BYTES_MAX = 1024 * 1024

Timestamp = Annotated[int, Meta(ge=0, le=ID_MAX)]
"""Microseconds since 1970, exact also in languages whose numbers are doubles: until 2255."""

Digest = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

Order = tuple[int, bool, int]
"""Timestamp, deleted, digest: the greater one wins."""

TOMBSTONE_DIGEST = 0

_CONTENT = msgspec.msgpack.Encoder(order="deterministic")
_DECODER = msgspec.msgpack.Decoder(dict[str, Any])


class Row(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`content` is the columns that are not null, by name, as MessagePack; none is a tombstone.

    `digest` is made once, with the row, and goes with it wherever it is copied: the 8 bytes of
    BLAKE2b of the content, as a big-endian signed number; 0 for a tombstone.
    """

    table: TableId
    token: BoundedToken
    key: Annotated[str, Meta(max_length=KEY_BYTES_MAX)]
    timestamp: Timestamp
    digest: Digest
    content: Annotated[bytes, Meta(max_length=ROW_BYTES_MAX)] | None = None

    @property
    def deleted(self) -> bool:
        return self.content is None

    @property
    def order(self) -> Order:
        return (self.timestamp, self.content is None, self.digest)

    def columns(self, table: Table) -> dict[str, Value]:
        """Those that the table has now: dropped ones are ignored, null ones are left out."""
        if self.content is None:
            return {}
        found = contents(self.content)
        return {column.name: found[column.name] for column in table.columns if column.name in found}


def newest(versions: Iterable[Row | None]) -> Row | None:
    """Last write wins. Whatever the order and however often, the same version comes out."""
    return max((row for row in versions if row is not None), key=_order, default=None)


def row_of(
    table: Table,
    partitioner: Partitioner,
    raw_key: str,
    *,
    columns: Mapping[str, object],
    timestamp: int,
) -> Row:
    """A row as a client gives it: values as JSON has them, key columns there or left out."""
    key = key_of(table, partitioner, raw_key)
    values = _checked(table, key, columns)
    content = encoded(values)
    if len(content) > ROW_BYTES_MAX:
        raise InvalidRowError(f"The row is larger than {ROW_BYTES_MAX} bytes.")
    return Row(
        table=table.id,
        token=key.token,
        key=key.text,
        timestamp=_checked_timestamp(timestamp),
        digest=digest_of(content),
        content=content,
    )


def tombstone_of(table: Table, partitioner: Partitioner, raw_key: str, *, timestamp: int) -> Row:
    key = key_of(table, partitioner, raw_key)
    return Row(
        table=table.id,
        token=key.token,
        key=key.text,
        timestamp=_checked_timestamp(timestamp),
        digest=TOMBSTONE_DIGEST,
    )


def check(table: Table, row: Row) -> None:
    """Raise for a row from elsewhere whose content is not one of this table."""
    if row.table != table.id:
        raise InvalidRowError(f"The row is of table {row.table}, not of {table.name}.")
    if row.content is None:
        return
    try:
        found = contents(row.content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRowError(f"The row cannot be read: {error}.") from error
    for column in table.columns:
        if column.name in found:
            _check_stored(column, found[column.name])


def _check_stored(column: Column, value: Value) -> None:
    """As it is in a row; JSON has other forms of some."""
    try:
        if type(typed(column.type, value)) is type(value):
            return
    except (ValueError, OverflowError) as error:
        raise InvalidRowError(
            f"Column {column.name} is not valid: {error}.", column.name
        ) from error
    raise InvalidRowError(f"Column {column.name} is not stored as a {column.type}.", column.name)


def encoded(values: Mapping[str, Value]) -> bytes:
    return _CONTENT.encode(values)


def contents(content: bytes) -> dict[str, Value]:
    return _DECODER.decode(content)


def digest_of(content: bytes) -> int:
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big", signed=True)


def _order(row: Row) -> Order:
    return row.order


def _checked(table: Table, key: Key, columns: Mapping[str, object]) -> dict[str, Value]:
    types = {column.name: column.type for column in table.columns}
    values: dict[str, Value] = {}
    for name, value in columns.items():
        if name not in types:
            raise InvalidRowError(f"Table {table.name} has no column {name[:60]}.", name)
        if value is None:
            continue
        try:
            values[name] = typed(types[name], value)
        except (ValueError, OverflowError) as error:
            raise InvalidRowError(f"Column {name} is not valid: {error}.", name) from error
    for (name, _), value in zip(key_types(table), key.values, strict=True):
        # NaN is a key like another, hence the comparison by text.
        if name in columns and repr(values.get(name)) != repr(value):
            raise InvalidRowError(f"Column {name} differs from the key of the row.", name)
        values[name] = value
    return values


def _checked_timestamp(timestamp: int) -> int:
    if not 0 <= timestamp <= ID_MAX:
        raise InvalidRowError(
            f"The timestamp is not between 0 and {ID_MAX} microseconds since 1970.", "timestamp"
        )
    return timestamp


class Position(msgspec.Struct, frozen=True, gc=False):
    """Behind the row with this token and key; without a key, behind all rows of the token."""

    token: Token
    key: str | None = None

    def precedes(self, token: int, key: str) -> bool:
        return self.token < token or (
            self.token == token and self.key is not None and self.key < key
        )


def spans_behind(spans: Iterable[Span], position: Position | None) -> tuple[Span, ...]:
    """What is left of the spans; the token of the position stays if it may have more keys."""
    if position is None:
        return tuple(spans)
    least = position.token + (position.key is None)
    return tuple(
        Span(Token(max(span.first, least)), span.last) for span in spans if span.last >= least
    )
