"""Who reads and who writes a key."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote_plus

from metadata.cluster import ClusterMetadata
from metadata.columns import ColumnType
from metadata.partitioners import token_of
from metadata.placements import Group, Placement, RingPlacement
from metadata.schema import Table
from metadata.tokens import Token
from services.cms.bodies import OwnersAnswer, OwnersAt
from services.cms.problems import Code, ProblemError

_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)


def owners(metadata: ClusterMetadata, query: OwnersAt, raw_key: str | None) -> OwnersAnswer:
    """`raw_key` is the key before percent-decoding: only there `,` and `%2C` differ."""
    keyspace = metadata.schema.find(query.keyspace)
    if keyspace is None:
        raise ProblemError(
            Code.NOT_FOUND, f"There is no keyspace {query.keyspace}.", field="keyspace"
        )
    if (query.key is None) == (query.token is None):
        raise ProblemError(Code.MALFORMED, "Give either a key or a token.", field="key")
    if query.token is not None:
        token = Token(query.token)
    else:
        token = _token(metadata, query, raw_key or "")
    placement: Placement = metadata.placements.find(keyspace.replication.key) or RingPlacement()
    readers, writers = placement.readers(token), placement.writers(token)
    return OwnersAnswer(
        epoch=metadata.epoch,
        keyspace=keyspace.name,
        token=str(token),
        readers=_primary_first(metadata, token, readers),
        writers=_primary_first(metadata, token, writers),
        readers_epoch=None if readers is None else readers.epoch,
        writers_epoch=None if writers is None else writers.epoch,
    )


def _primary_first(metadata: ClusterMetadata, token: Token, group: Group | None) -> list[int]:
    if group is None:
        return []
    primary = metadata.ring.primary_of(token) if metadata.ring.tokens else None
    return sorted(group.owners, key=lambda node: (node != primary, node))


def _token(metadata: ClusterMetadata, query: OwnersAt, raw_key: str) -> Token:
    types = _key_types(metadata, query)
    texts = _split(raw_key, len(types))
    if len(texts) != len(types):
        raise ProblemError(
            Code.MALFORMED,
            f"The key has {len(types)} columns, joined by commas; {len(texts)} were given.",
            field="key",
        )
    try:
        values = [(kind, _PARSED[kind](text)) for kind, text in zip(types, texts, strict=True)]
        return token_of(metadata.cluster.partitioner, values)
    except (TypeError, ValueError, OverflowError) as error:
        raise ProblemError(
            Code.MALFORMED, f"The key is not valid: {error}.", field="key"
        ) from error


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


def _key_types(metadata: ClusterMetadata, query: OwnersAt) -> list[ColumnType]:
    """The types of the key's columns: those of the table, or of all tables if they agree."""
    tables = metadata.schema.tables_of(query.keyspace)
    if query.table is not None:
        tables = [table for table in tables if table.name == query.table]
        if not tables:
            raise ProblemError(Code.NOT_FOUND, f"There is no table {query.table}.", field="table")
    found = {tuple(_types(table)) for table in tables}
    if len(found) > 1:
        raise ProblemError(
            Code.MALFORMED,
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
