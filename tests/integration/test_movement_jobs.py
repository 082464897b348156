"""What the jobs do with files: read only what overlaps, write sorted segments, count every row."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metadata.columns import ColumnType
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.schema import Column, Table, TableId
from metadata.tokens import FULL, MAXIMUM, MINIMUM, Range, Token
from movement import jobs
from movement.batches import Piece, parted, read_from
from movement.jobs import Wanted
from movement.receipts import added, differences
from store.merging import table_of
from store.rows import Row, digest_of, encoded

pytestmark = pytest.mark.asyncio(loop_scope="session")

TABLE = Table(
    id=TableId(1),
    keyspace="shop",
    name="orders",
    columns=tuple(Column(name, ColumnType.STRING) for name in ("id", "a", "b")),
    partition_key=("id",),
    created=Epoch(1),
    epoch=Epoch(1),
)


def made(token, *, key="k", timestamp=1, **columns):
    content = encoded({"id": key, **columns})
    return Row(
        table=TABLE.id,
        token=Token(token),
        key=key,
        timestamp=timestamp,
        digest=digest_of(content),
        content=content,
    )


def written(folder, name, rows, group_rows=4096):
    ordered = sorted(rows, key=lambda row: (row.token, row.key))
    path = folder / f"{name}.parquet"
    pq.write_table(table_of(TABLE, ordered), path, row_group_size=group_rows)
    return Piece(
        node=NodeId(1),
        path=str(path),
        rows=len(rows),
        size_bytes=path.stat().st_size,
        first=ordered[0].token,
        last=ordered[-1].token,
    )


def wanted(pieces, *ranges):
    listed = ranges or (FULL,)
    readings = tuple(read_from(dict.fromkeys(listed, (NodeId(1),)), pieces))
    return Wanted(table=TABLE, columns=TABLE.columns, ranges=listed, readings=readings)


async def figures(spark, piece):
    return await spark.run("x", lambda session: jobs.stored_figures(session, wanted([piece])))


async def test_a_null_is_not_taken_for_another_column(warm_spark, tmp_path):
    """Rows whose digests are the same, as no honest ones are."""
    found = []
    for columns in ({"a": "x"}, {"b": "x"}, {"a": "", "b": "x"}):
        row = msgspec.structs.replace(made(5, **columns), digest=1)
        found.append(await figures(warm_spark, written(tmp_path, "one", [row])))

    assert len({item[0].figures.xor for item in found}) == 3
    assert differences(found[0], found[1])


async def test_figures_do_not_depend_on_how_rows_lie_in_files(warm_spark, tmp_path):
    rows = [made(token * 2**50, key=f"k{token}", a=str(token)) for token in range(-500, 500)]
    whole = wanted([written(tmp_path, "whole", rows, group_rows=70)])
    halves = wanted([written(tmp_path, "one", rows[::2]), written(tmp_path, "other", rows[1::2])])

    one = await warm_spark.run("x", lambda session: jobs.stored_figures(session, whole))
    other = await warm_spark.run("x", lambda session: jobs.merged_figures(session, halves))

    assert one == other
    assert added(item.figures for item in one).rows == 1000


async def test_every_row_is_counted_in_its_own_range(warm_spark, tmp_path):
    """The minimum token belongs to the last range of the ring, though it sorts first."""
    tokens = [Token(n) for n in (MINIMUM, MINIMUM + 1, -7, 0, 1, 2**40, 2**40 + 1, MAXIMUM)]
    piece = written(tmp_path, "one", [made(token, key=f"k{token}") for token in tokens])
    edges = [MINIMUM, Token(-7), Token(0), Token(2**40), MINIMUM]
    parts = [Range(*pair) for pair in pairwise(edges)]

    found = await warm_spark.run("x", lambda s: jobs.stored_figures(s, wanted([piece], *parts)))

    for part in parts:
        inside = [token for token in tokens if token in part]
        counted = [item for item in found if item.slice.range == part]
        assert added(item.figures for item in counted).rows == len(inside)
        for token in inside:
            assert any(token in item.slice.part for item in counted), token


async def test_only_row_groups_that_overlap_are_read(warm_spark, tmp_path):
    rows = [made(token, key=f"k{token}") for token in range(10_000)]
    piece = written(tmp_path, "one", rows, group_rows=500)
    some = wanted([piece], Range(Token(4_200), Token(4_700)))

    def read(session):
        part = jobs._read(session, some).select("_token", "_key")
        found = len(part.collect())
        leaf = part._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
        return found, leaf.metrics().apply("numOutputRows").value()

    found, looked_at = await warm_spark.run("x", read)

    assert found == 500
    assert looked_at <= 1000


@pytest.mark.parametrize("size_bytes", [1, 2**30], ids=["many tasks", "one task"])
async def test_what_is_written_is_sorted_and_has_each_row_once(
    warm_spark, tmp_path, monkeypatch, size_bytes
):
    monkeypatch.setattr(jobs, "PARTITION_BYTES", size_bytes)
    monkeypatch.setattr(jobs, "PARTITIONS_MAX", 5)
    monkeypatch.setattr(jobs, "GROUP_ROWS_MAX", 300)
    tokens = [MINIMUM, MAXIMUM, *range(-(2**62), 2**62, 2**53)]
    old = [made(token, key=f"k{token}", a="old") for token in tokens]
    new = [made(token, key=f"k{token}", a="new", timestamp=2) for token in tokens[::2]]
    pieces = [written(tmp_path, "old", old), written(tmp_path, "new", new)]
    parts = (Range(MINIMUM, Token(0)), Range(Token(0), Token(2**40)), Range(Token(2**40), MINIMUM))
    both = wanted(pieces, *parts)
    assert parted(both.readings)[1]

    folder = str(tmp_path / "out")
    await warm_spark.run("x", lambda session: jobs.copy(session, both, folder))
    files = await warm_spark.run("x", lambda session: jobs.written(session, [folder]))

    found = [pq.ParquetFile(item.path) for item in files]
    assert (len(found) > 1) is (size_bytes == 1)
    for file in found:
        keys = file.read(["_token", "_key"]).to_pylist()
        assert keys == sorted(keys, key=lambda row: (row["_token"], row["_key"]))
        assert all(file.metadata.row_group(n).num_rows <= 300 for n in range(file.num_row_groups))
    rows = pa.concat_tables([file.read() for file in found]).to_pylist()
    assert sorted((row["_token"], row["a"]) for row in rows) == sorted(
        (token, "old" if place % 2 else "new") for place, token in enumerate(tokens)
    )


async def test_a_folder_may_have_any_name(warm_spark, tmp_path):
    """No character of it is a pattern, and none is taken for an escaped one."""
    odd = tmp_path / "a #b?[c]{d,e}*\\f%41 \u00e9"
    odd.mkdir()
    rows = [made(token, key=f"k{token}") for token in range(50)]
    pieces, folder = [written(odd, "one", rows), written(odd, "two", rows)], str(odd / "out")

    await warm_spark.run("x", lambda session: jobs.copy(session, wanted(pieces), folder))
    files = await warm_spark.run("x", lambda session: jobs.written(session, [folder]))

    assert {item.path.rpartition("/")[0] for item in files} == {folder}
    assert sum(pq.read_metadata(item.path).num_rows for item in files) == 50


async def test_files_that_do_not_overlap_are_copied_as_they_are(warm_spark, tmp_path):
    pieces = [
        written(
            tmp_path, name, [made(token, key=f"k{token}") for token in range(start, start + 50)]
        )
        for name, start in (("one", 0), ("other", 100))
    ]
    both = wanted(pieces)
    assert not parted(both.readings)[1]

    folder = str(tmp_path / "out")
    await warm_spark.run("x", lambda session: jobs.copy(session, both, folder))
    files = await warm_spark.run("x", lambda session: jobs.written(session, [folder]))

    read = [pq.read_table(item.path)["_token"].to_pylist() for item in files]
    assert all(part == sorted(part) for part in read)
    assert sorted(token for part in read for token in part) == [*range(50), *range(100, 150)]
