"""What clients send and get of rows."""

from __future__ import annotations

import base64
from math import isfinite
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from metadata.epoch import Epoch
from metadata.limits import ID_MAX, Name
from metadata.replicas import Consistency
from metadata.schema import Table
from services.http.bodies import EpochField
from services.http.data_messages import ROWS_MAX
from store.rows import Row, Timestamp
from store.values import Value


class OneRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`key` is the percent-encoded text of the partition columns, joined by commas.

    `epoch`: answer by metadata that is at least so new.
    """

    keyspace: Name
    table: Name
    key: str
    consistency: Consistency = Consistency.QUORUM
    epoch: EpochField = Epoch(0)


class DeletedRow(OneRow, frozen=True, kw_only=True, forbid_unknown_fields=True):
    timestamp: Timestamp | None = None


class ManyRows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    keyspace: Name
    table: Name
    consistency: Consistency = Consistency.QUORUM
    epoch: EpochField = Epoch(0)


class RowBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole row; a column that is null or left out is null. Key columns may be left out.

    `timestamp` is in microseconds since 1970; without one the node gives it. `epoch` asks for
    metadata that is at least so new.
    """

    columns: dict[str, Any]
    timestamp: Timestamp | None = None
    epoch: EpochField = Epoch(0)


class KeyedRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`key` is as it would be in an address."""

    key: Annotated[str, Meta(min_length=1, max_length=ID_MAX)]
    columns: dict[str, Any]
    timestamp: Timestamp | None = None


class RowsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rows: Annotated[list[KeyedRow], Meta(max_length=ROWS_MAX)]


class RowAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`epoch` is that of the metadata by which it was decided."""

    columns: dict[str, Any]
    timestamp: int
    epoch: Epoch


class RowWritten(msgspec.Struct, frozen=True, kw_only=True):
    timestamp: int
    epoch: Epoch


class RowsAnswer(msgspec.Struct, frozen=True):
    """An outcome for each row, in order: when it was written, or a problem."""

    outcomes: list[msgspec.Raw]


def columns_json(row: Row, table: Table) -> dict[str, Any]:
    """Every column of the table, null where the row has none."""
    found = row.columns(table)
    return {
        column.name: None if column.name not in found else _plain(found[column.name])
        for column in table.columns
    }


def _plain(value: Value) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not isfinite(value):
        # JSON has no such numbers.
        return str(value)
    return value
