"""Values of columns: from JSON, from the text of a key, and as Arrow and Spark know them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import nan
from typing import TypeAlias

import pyarrow as pa

from metadata.columns import ColumnType

Value: TypeAlias = str | int | float | bool | bytes
"""A timestamp is its microseconds since 1970; null is left out of a row."""

_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
_INT = range(-(2**31), 2**31)
_BIGINT = range(-(2**63), 2**63)

ARROW: dict[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.BIGINT: pa.int64(),
    ColumnType.INT: pa.int32(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.BINARY: pa.binary(),
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
}


def typed(column: ColumnType, value: object) -> Value:
    """What a JSON value, or an equal Python one, is in a column; `ValueError` says why not."""
    match column, value:
        case ColumnType.STRING, str(text):
            text.encode()
            return text
        case ColumnType.BOOLEAN, bool(truth):
            return truth
        case (ColumnType.DOUBLE, int() | float()) if not isinstance(value, bool):
            return _one_nan(float(value))
        case ((ColumnType.INT | ColumnType.BIGINT | ColumnType.TIMESTAMP), int(number)) if (
            not isinstance(value, bool)
        ):
            return _bounded(column, number)
        case ColumnType.TIMESTAMP, str(text):
            return _bounded(column, _moment(text))
        case ColumnType.BINARY, bytes(data):
            return data
        case ColumnType.BINARY, str(text):
            return _base64(text)
        case _:
            raise ValueError(f"{_shown(value)} is not a {column}")


def parsed(column: ColumnType, text: str) -> Value:
    """What a text is in a column of a key, before any percent-encoding."""
    return typed(column, _PARSED[column](text))


def text_of(value: Value) -> str:
    """The one text that `parsed` turns into this value."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return str(value)


def _bounded(column: ColumnType, number: int) -> int:
    if number not in (_INT if column is ColumnType.INT else _BIGINT):
        raise ValueError(f"{_shown(number)} is out of the range of {column}")
    return number


def _moment(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{_shown(text)} is not an ISO 8601 timestamp") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH_START) // timedelta(microseconds=1)


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{_shown(text)} is not base64") from None


def _one_nan(number: float) -> float:
    # Every NaN is the same one, so that equal rows have equal digests.
    return number if number == number else nan  # noqa: PLR0124 - only NaN differs from itself


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{_shown(text)} is neither true nor false")
    return text == "true"


def _timestamp(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else _moment(text)


def _shown(value: object, chars_max: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= chars_max else text[:chars_max] + "…"


_PARSED: dict[ColumnType, Callable[[str], object]] = {
    ColumnType.STRING: str,
    ColumnType.BIGINT: int,
    ColumnType.INT: int,
    ColumnType.DOUBLE: float,
    ColumnType.BOOLEAN: _boolean,
    ColumnType.BINARY: _base64,
    ColumnType.TIMESTAMP: _timestamp,
}
