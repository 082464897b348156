"""Segments: immutable Parquet files of rows, sorted by token and key, in small row groups."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from metadata.schema import Table
from metadata.tokens import Token
from store.failures import SegmentUnreadableError, named_os
from store.folder import Folder
from store.manifest import Segment
from store.merging import SYSTEM, schema_of, stored_name
from store.ranges import WHOLE, Span
from store.values import ARROW

GROUP_ROWS_MAX = 4096
GROUP_BYTES_MAX = 8 * 1024 * 1024


class Group(msgspec.Struct, frozen=True):
    """A row group: its place in the file, its rows, their bytes once they are uncompressed, and
    the tokens between which they lie.
    """

    index: int
    rows: int
    size_bytes: int
    span: Span


class Footer(msgspec.Struct, frozen=True):
    """What a file says of itself."""

    parquet: pq.FileMetaData
    schema: pa.Schema
    groups: tuple[Group, ...]


def write(folder: Folder, path: str, table: Table, batches: Iterable[pa.Table]) -> Segment | None:
    """A file of these rows, which come in order; on disk when this returns, known to nobody yet.

    None, and no file, if there is not a single row.
    """
    filled = (batch for batch in batches if len(batch))
    first = next(filled, None)
    if first is None:
        return None
    with folder.written(path) as sink:
        parquet = _write(pa.PythonFile(sink, mode="w"), table, chain([first], filled))
        size_bytes, sha256 = sink.size_bytes, sink.sha256
    try:
        end = folder.footer(path)
    except OSError as error:
        raise named_os(error, path) from error
    return described(table, path, parquet, size_bytes=size_bytes, sha256=sha256, end=end)


def described(
    table: Table, path: str, parquet: pq.FileMetaData, *, size_bytes: int, sha256: str, end: bytes
) -> Segment:
    """A segment that is in no manifest yet, from what its file says of itself at its end."""
    tokens = list(_bounds(parquet, "_token"))
    stamps = list(_bounds(parquet, "_timestamp"))
    if not all((*tokens, *stamps)):
        raise SegmentUnreadableError(
            f"{path} of table {table.name} lacks the statistics of its tokens and timestamps: "
            "write it again with them."
        )
    return Segment(
        id=0,
        table=table.id,
        path=path,
        rows=parquet.num_rows,
        size_bytes=size_bytes,
        sha256=sha256,
        first=Token(min(found[0] for found in tokens if found)),
        last=Token(max(found[1] for found in tokens if found)),
        oldest=min(found[0] for found in stamps if found),
        newest=max(found[1] for found in stamps if found),
        footer=hash_of(end),
    )


def hash_of(end: bytes) -> str:
    return hashlib.sha256(end).hexdigest()


def footer_of(parquet: pq.FileMetaData) -> Footer:
    bounds = _bounds(parquet, "_token")
    groups = tuple(_group(parquet, index, found) for index, found in enumerate(bounds))
    return Footer(parquet, parquet.schema.to_arrow_schema(), groups)


def _group(parquet: pq.FileMetaData, index: int, found: tuple[int, int] | None) -> Group:
    group = parquet.row_group(index)
    span = WHOLE if found is None else Span(Token(found[0]), Token(found[1]))
    return Group(index, group.num_rows, group.total_byte_size, span)


def misfit(table: Table, schema: pa.Schema) -> str | None:
    """Why a file with this schema cannot be a segment of the table."""
    for field in SYSTEM:
        if field.name not in schema.names or schema.field(field.name).type != field.type:
            return f"its column {field.name} is not of type {field.type}"
    for column in table.columns:
        name, wanted = stored_name(column.name), ARROW[column.type]
        if name not in schema.names:
            continue
        found = schema.field(name).type
        # Spark and Arrow write timestamps in several units; all of them can be read.
        if found != wanted and not (pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted)):
            return f"its column {name} is {found} and the table's is {wanted}"
    return None


def _write(sink: pa.NativeFile, table: Table, batches: Iterable[pa.Table]) -> pq.FileMetaData:
    footers: list[pq.FileMetaData] = []
    schema = schema_of(table)
    writer = pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        use_dictionary=schema.names[len(SYSTEM) :],
        write_page_checksum=True,
        sorting_columns=pq.SortingColumn.from_ordering(schema, ["_token", "_key"]),
        metadata_collector=footers,
    )
    try:
        for batch in batches:
            writer.write_table(batch, row_group_size=_group_rows(batch))
    except BaseException:
        # Closing a file that could not be written fails too, and would hide why.
        with suppress(OSError, RuntimeError):
            writer.close()
        raise
    writer.close()
    return footers[0]


def _group_rows(batch: pa.Table) -> int:
    average_bytes: int = max(1, batch.nbytes // len(batch))
    return max(1, min(GROUP_ROWS_MAX, GROUP_BYTES_MAX // average_bytes))


def _bounds(parquet: pq.FileMetaData, column: str) -> Iterator[tuple[int, int] | None]:
    """The least and greatest value in each row group."""
    place = parquet.schema.names.index(column)
    for index in range(parquet.num_row_groups):
        found = parquet.row_group(index).column(place).statistics
        yield None if found is None or not found.has_min_max else (found.min, found.max)
