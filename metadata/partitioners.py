"""From a partition key to its token: Spark's xxhash64 and Cassandra's murmur3."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import isnan, nan
from struct import pack
from typing import TypeAlias, assert_never

from xxhash import xxh64_intdigest

from metadata.columns import ColumnType
from metadata.murmur3 import murmur3_token
from metadata.tokens import Token

Key: TypeAlias = Sequence[tuple[ColumnType, object]]
"""The columns in order. A timestamp is its microseconds since 1970, as Spark counts them."""

_SEED = 42


class Partitioner(StrEnum):
    XXHASH64 = "xxhash64"
    MURMUR3 = "murmur3"


def token_of(partitioner: Partitioner, key: Key) -> Token:
    """The token of a key of one or more columns, none of them null.

    A value that is not of its column's type is a `TypeError`, one beyond its bounds an
    `OverflowError`.
    """
    assert key
    match partitioner:
        case Partitioner.XXHASH64:
            return _spark_token(key)
        case Partitioner.MURMUR3:
            return murmur3_token(_cassandra_key(key))
        case unreachable:
            assert_never(unreachable)


def _spark_token(key: Key) -> Token:
    """Exactly Spark's `xxhash64(column, …)`: the hash of each column seeds the next."""
    seed = _SEED
    for column, value in key:
        seed = xxh64_intdigest(_spark_bytes(column, value), seed)
    return Token(seed - 2**64 if seed >= 2**63 else seed)


def _spark_bytes(column: ColumnType, value: object) -> bytes:
    match column, value:
        case ColumnType.STRING, str(text):
            return text.encode()
        case ColumnType.BINARY, bytes(data):
            return data
        case ColumnType.BOOLEAN, bool(truth):
            return truth.to_bytes(4, "little")
        case ColumnType.INT, int(number):
            return number.to_bytes(4, "little", signed=True)
        case ((ColumnType.BIGINT | ColumnType.TIMESTAMP), int(number)):
            return number.to_bytes(8, "little", signed=True)
        case ColumnType.DOUBLE, float(number) | int(number):
            # Every NaN is the same one, and adding 0.0 turns -0.0 into 0.0.
            return pack("<d", nan if isnan(number) else number + 0.0)
        case _:
            raise TypeError(f"a {column} cannot be {value!r}")


def _cassandra_key(key: Key) -> bytes:
    """A single column as it is; several each with its length before it and a zero behind."""
    parts = [_cassandra_bytes(column, value) for column, value in key]
    if len(parts) == 1:
        return parts[0]
    return b"".join(len(part).to_bytes(2, "big") + part + b"\0" for part in parts)


def _cassandra_bytes(column: ColumnType, value: object) -> bytes:
    match column, value:
        case ColumnType.STRING, str(text):
            return text.encode()
        case ColumnType.BINARY, bytes(data):
            return data
        case ColumnType.BOOLEAN, bool(truth):
            return truth.to_bytes(1, "big")
        case ColumnType.INT, int(number):
            return number.to_bytes(4, "big", signed=True)
        case ColumnType.BIGINT, int(number):
            return number.to_bytes(8, "big", signed=True)
        case ColumnType.TIMESTAMP, int(micros):
            # Cassandra keeps milliseconds: what falls into the same one has the same token.
            return (micros // 1000).to_bytes(8, "big", signed=True)
        case ColumnType.DOUBLE, float(number) | int(number):
            return pack(">d", number)
        case _:
            raise TypeError(f"a {column} cannot be {value!r}")
