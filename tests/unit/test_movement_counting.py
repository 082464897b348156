"""What is to be moved is counted where the bounds of a row group do not tell."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from metadata.directory import NodeId
from metadata.tokens import Range, Token
from movement.batches import Piece, expected, read_from
from movement.checking import looked_at
from movement.counting import counted
from store.merging import table_of
from tests.store_model import TABLE, row

NODE = NodeId(1)
TOKENS = (*range(1, 41), *range(9001, 9061))
"""A node that was asked for two narrow ranges has flushed nothing between them."""
SPANS = (Range(Token(0), Token(100)), Range(Token(9000), Token(9050)))
WANTED = 40 + 50


@pytest.fixture
def readings(tmp_path):
    path = tmp_path / "one.parquet"
    rows = [row(Token(token), f"k{token}", 1) for token in TOKENS]
    pq.write_table(table_of(TABLE, rows), path, row_group_size=80)
    known = Piece(
        node=NODE,
        path=str(path),
        rows=len(TOKENS),
        size_bytes=path.stat().st_size,
        first=TOKENS[0],
        last=TOKENS[-1],
    )
    found = looked_at(known, TABLE)
    assert isinstance(found, Piece)
    return read_from(dict.fromkeys(SPANS, (NODE,)), [found])


def test_rows_of_which_the_bounds_do_not_tell_are_counted(readings):
    assert expected(readings)[0] < WANTED / 2

    rows, size_bytes = expected(readings, counted(readings))

    (piece,) = readings[0].pieces
    assert (rows, size_bytes) == (WANTED, round(WANTED * piece.size_bytes / piece.rows))


def test_only_so_many_row_groups_are_read(readings):
    assert len(counted(readings)) == 2
    assert len(counted(readings, groups_max=1)) == 1


def test_what_is_wanted_whole_or_not_at_all_is_not_read(readings):
    (piece,) = readings[0].pieces
    whole = Range(Token(0), Token(9060))
    beyond = Range(Token(9060), Token(9100))

    assert counted(read_from({whole: (NODE,)}, [piece])) == {}
    assert counted(read_from({beyond: (NODE,)}, [piece])) == {}


def test_a_file_that_cannot_be_read_is_left_to_whoever_copies_it(readings, tmp_path):
    (tmp_path / "one.parquet").write_bytes(b"none")
    assert counted(readings) == {}

    (tmp_path / "one.parquet").unlink()
    assert counted(readings) == {}
