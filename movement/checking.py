"""Whether a segment's file is what its manifest says, by its size and footer alone."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from metadata.schema import Table
from metadata.tokens import MAXIMUM, MINIMUM
from movement.batches import Piece
from movement.files import located
from store.folder import footer_bytes
from store.merging import SYSTEM, stored_name
from store.ranges import Span
from store.segments import Group, footer_of, hash_of, misfit


class Unfit(msgspec.Struct, frozen=True):
    """Why no rows of the table can be copied from a file.

    Another source may do instead, unless the file is fine and what is known here is old.
    """

    reason: str
    is_too_new: bool = False


def looked_at(piece: Piece, table: Table) -> Piece | Unfit:
    """The piece with what its footer tells of it; its rows are not looked at."""
    try:
        return _looked_at(piece, table)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        return Unfit(f"cannot be read ({error}): put it back, or replace the node")


def _looked_at(piece: Piece, table: Table) -> Piece | Unfit:
    filesystem, path = located(piece.path)
    info = filesystem.get_file_info(path)
    if info.type != fs.FileType.File:
        return Unfit("is missing: put it back, or replace the node")
    if info.size != piece.size_bytes:
        return Unfit(
            f"has {info.size} bytes instead of {piece.size_bytes}: put it back, or replace the node"
        )
    with filesystem.open_input_file(path) as source:
        end = footer_bytes(source)
    if piece.footer and hash_of(end) != piece.footer:
        return Unfit("has a footer with another checksum: put it back, or replace the node")
    parquet = pq.read_metadata(pa.BufferReader(end))
    schema = parquet.schema.to_arrow_schema()
    reason = misfit(table, schema)
    if reason is not None:
        return Unfit(f"does not fit: {reason}")
    groups = footer_of(parquet).groups
    reason = _contradiction(piece, groups)
    if reason is not None:
        return Unfit(f"does not fit: {reason}")
    return _unknown(table, schema) or msgspec.structs.replace(
        piece, groups=groups, is_bare=_is_bare(table, schema)
    )


def _contradiction(piece: Piece, groups: tuple[Group, ...]) -> str | None:
    """Row groups are skipped by what the footer says of them, and not every release has noted its
    hash."""
    spans = [group.span for group in groups]
    firsts, lasts = [span.first for span in spans], [span.last for span in spans]
    reach = Span(min(firsts, default=MAXIMUM), max(lasts, default=MINIMUM))
    if sum(group.rows for group in groups) != piece.rows or reach != piece.reach:
        return "its footer has other rows and tokens than its node says"
    if any(one.last > other.first for one, other in pairwise(spans)):
        return "its row groups are not in the order of their tokens"
    return None


def _unknown(table: Table, schema: pa.Schema) -> Unfit | None:
    """A column that came after the metadata at hand must not be lost on the way."""
    known = {stored_name(column.name) for column in (*table.columns, *table.dropped)}
    new = sorted(set(schema.names) - known - set(SYSTEM.names))
    if not new:
        return None
    told = f"has column {new[0]}, which is newer than what is known here: try again"
    return Unfit(told, is_too_new=True)


def _is_bare(table: Table, schema: pa.Schema) -> bool:
    """True if no column in it was dropped from the table: values of those are not copied."""
    known = {stored_name(column.name) for column in table.columns}
    return set(schema.names) <= known | set(SYSTEM.names)
