"""A file that was damaged where no checksum looks does not make rows disappear."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from metadata.tokens import Range, Token
from movement import jobs
from movement.receipts import added
from tests.integration.test_movement_jobs import made, wanted, written

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROWS = 9000
STEP = 1000


def as_stored(number):
    return int(number).to_bytes(8, "little", signed=True)


def index_of(content, parquet):
    """Where the index of the pages lies: between the rows and the footer."""
    footer_bytes = int.from_bytes(content[-8:-4], "little")
    columns = [
        parquet.row_group(group).column(place)
        for group in range(parquet.num_row_groups)
        for place in range(parquet.num_columns)
    ]
    end = max(item.data_page_offset + item.total_compressed_size for item in columns)
    return end, len(content) - 8 - footer_bytes


def with_a_wrong_index(path, group):
    """As if the pages of this row group had other tokens; its size and footer are as they were."""
    content, parquet = bytearray(path.read_bytes()), pq.read_metadata(path)
    tokens = parquet.row_group(group).column(0).statistics
    begin, end = index_of(content, parquet)
    index = bytes(content[begin:end])
    assert as_stored(tokens.min) in index
    changed = index.replace(as_stored(tokens.min), as_stored(0))
    content[begin:end] = changed.replace(as_stored(tokens.max), as_stored(1))
    path.write_bytes(content)
    return Range(Token(tokens.min - 1), Token(tokens.max)), parquet.row_group(group).num_rows


async def test_rows_are_not_skipped_by_an_index_that_is_wrong(warm_spark, tmp_path):
    """Sources and target would agree, because both are counted without them."""
    rows = [made(number * STEP, key=f"k{number}") for number in range(ROWS)]
    piece, folder = written(tmp_path, "one", rows), str(tmp_path / "out")
    await warm_spark.run("x", lambda session: jobs.copy(session, wanted([piece]), folder))
    (file,) = await warm_spark.run("x", lambda session: jobs.written(session, [folder]))
    part, expected = with_a_wrong_index(Path(file.path), 1)
    copied = msgspec.structs.replace(piece, path=file.path, size_bytes=file.size_bytes)

    found = await warm_spark.run(
        "x", lambda session: jobs.merged_figures(session, wanted([copied], part))
    )

    assert added(item.figures for item in found).rows == expected > STEP
