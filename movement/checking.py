"""Whether a segment's file is what its manifest says, by its size and footer alone."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from metadata.schema import Table
from metadata.tokens import MAXIMUM, MINIMUM
from movement.batches import Piece
from movement.files import located
from store.merging import SYSTEM, stored_name
from store.ranges import Span
from store.segments import footer_of, misfit


def fault_of(piece: Piece, table: Table) -> str | None:
    """Why no rows of this table can be copied from the file; its rows are not looked at."""
    filesystem, path = located(piece.path)
    try:
        info = filesystem.get_file_info(path)
        if info.type != fs.FileType.File:
            return "is missing: put it back, or repair the node's ranges"
        if info.size != piece.size_bytes:
            return (
                f"has {info.size} bytes instead of {piece.size_bytes}: put it back, "
                "or repair the node's ranges"
            )
        with filesystem.open_input_file(path) as source:
            parquet = pq.read_metadata(source)
            schema = parquet.schema.to_arrow_schema()
    except (OSError, pa.ArrowException) as error:
        return f"cannot be read ({error}): put it back, or repair the node's ranges"
    reason = misfit(table, schema) or _contradiction(piece, parquet)
    if reason is not None:
        return f"does not fit: {reason}"
    return _unknown(table, schema)


def _contradiction(piece: Piece, parquet: pq.FileMetaData) -> str | None:
    """Row groups are skipped by what the footer says of them, which no checksum covers."""
    spans = [group.span for group in footer_of(parquet).groups]
    firsts, lasts = [span.first for span in spans], [span.last for span in spans]
    reach = Span(min(firsts, default=MAXIMUM), max(lasts, default=MINIMUM))
    if parquet.num_rows != piece.rows or reach != piece.reach:
        return "its footer has other rows and tokens than its node says"
    if any(one.last > other.first for one, other in pairwise(spans)):
        return "its row groups are not in the order of their tokens"
    return None


def _unknown(table: Table, schema: pa.Schema) -> str | None:
    """A column that came after the metadata at hand must not be lost on the way."""
    known = {stored_name(column.name) for column in (*table.columns, *table.dropped)}
    new = sorted(set(schema.names) - known - set(SYSTEM.names))
    return (
        f"has column {new[0]}, which is newer than what is known here: try again" if new else None
    )
