"""How many rows of a row group are wanted, where its bounds do not tell."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from movement.batches import Counts, Piece, Reading, Spans
from movement.files import located
from store.merging import inside
from store.ranges import common
from store.segments import Group

GROUPS_READ_MAX = 256
"""In all: of the others a share is taken, which is about right where there are many."""


def counted(readings: Iterable[Reading], groups_max: int = GROUPS_READ_MAX) -> Counts:
    """Of row groups that are wanted in part. A node may have flushed just the ranges that it was
    asked for, so that nothing lies between them.
    """
    found: Counts = {}
    for reading in readings:
        for piece in reading.pieces:
            wanted = (group for group in piece.groups if _is_partly(group, reading.spans))
            groups = list(islice(wanted, groups_max - len(found)))
            if groups:
                found |= _counted(piece, groups, reading.spans)
    return found


def _counted(piece: Piece, groups: list[Group], spans: Spans) -> Counts:
    """None of a file that cannot be read: whoever copies its rows says why."""
    filesystem, path = located(piece.path)
    try:
        with filesystem.open_input_file(path) as source, pq.ParquetFile(source) as file:
            return {
                (piece.path, group.index): _rows_in(file, group.index, spans) for group in groups
            }
    except (OSError, pa.ArrowException):
        return {}


def _rows_in(file: pq.ParquetFile, index: int, spans: Spans) -> int:
    tokens = file.read_row_group(index, columns=["_token"])["_token"]
    return pc.sum(inside(tokens, spans)).as_py() or 0


def _is_partly(group: Group, spans: Spans) -> bool:
    parts = common(spans, (group.span,))
    return bool(parts) and parts != (group.span,)
