"""Ranges are moved by Spark from real stores to real stores, and every row arrives once."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from metadata.columns import ColumnType
from metadata.directory import NodeId
from metadata.partitioners import Partitioner
from metadata.plans import Step
from metadata.schema import Column, Simple
from metadata.tokens import FULL, MAXIMUM, MINIMUM, Range, Token
from movement.transfers import chosen, gained_by
from sequences.ports import WorkError
from services.driver.copying import Tools
from services.driver.moving import SparkMover
from store.folder import folder_at
from store.rows import newest, row_of, tombstone_of
from tests.builders import advanced_to, commit, everyone_applied, joined_cluster, only_sequence
from tests.fixtures.spark import nothing_runs
from tests.integration.moving_nodes import store_nodes
from transformations.ending import CancelSequence
from transformations.join import MidJoin, PrepareJoin
from transformations.leave import PrepareLeave
from transformations.replace import MidReplace, PrepareReplace
from transformations.schema import AlterTable, CreateKeyspace, CreateTable

pytestmark = pytest.mark.asyncio(loop_scope="session")

COLUMNS = (Column("id", ColumnType.STRING), *(Column(f"c_{kind}", kind) for kind in ColumnType))
QUARTER = 2**62
TOKENS = [[-QUARTER], [0], [QUARTER], [QUARTER + QUARTER // 2]]
"""The last range, from node 4 over the end of the ring, is node 1's."""


def cluster(*more):
    """Four nodes with a table at RF 3, and a fifth that is not in yet."""
    metadata = joined_cluster(4, None, spare=1, tokens=TOKENS)
    return commit(
        metadata,
        CreateKeyspace(name="shop", replication=Simple(3)),
        CreateTable(keyspace="shop", name="orders", columns=COLUMNS, partition_key=("id",)),
        *more,
    )


def joining(metadata=None):
    """Node 5 takes a piece that touches the minimum token on both sides."""
    prepare = PrepareJoin(node=NodeId(5), tokens=(Token(MINIMUM + 10**17), Token(10**18)))
    return advanced_to(commit(metadata or cluster(), prepare), Step.START)


def replacing(metadata=None):
    prepare = PrepareReplace(node=NodeId(5), replaced=NodeId(2), dead=(NodeId(2),))
    return advanced_to(commit(metadata or cluster(), prepare), Step.START)


def table_of(metadata):
    return metadata.schema.table("shop", "orders")


def made(table, number, timestamp, rng):
    """A row or a tombstone; among many some have the same timestamp and another value."""
    if rng.random() < 0.2:
        return tombstone_of(table, Partitioner.XXHASH64, f"key{number}", timestamp=timestamp)
    values = {
        "c_string": rng.choice(["", "ü", "\0", "x" * 50]),
        "c_bigint": rng.choice([-(2**63), 2**63 - 1, 0, number]),
        "c_int": rng.choice([-(2**31), 7]),
        "c_double": rng.choice([0.1, float("inf"), float("nan"), -5e-324]),
        "c_boolean": rng.choice([True, False]),
        "c_binary": bytes([number % 256]),
        "c_timestamp": rng.choice([-(2**63), 2**63 - 1, -1, number * 1_000_001]),
    }
    kept = {name: None if rng.random() < 0.3 else value for name, value in values.items()}
    known = {column.name for column in table.columns}
    columns = {name: value for name, value in kept.items() if name in known}
    return row_of(table, Partitioner.XXHASH64, f"key{number}", columns=columns, timestamp=timestamp)


def at_the_edges(table):
    """Rows whose tokens no key would easily hash to."""
    row = row_of(table, Partitioner.XXHASH64, "edge", columns={"c_int": 3}, timestamp=5)
    return [msgspec.structs.replace(row, token=token) for token in (MINIMUM, MAXIMUM, Token(0))]


async def fill(nodes, *, rows=400, seed=1, rounds=2, only=None):
    """Every node has its own versions, in several segments and some still hot."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    table = table_of(nodes.metadata)
    for node in only or (1, 2, 3, 4):
        for turn in range(rounds):
            if turn:
                await nodes.stores[node].flush(table, [FULL])
            numbers = rng.sample(range(rows), rows // 2)
            await nodes.stores[node].put(
                table, [made(table, number, rng.randrange(4), rng) for number in numbers]
            )
        await nodes.stores[node].put(table, at_the_edges(table))


async def expected(nodes, sequence, target, answering=(1, 2, 3, 4)):
    """What the target must hold: of each range the newest of what its sources have."""
    found: dict[tuple, Any] = {}
    transfers = chosen(gained_by(nodes.metadata, sequence), sequence, set(answering))
    assert isinstance(transfers, list), transfers
    for transfer in transfers:
        if transfer.gained.target != target:
            continue
        for node in transfer.sources:
            span = transfer.gained.change.range
            for row in await nodes.rows(node, transfer.gained.table, [span]):
                place = (row.token, row.key)
                found[place] = newest([found.get(place), row])
    return [found[place] for place in sorted(found)]


def first_source(nodes):
    sequence = only_sequence(nodes.metadata)
    return chosen(gained_by(nodes.metadata, sequence), sequence, set(nodes.stores))[0].sources[0]  # type: ignore[index] # there are enough


def mover_of(spark, nodes, **given):
    async def still_open(session):
        return nodes.metadata.sessions.find(session) is not None

    clock = asyncio.get_running_loop().time
    return SparkMover(Tools(spark, nodes, given.get("still_open", still_open)), clock)


async def moved(spark, nodes):
    return await mover_of(spark, nodes).move(nodes.metadata, only_sequence(nodes.metadata))


def mid(metadata, kind, receipts):
    """The log takes these receipts."""
    sequence = only_sequence(metadata)
    barrier = everyone_applied(metadata, sequence)
    return commit(metadata, kind(sequence=sequence.id, barrier=barrier, receipts=receipts))


@pytest_asyncio.fixture(loop_scope="session")
async def joined(tmp_path):
    async with store_nodes(tmp_path, joining()) as nodes:
        await fill(nodes)
        yield nodes


async def test_a_join_brings_every_row_of_the_gained_ranges(warm_spark, joined):
    wanted = await expected(joined, only_sequence(joined.metadata), 5)

    receipts = await moved(warm_spark, joined)

    assert await joined.rows(5, table_of(joined.metadata)) == wanted
    assert len(wanted) > 100
    assert any(row.token == MINIMUM for row in wanted)
    assert sum(receipt.source.rows for receipt in receipts) == len(wanted)
    mid(joined.metadata, MidJoin, receipts)


async def test_a_dead_node_is_replaced_from_all_who_are_needed(warm_spark, tmp_path):
    """Rows that only the dead node and one other have acknowledged are there again."""
    async with store_nodes(tmp_path, replacing()) as nodes:
        nodes.down.add(2)
        await fill(nodes, only=(1,))
        await fill(nodes, only=(3, 4), rows=50, seed=2)
        sequence = only_sequence(nodes.metadata)
        wanted = await expected(nodes, sequence, 5, answering=(1, 3, 4))

        receipts = await moved(warm_spark, nodes)

        found = await nodes.rows(5, table_of(nodes.metadata))
        assert found == wanted
        assert {row.key for row in found} - {
            row.key for row in await nodes.rows(3, table_of(nodes.metadata))
        }
        assert all(len(receipt.sources) == 2 for receipt in receipts)
        mid(nodes.metadata, MidReplace, receipts)


async def test_a_movement_waits_for_sources_by_name(warm_spark, tmp_path):
    async with store_nodes(tmp_path, replacing()) as nodes:
        nodes.down |= {2, 3}

        with pytest.raises(WorkError, match=r"waits for 1 of nodes 3 to answer"):
            await moved(warm_spark, nodes)


async def test_a_source_that_cannot_flush_is_passed_over(warm_spark, joined):
    """There are enough others; their rows together are as good."""
    refuse, first = joined.flush, first_source(joined)

    async def flush(node, wanted):
        if node == first:
            raise WorkError(f"node {node} says: no room")
        return await refuse(node, wanted)

    joined.flush = flush
    receipts = await moved(warm_spark, joined)

    assert all(source.node != first for item in receipts for source in item.sources)
    mid(joined.metadata, MidJoin, receipts)


async def test_where_nobody_gains_nothing_is_moved(warm_spark, tmp_path):
    """Who is left has everything already, so there is no session either."""
    metadata = commit(joined_cluster(3), PrepareLeave(node=NodeId(1), force=True))
    async with store_nodes(tmp_path, advanced_to(metadata, Step.START)) as nodes:
        assert only_sequence(nodes.metadata).session is None
        assert await moved(warm_spark, nodes) == ()


async def test_tables_without_rows_have_receipts_of_none(warm_spark, tmp_path):
    async with store_nodes(tmp_path, joining()) as nodes:
        receipts = await moved(warm_spark, nodes)

        assert {receipt.source.rows for receipt in receipts} == {0}
        mid(nodes.metadata, MidJoin, receipts)


async def test_columns_come_and_go(warm_spark, tmp_path):
    """A file from before has nulls for a new column, and its dropped one is not copied."""
    async with store_nodes(tmp_path, cluster()) as nodes:
        await fill(nodes)
        for node in (1, 2, 3, 4):
            await nodes.stores[node].flush(table_of(nodes.metadata), [FULL])
        alter = AlterTable(
            keyspace="shop",
            name="orders",
            add=(Column("_token", ColumnType.STRING), Column("ID", ColumnType.INT)),
            drop=("c_binary",),
        )
        nodes.metadata = joining(commit(nodes.metadata, alter))
        table = table_of(nodes.metadata)
        late = row_of(
            table,
            Partitioner.XXHASH64,
            "late",
            columns={"_token": "mine", "ID": 3},
            timestamp=9,
        )
        for node in (1, 2, 3, 4):
            await nodes.stores[node].put(table, [msgspec.structs.replace(late, token=MINIMUM)])
        wanted = await expected(nodes, only_sequence(nodes.metadata), 5)

        receipts = await moved(warm_spark, nodes)

        found = await nodes.rows(5, table)
        assert found == wanted
        assert found[1].columns(table) == {"id": "late", "_token": "mine", "ID": 3}
        mid(nodes.metadata, MidJoin, receipts)


async def test_one_version_with_and_without_a_column_is_settled(warm_spark, tmp_path):
    """A column that was dropped and came back may be left in one file and gone in another."""
    metadata = replacing()
    table = table_of(metadata)
    async with store_nodes(tmp_path, metadata) as nodes:
        nodes.down.add(2)
        keys = [f"key{number}" for number in range(60)]
        for node in (1, 3, 4):
            for key in keys:
                left = random.Random(f"{node} {key}").choice([{}, {"c_int": 5}])
                row = row_of(table, Partitioner.XXHASH64, key, columns=left, timestamp=7)
                await nodes.stores[node].put(table, [msgspec.structs.replace(row, digest=1)])

        receipts = await moved(warm_spark, nodes)

        assert sum(receipt.source.rows for receipt in receipts) > 20
        mid(nodes.metadata, MidReplace, receipts)


async def test_a_column_that_is_not_known_yet_is_not_lost(warm_spark, tmp_path):
    """A driver that is behind tries again later rather than copy less than there is."""
    async with store_nodes(tmp_path, joining()) as nodes:
        await fill(nodes)
        before = nodes.metadata
        alter = AlterTable(keyspace="shop", name="orders", add=(Column("new", ColumnType.INT),))
        nodes.metadata = commit(before, alter)
        await fill(nodes, seed=3)
        mover = mover_of(warm_spark, nodes)

        with pytest.raises(WorkError, match="has column new, which is newer than what is known"):
            await mover.move(before, only_sequence(before))

        receipts = await mover.move(nodes.metadata, only_sequence(nodes.metadata))
        mid(nodes.metadata, MidJoin, receipts)


async def test_rows_that_were_cleaned_away_stay_away(warm_spark, joined):
    table, sequence = table_of(joined.metadata), only_sequence(joined.metadata)
    gone = gained_by(joined.metadata, sequence)[0].change.range
    middle = Range(gone.left, Token(gone.left + gone.width // 2))
    for node in (1, 2, 3, 4):
        await joined.stores[node].flush(table, [FULL])
        await joined.stores[node].cleanup(table.id, [middle])
    wanted = await expected(joined, sequence, 5)

    receipts = await moved(warm_spark, joined)

    assert await joined.rows(5, table) == wanted
    assert not any(row.token in middle for row in wanted)
    mid(joined.metadata, MidJoin, receipts)


def _truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def _flip(path):
    """A byte in the middle of a page: its size and footer are as they were."""
    content = bytearray(path.read_bytes())
    content[400] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (_truncate, "bytes instead of"),
        (lambda path: path.unlink(), "is missing"),
        (_flip, "CRC checksum verification failed"),
    ],
    ids=["truncated", "missing", "changed"],
)
async def test_a_bad_segment_stops_a_movement_until_it_is_good(
    warm_spark,
    joined,
    spoil,
    told,
):
    """Where no other source is left; here all of them have a bad one."""
    table = table_of(joined.metadata)
    contents = {}
    for node in (1, 2, 3, 4):
        path = await first_segment(joined, node)
        contents[path] = path.read_bytes()
        spoil(path)

    with pytest.raises(WorkError, match=told) as caught:
        await moved(warm_spark, joined)

    assert any(path.name in str(caught.value) for path in contents)
    assert "shop.orders" in str(caught.value)
    assert await joined.rows(5, table) == []
    assert joined.staged(5) == []
    for path, content in contents.items():
        path.write_bytes(content)
    mid(joined.metadata, MidJoin, await moved(warm_spark, joined))


async def first_segment(nodes, node):
    table = table_of(nodes.metadata)
    await nodes.stores[node].flush(table, [FULL])
    segment = (await nodes.stores[node].segments(table.id, [FULL]))[0]
    return nodes.folder(node) / segment.path


async def test_a_source_with_a_bad_segment_is_passed_over(warm_spark, joined):
    """As one that cannot flush: enough others have all that was acknowledged."""
    bad = first_source(joined)
    others = {1, 2, 3, 4} - {bad}
    wanted = await expected(joined, only_sequence(joined.metadata), 5, answering=others)
    _truncate(await first_segment(joined, bad))

    receipts = await moved(warm_spark, joined)

    assert all(source.node != bad for item in receipts for source in item.sources)
    assert await joined.rows(5, table_of(joined.metadata)) == wanted
    mid(joined.metadata, MidJoin, receipts)


async def test_two_drivers_do_no_harm(warm_spark, joined):
    one, other = await asyncio.gather(moved(warm_spark, joined), moved(warm_spark, joined))

    assert one == other
    names = [path for path in joined.staged(5) if path.suffix == ".json"]
    assert len(names) == 1
    wanted = await expected(joined, only_sequence(joined.metadata), 5)
    assert await joined.rows(5, table_of(joined.metadata)) == wanted
    mid(joined.metadata, MidJoin, one)


async def test_a_difference_is_located(warm_spark, joined):
    """A target that lost a file says in which part of which table."""
    imported = joined.imported

    async def forgetful(node, session, name):
        return (await imported(node, session, name))[1:]

    joined.imported = forgetful

    with pytest.raises(WorkError, match=r"differ in \d+ places: table 1, \(.*\]: \d+ rows were"):
        await moved(warm_spark, joined)


async def test_a_cancelled_movement_leaves_nothing(warm_spark, joined):
    mover, sequence = mover_of(warm_spark, joined), only_sequence(joined.metadata)
    task = asyncio.ensure_future(mover.move(joined.metadata, sequence))
    async with asyncio.timeout(30):
        while not (await warm_spark.tasks(f"sequence-{sequence.id}")).all:
            assert not task.done()
            await asyncio.sleep(0)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await nothing_runs(warm_spark, f"sequence-{sequence.id}")
    assert [path for path in joined.staged(5) if path.suffix == ".json"] == []
    assert await joined.rows(5, table_of(joined.metadata)) == []
    assert mover.moved(sequence.id) is None
    await mover.sweep(sequence)
    mid(joined.metadata, MidJoin, await mover.move(joined.metadata, sequence))


@pytest.mark.parametrize("looks_open", [False, True], ids=["told", "not told"])
async def test_a_zombie_has_no_effect(warm_spark, joined, looks_open):
    """Whoever goes on after its session was closed can neither publish nor import."""
    stale = joined.metadata

    async def closed_meanwhile(_session):
        joined.metadata = commit(stale, CancelSequence(sequence=only_sequence(stale).id))
        return looks_open

    mover = mover_of(warm_spark, joined, still_open=closed_meanwhile)
    with pytest.raises(WorkError, match=r"was closed meanwhile|is not open"):
        await mover.move(stale, only_sequence(stale))

    assert await joined.rows(5, table_of(joined.metadata)) == []
    assert joined.imports == {}
    assert looks_open or joined.staged(5) == []
    await joined.stores[5].sweep_staged(joined.metadata.sessions.open.__contains__)
    assert joined.staged(5) == []


async def test_a_movement_tells_how_far_it_is(warm_spark, joined):
    mover, sequence = mover_of(warm_spark, joined), only_sequence(joined.metadata)
    told = []
    before = joined.take_over

    async def take_over(node, wanted):
        told.append(mover.moved(sequence.id))
        await before(node, wanted)

    joined.take_over = take_over
    await mover.move(joined.metadata, sequence)

    assert told[0].rows_done == told[0].rows_total > 0
    assert told[0].bytes_done == told[0].bytes_total > 0
    assert told[0].phase == "copying"
    assert mover.moved(sequence.id) is None


async def test_details_are_kept_by_their_hash(warm_spark, joined, tmp_path):
    async def still_open(_session):
        return True

    folder = folder_at(str(tmp_path / "details"))
    tools = Tools(warm_spark, joined, still_open)
    mover = SparkMover(tools, asyncio.get_running_loop().time, folder)

    receipts = await mover.move(joined.metadata, only_sequence(joined.metadata))

    for receipt in receipts:
        assert folder.sha256(f"{receipt.details}.json") == receipt.details
