"""Types of the columns of a table."""

from __future__ import annotations

from enum import StrEnum


class ColumnType(StrEnum):
    STRING = "string"
    BIGINT = "bigint"
    INT = "int"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    BINARY = "binary"
    TIMESTAMP = "timestamp"
