"""Many versions of rows in Arrow tables to the newest of each, without a look at single rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from metadata.columns import ColumnType
from metadata.schema import Table
from store.ranges import Span
from store.rows import Position, Row, contents, encoded
from store.values import ARROW

SYSTEM = pa.schema(
    [
        pa.field("_token", pa.int64(), nullable=False),
        pa.field("_key", pa.string(), nullable=False),
        pa.field("_timestamp", pa.int64(), nullable=False),
        pa.field("_deleted", pa.bool_(), nullable=False),
        pa.field("_digest", pa.int64(), nullable=False),
    ]
)

_ORDER = [
    ("_token", "ascending"),
    ("_key", "ascending"),
    ("_timestamp", "descending"),
    ("_deleted", "descending"),
    ("_digest", "descending"),
]


def schema_of(table: Table) -> pa.Schema:
    """What a segment of the table looks like now.

    A column may begin with an underscore, too; the own ones come first, and columns of a table
    that bear the same name are prefixed with one more.
    """
    fields = [pa.field(stored_name(column.name), ARROW[column.type]) for column in table.columns]
    return pa.schema([*SYSTEM, *fields])


def stored_name(column: str) -> str:
    """The name of a column in a segment: another one only where it would hide one of ours."""
    bare = column.lstrip("_")
    taken = "_" + bare in SYSTEM.names and column.startswith("_")
    return "_" + column if taken else column


def newest_of(versions: pa.Table) -> pa.Table:
    """The newest version of each row, sorted by token and key."""
    if len(versions) == 0:
        return versions
    ordered = versions.take(pc.sort_indices(versions, sort_keys=_ORDER)).combine_chunks()
    tokens, keys = ordered["_token"], ordered["_key"]
    differs = pc.or_(
        pc.not_equal(tokens.slice(1), tokens.slice(0, len(tokens) - 1)),
        pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)),
    )
    chunks = [pa.array([True]), *differs.chunks]
    return ordered.filter(pa.chunked_array(chunks))


def within(rows: pa.Table, spans: Sequence[Span]) -> pa.Table:
    """Only rows whose token lies in one of the spans."""
    return rows.filter(inside(rows["_token"], spans))


def inside(tokens: pa.ChunkedArray, spans: Sequence[Span]) -> pa.ChunkedArray:
    """For each token whether it lies in one of the spans."""
    found = pc.equal(tokens, None).fill_null(False)
    for span in spans:
        between = pc.and_(
            pc.greater_equal(tokens, pa.scalar(span.first, pa.int64())),
            pc.less_equal(tokens, pa.scalar(span.last, pa.int64())),
        )
        found = pc.or_(found, between)
    return found


def behind(rows: pa.Table, position: Position) -> pa.Table:
    token = pa.scalar(position.token, pa.int64())
    later = pc.greater(rows["_token"], token)
    if position.key is None:
        return rows.filter(later)
    same = pc.equal(rows["_token"], token)
    return rows.filter(pc.or_(later, pc.and_(same, pc.greater(rows["_key"], position.key))))


def table_of(table: Table, rows: Sequence[Row]) -> pa.Table:
    """Rows as a segment has them."""
    columns = [{} if row.content is None else contents(row.content) for row in rows]
    arrays = [
        pa.array([row.token for row in rows], pa.int64()),
        pa.array([row.key for row in rows], pa.string()),
        pa.array([row.timestamp for row in rows], pa.int64()),
        pa.array([row.deleted for row in rows], pa.bool_()),
        pa.array([row.digest for row in rows], pa.int64()),
    ]
    for column in table.columns:
        values = [found.get(column.name) for found in columns]
        if column.type is ColumnType.TIMESTAMP:
            arrays.append(pa.array(values, pa.int64()).cast(ARROW[column.type]))
        else:
            arrays.append(pa.array(values, ARROW[column.type]))
    return pa.Table.from_arrays(arrays, schema=schema_of(table))


def rows_of(table: Table, found: pa.Table) -> list[Row]:
    """The inverse of `table_of`, but for dropped columns."""
    plain = _numbers(table, found)
    names = [(column.name, stored_name(column.name)) for column in table.columns]
    return [_row(table, names, values) for values in plain.to_pylist()]


def _row(table: Table, names: list[tuple[str, str]], values: dict[str, object]) -> Row:
    content = None
    if not values["_deleted"]:
        present = {name: values[stored] for name, stored in names if values[stored] is not None}
        content = encoded(present)  # type: ignore[arg-type] # Arrow gives objects of the types
    return Row(
        table=table.id,
        token=values["_token"],  # type: ignore[arg-type] # as above
        key=values["_key"],  # type: ignore[arg-type] # as above
        timestamp=values["_timestamp"],  # type: ignore[arg-type] # as above
        digest=values["_digest"],  # type: ignore[arg-type] # as above
        content=content,
    )


def _numbers(table: Table, found: pa.Table) -> pa.Table:
    """Timestamps as microseconds: Python's datetime has not the whole range."""
    for column in table.columns:
        if column.type is ColumnType.TIMESTAMP:
            place = found.schema.get_field_index(stored_name(column.name))
            numbers = found.column(place).cast(pa.int64())
            found = found.set_column(place, stored_name(column.name), numbers)
    return found
