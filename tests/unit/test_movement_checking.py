"""A file is read only if it is what its node says, by its size and footer."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metadata.directory import NodeId
from metadata.tokens import Token
from movement.batches import Piece
from movement.checking import Unfit, looked_at
from store.merging import table_of
from store.segments import hash_of
from tests.store_model import TABLE, row


def made(token, key="k"):
    return row(Token(token), key, 1)


def piece_at(path, **given):
    known = {"rows": 10, "first": 0, "last": 9, "size_bytes": path.stat().st_size, **given}
    return Piece(node=NodeId(1), path=str(path), **known)


def fault_of(piece, table):
    found = looked_at(piece, table)
    return found.reason if isinstance(found, Unfit) else None


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "one.parquet"
    pq.write_table(table_of(TABLE, [made(token) for token in range(10)]), found)
    return found


def test_a_file_that_is_as_its_node_says_has_no_fault(path):
    assert fault_of(piece_at(path), TABLE) is None


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"size_bytes": 5}, "bytes instead of 5"),
        ({"rows": 5}, "its footer has other rows and tokens than its node says"),
        ({"first": -5}, "its footer has other rows and tokens than its node says"),
        ({"last": 10}, "its footer has other rows and tokens than its node says"),
    ],
)
def test_a_file_that_is_not_what_its_node_says_is_not_read(path, changed, told):
    assert told in (fault_of(piece_at(path, **changed), TABLE) or "")


def test_a_file_that_is_gone_is_missing(path):
    piece = piece_at(path)
    path.unlink()

    assert "is missing" in (fault_of(piece, TABLE) or "")


def test_row_groups_out_of_order_are_not_believed(path):
    """Rows are skipped by what the footer says of their tokens, and no checksum covers it."""
    rows = [made(token) for token in (5, 6, 1, 2)]
    pq.write_table(table_of(TABLE, rows), path, row_group_size=2)

    fault = fault_of(piece_at(path, rows=4, first=1, last=6), TABLE)

    assert "row groups are not in the order" in (fault or "")


def test_a_file_that_is_no_segment_is_told_apart(path):
    path.write_bytes(b"not parquet at all")
    assert "cannot be read" in (fault_of(piece_at(path), TABLE) or "")

    pq.write_table(pa.table({"a": [1]}), path)
    assert "does not fit: its column _token" in (fault_of(piece_at(path), TABLE) or "")


def test_rows_are_not_skipped_by_bounds_that_changed(path):
    """An inner bound is one that nothing else contradicts."""
    pq.write_table(table_of(TABLE, [made(token) for token in range(10)]), path, row_group_size=5)
    content = path.read_bytes()
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    changed = content[:end] + content[end:].replace(as_stored(4), as_stored(2))
    path.write_bytes(changed)
    assert fault_of(piece_at(path), TABLE) is None

    known = piece_at(path, footer=hash_of(content[end:]))

    assert "has a footer with another checksum" in (fault_of(known, TABLE) or "")
    path.write_bytes(content)
    assert fault_of(known, TABLE) is None


def as_stored(number):
    return int(number).to_bytes(8, "little", signed=True)


def test_a_footer_with_a_name_that_is_no_text_is_told_apart(path):
    """One bit is enough; whatever else comes of it would end the driver."""
    content = path.read_bytes()
    path.write_bytes(content.replace(b"_digest", b"_\xe4igest"))

    assert "cannot be read" in (fault_of(piece_at(path), TABLE) or "")


def test_a_file_without_rows_is_none_of_a_node(path):
    pq.write_table(table_of(TABLE, []), path)

    assert "other rows and tokens" in (fault_of(piece_at(path), TABLE) or "")


def test_a_column_that_nobody_knows_yet_is_waited_for(path):
    content = table_of(TABLE, [made(token) for token in range(10)])
    pq.write_table(content.append_column("new", pa.array(range(10))), path)

    assert "has column new, which is newer" in (fault_of(piece_at(path), TABLE) or "")


def test_a_file_may_be_named_by_its_address(path):
    piece = Piece(
        node=NodeId(1),
        path=path.as_uri(),
        rows=10,
        first=0,
        last=9,
        size_bytes=path.stat().st_size,
    )

    assert fault_of(piece, TABLE) is None


def test_what_a_footer_tells_is_kept(path):
    content = table_of(TABLE, [made(token) for token in range(10)])
    pq.write_table(content, path, row_group_size=4)

    found = looked_at(piece_at(path), TABLE)

    assert isinstance(found, Piece)
    assert [(group.rows, group.span.first, group.span.last) for group in found.groups] == [
        (4, 0, 3),
        (4, 4, 7),
        (2, 8, 9),
    ]
    assert found.is_bare


def test_a_file_with_a_dropped_column_is_not_bare(path):
    content = table_of(TABLE, [made(token) for token in range(10)])
    pq.write_table(content, path)
    (gone, *_), kept = TABLE.columns[-1:], TABLE.columns[:-1]
    table = msgspec.structs.replace(TABLE, columns=kept, dropped=(gone,))

    found = looked_at(piece_at(path), table)

    assert isinstance(found, Piece)
    assert not found.is_bare
