"""Segments of which every row is wanted are taken as they are, and proved like all others."""

from __future__ import annotations

import pytest
import pytest_asyncio

from metadata.tokens import FULL
from movement import jobs, taking
from movement.spark import JobFailedError
from movement.transfers import gained_by
from sequences.ports import WorkError
from tests.builders import only_sequence
from tests.integration.moving_nodes import store_nodes
from tests.integration.test_movement_spark import (
    expected,
    fill,
    joining,
    mid,
    moved,
    mover_of,
    replacing,
    table_of,
)
from transformations.join import MidJoin
from transformations.replace import MidReplace

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROWS = 400


@pytest_asyncio.fixture(loop_scope="session")
async def joined(tmp_path):
    """Every node has flushed one gained range by itself, and the rest together."""
    async with store_nodes(tmp_path, joining()) as nodes:
        await fill(nodes, rows=ROWS, rounds=1)
        table = table_of(nodes.metadata)
        for span in gained(nodes)[:-1]:
            for node in (1, 2, 3, 4):
                await nodes.stores[node].flush(table, [span])
        yield nodes


def gained(nodes):
    found = gained_by(nodes.metadata, only_sequence(nodes.metadata))
    return sorted(item.change.range for item in found)


def segments(nodes, node, kind):
    """By content, what jobs have left at a node in sub-folders of this name."""
    return [path.read_bytes() for path in nodes.staged(node) if path.parent.name == kind]


def held(nodes):
    """By content, all segments of the sources."""
    folders = [nodes.folder(node) / "segments" for node in (1, 2, 3, 4)]
    return [path.read_bytes() for folder in folders for path in folder.rglob("*.parquet")]


async def test_a_segment_of_which_all_is_wanted_is_taken_as_it_is(warm_spark, joined):
    wanted = await expected(joined, only_sequence(joined.metadata), 5)

    receipts = await moved(warm_spark, joined)

    whole = segments(joined, 5, "whole")
    assert len(whole) > 1
    assert set(whole) <= set(held(joined))
    assert segments(joined, 5, "rows")
    assert await joined.rows(5, table_of(joined.metadata)) == wanted
    assert sum(receipt.source.rows for receipt in receipts) == len(wanted) > 100
    mid(joined.metadata, MidJoin, receipts)


async def test_what_was_taken_is_used_again(warm_spark, joined):
    first = await moved(warm_spark, joined)
    files = joined.staged(5)

    assert await moved(warm_spark, joined) == first
    assert joined.staged(5) == files


@pytest.mark.parametrize("place", [400, -3], ids=["in a page", "at the end"])
async def test_a_segment_that_changed_is_not_taken(warm_spark, joined, place):
    """The one is noticed when its rows are counted, the other at the latest by the target."""
    spoilt = {}
    for node in (1, 2, 3, 4):
        for path in (joined.folder(node) / "segments").rglob("*.parquet"):
            spoilt[path] = path.read_bytes()
            content = bytearray(spoilt[path])
            content[place] ^= 1
            path.write_bytes(content)

    with pytest.raises(WorkError, match=r"checksum|CRC|cannot be read"):
        await moved(warm_spark, joined)

    assert await joined.rows(5, table_of(joined.metadata)) == []
    for path, content in spoilt.items():
        path.write_bytes(content)
    mid(joined.metadata, MidJoin, await moved(warm_spark, joined))


async def test_where_files_cannot_be_taken_their_rows_are(warm_spark, joined, monkeypatch):
    def fail(*_given):
        raise JobFailedError("the workers have no Python")

    monkeypatch.setattr(taking, "taken", fail)
    wanted = await expected(joined, only_sequence(joined.metadata), 5)

    receipts = await moved(warm_spark, joined)

    assert segments(joined, 5, "whole") == []
    assert await joined.rows(5, table_of(joined.metadata)) == wanted
    mid(joined.metadata, MidJoin, receipts)


async def test_every_task_writes_a_file_of_its_own(warm_spark, tmp_path):
    """So one that is run again, or goes on as a zombie, changes nothing that was told of."""
    source, folder = tmp_path / "a.parquet", tmp_path / "out"
    source.write_bytes(b"content")
    paths = [str(source)] * 3

    found = await warm_spark.run("x", lambda spark: taking.taken(spark, paths, str(folder)))

    assert len(set(found)) == 3
    assert {(folder / name).read_bytes() for name in found} == {b"content"}
    address = source.as_uri()
    there = await warm_spark.run("x", lambda spark: taking.taken(spark, [address], str(folder)))
    assert (folder / there[0]).read_bytes() == b"content"


async def test_a_file_is_hashed_piece_by_piece(warm_spark, tmp_path):
    """Also one that is larger than a piece, by its path or its address."""
    path = tmp_path / "a.parquet"
    path.write_bytes(b"0123456789" * 300_000)
    paths = [str(path), path.as_uri()]

    found = await warm_spark.run("x", lambda spark: taking.hashed(spark, paths))
    whole = await warm_spark.run("x", lambda spark: jobs.written(spark, paths[:1]))

    assert [item.path for item in found] == paths
    assert {(item.size_bytes, item.sha256) for item in found} == {
        (whole[0].size_bytes, whole[0].sha256)
    }


async def test_files_are_checked_where_workers_have_no_python(warm_spark, joined, monkeypatch):
    def fail(*_given):
        raise JobFailedError("the workers have no Python")

    async def dead(node, _wanted):
        raise WorkError(f"node {node} does not answer")

    monkeypatch.setattr(taking, "hashed", fail)
    imports, joined.take_over = joined.take_over, dead
    with pytest.raises(WorkError, match="node 5 does not answer"):
        await moved(warm_spark, joined)
    joined.take_over, files = imports, joined.staged(5)

    mid(joined.metadata, MidJoin, await moved(warm_spark, joined))
    assert joined.staged(5) == files


@pytest.mark.parametrize("sources", [1, 2])
async def test_what_is_expected_is_about_what_is_moved(warm_spark, tmp_path, monkeypatch, sources):
    """Also where a node has nothing between its ranges, and where several have the same rows."""
    metadata = joining() if sources == 1 else replacing()
    told = []
    async with store_nodes(tmp_path, metadata) as nodes:
        sequence, table = only_sequence(metadata), table_of(metadata)
        if sources == 2:
            nodes.down.add(2)
        for node in (1, 2, 3, 4):
            await fill(nodes, rows=ROWS, rounds=1, only=(node,))
            await nodes.stores[node].flush(table, [FULL])
        mover, count = mover_of(warm_spark, nodes), jobs.merged_figures

        def counted(spark, wanted):
            told.append(mover.moved(sequence.id))
            return count(spark, wanted)

        async def still_open(_session):
            told.append(mover.moved(sequence.id))
            return True

        monkeypatch.setattr(jobs, "merged_figures", counted)
        mover = mover_of(warm_spark, nodes, still_open=still_open)
        receipts = await mover.move(metadata, sequence)

        rows = sum(receipt.source.rows for receipt in receipts)
        before, after = told
        assert rows > 50
        assert before.rows_done == 0
        assert before.rows_total == pytest.approx(rows, rel=0.1)
        assert before.bytes_total > 0
        staged = sum(len(content) for content in segments(nodes, 5, "rows"))
        assert (after.rows_done, after.rows_total) == (rows, rows)
        assert (after.bytes_done, after.bytes_total) == (staged, staged)
        mid(metadata, MidJoin if sources == 1 else MidReplace, receipts)
