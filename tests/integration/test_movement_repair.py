"""After a repair every owner of a range has what any of them had."""

from __future__ import annotations

import pytest

from metadata.directory import NodeId
from metadata.partitioners import Partitioner
from metadata.plans import Step
from metadata.schema import Simple
from metadata.tokens import FULL, Range, Token
from movement.transfers import Gained
from sequences.ports import WorkError
from services.driver.copying import Tools
from services.driver.repairing import Repairer, shared_by
from store.rows import newest, row_of, tombstone_of
from tests.builders import advanced_to, commit, joined_cluster
from tests.integration.moving_nodes import store_nodes
from tests.integration.test_movement_spark import TOKENS, cluster, fill, moved, table_of
from transformations.replace import PrepareReplace
from transformations.schema import CreateKeyspace
from transformations.sessions import CloseSession, Errand, OpenSession

ASYNC = pytest.mark.asyncio(loop_scope="session")

SOME = Range(Token(-(2**62)), Token(2**62))


def opened(nodes, ranges=(SOME,), names=(1, 2, 3, 4)):
    """The session of a repair, which every node has seen."""
    session = OpenSession(purpose=Errand.REPAIR, nodes=tuple(map(NodeId, names)), ranges=ranges)
    nodes.metadata = commit(nodes.metadata, session)
    (found,) = nodes.metadata.sessions.open.values()
    return found


def repairer(spark, nodes):
    async def still_open(session):
        return nodes.metadata.sessions.find(session) is not None

    async def newest():
        return nodes.metadata

    return Repairer(Tools(spark, nodes, still_open), newest, lambda: 0.0)


async def over(nodes, session):
    """The session is closed, and every node has compacted all it holds."""
    nodes.metadata = commit(nodes.metadata, CloseSession(session=session.id))
    for store in nodes.stores.values():
        await store.unpin(session.id)
        await store.compact_all(table_of(nodes.metadata))


@ASYNC
async def test_owners_agree_after_a_repair(warm_spark, tmp_path):
    async with store_nodes(tmp_path, cluster()) as nodes:
        await fill(nodes, rows=100)
        table, session = table_of(nodes.metadata), opened(nodes)
        wanted = {}
        for item in shared_by(nodes.metadata, [SOME]):
            span = item.change.range
            found = [
                row for node in item.change.before for row in await nodes.rows(node, table, [span])
            ]
            wanted[span] = {
                row.key: newest(other for other in found if other.key == row.key) for row in found
            }

        await repairer(warm_spark, nodes).repair(nodes.metadata, session)

        for item in shared_by(nodes.metadata, [SOME]):
            held = await nodes.rows(item.target, table, [item.change.range])
            assert {row.key: row for row in held} == wanted[item.change.range]
        assert sorted(nodes.covered) == [1, 2, 3, 4]
        assert sum(map(len, wanted.values())) > 30


@ASYNC
async def test_tombstones_go_after_a_repair(warm_spark, tmp_path):
    """From what was there before it, and from what it has brought."""
    async with store_nodes(tmp_path, cluster()) as nodes:
        await fill(nodes, rows=100)
        table, session = table_of(nodes.metadata), opened(nodes)
        shared = {
            node: [
                item.change.range
                for item in shared_by(nodes.metadata, [SOME])
                if item.target == node
            ]
            for node in (1, 2, 3, 4)
        }
        await repairer(warm_spark, nodes).repair(nodes.metadata, session)
        before = {node: await nodes.rows(node, table, shared[node]) for node in shared}

        await over(nodes, session)

        for node, rows in before.items():
            assert any(row.deleted for row in rows)
            kept = [row for row in rows if not row.deleted]
            assert await nodes.rows(node, table, shared[node]) == kept


@ASYNC
async def test_what_another_repair_may_have_read_before_keeps_its_tombstones(warm_spark, tmp_path):
    async with store_nodes(tmp_path, cluster()) as nodes:
        await fill(nodes, rows=20)
        table, session = table_of(nodes.metadata), opened(nodes)
        nodes.metadata = commit(
            nodes.metadata,
            OpenSession(purpose=Errand.REPAIR, nodes=session.nodes, ranges=(FULL,)),
        )
        await repairer(warm_spark, nodes).repair(nodes.metadata, session)

        assert set(nodes.covered.values()) == {0}
        before = {node: await nodes.rows(node, table) for node in nodes.stores}
        await over(nodes, session)
        assert {node: await nodes.rows(node, table) for node in nodes.stores} == before


class Overtaken:
    """A replacement that copies from an owner before what the repair brings has come there."""

    def __init__(self, spark, nodes, owner, last):
        self._spark, self._nodes, self._owner, self._last = spark, nodes, owner, last
        self._take_over = nodes.take_over

    async def __call__(self, node, wanted):
        if node != self._owner:
            await self._take_over(node, wanted)
            return
        nodes = self._nodes
        nodes.take_over = self._take_over
        prepare = PrepareReplace(node=NodeId(5), replaced=self._owner)
        nodes.metadata = advanced_to(commit(nodes.metadata, prepare), Step.START)
        await moved(self._spark, nodes)
        await self._take_over(node, wanted)
        nodes.metadata = advanced_to(nodes.metadata, self._last)


@ASYNC
@pytest.mark.parametrize(
    ("last", "told"),
    [
        (Step.MID, r"sequence \d+ has begun to move these ranges"),
        (Step.RETIRE, "the owners of shop.orders have changed"),
    ],
)
async def test_a_tombstone_stays_that_a_replacement_has_overtaken(warm_spark, tmp_path, last, told):
    """Its copy has the old row; of the owners one alone does not make a quorum with it."""
    async with store_nodes(tmp_path, cluster()) as nodes:
        table, session = table_of(nodes.metadata), opened(nodes, (FULL,), (1, 2, 3, 4, 5))
        old = row_of(table, Partitioner.XXHASH64, "k", columns={"c_int": 1}, timestamp=1)
        deleted = tombstone_of(table, Partitioner.XXHASH64, "k", timestamp=2)
        one, two, late = nodes.metadata.placements.find(Simple(3).key).writers(old.token).owners
        for node, row in ((one, deleted), (two, deleted), (late, old)):
            await nodes.stores[node].put(table, [row])
        nodes.take_over = Overtaken(warm_spark, nodes, late, last)
        subject = repairer(warm_spark, nodes)

        with pytest.raises(WorkError, match=told):
            await subject.repair(nodes.metadata, session)

        assert nodes.covered == {}
        assert await nodes.rows(5, table) == [old]
        for store in nodes.stores.values():
            await store.unpin(session.id)
            await store.compact_all(table)
        assert await nodes.rows(one, table) == await nodes.rows(two, table) == [deleted]

        if last is Step.RETIRE:
            await subject.repair(nodes.metadata, session)
            await over(nodes, session)
            assert [await nodes.rows(node, table) for node in (one, two, 5)] == [[], [], []]


async def deleted_meanwhile(nodes, table, old_nodes):
    """A row that was deleted and repaired away, and is still in the copies that came back."""
    key, partitioner = "k", Partitioner.XXHASH64
    old = row_of(table, partitioner, key, columns={"c_int": 1}, timestamp=1)
    placement = nodes.metadata.placements.find(Simple(3).key)
    owners = placement.writers(old.token).owners
    for node in owners[:old_nodes]:
        await nodes.stores[node].put(table, [old])
        nodes.old[node, table.id] = (FULL,)
    kept = [
        row_of(table, partitioner, f"k{number}", columns={"c_int": number}, timestamp=2)
        for number in range(20)
    ]
    for row in kept:
        for node in placement.writers(row.token).owners:
            if (node, table.id) not in nodes.old:
                await nodes.stores[node].put(table, [row])
    return old, owners, kept


@ASYNC
async def test_a_node_that_was_set_back_brings_back_nothing_that_was_deleted(warm_spark, tmp_path):
    """The tombstone is gone, because all owners had it; then one of them became an old copy."""
    async with store_nodes(tmp_path, cluster()) as nodes:
        table, session = table_of(nodes.metadata), opened(nodes, (FULL,))
        old, owners, kept = await deleted_meanwhile(nodes, table, 1)

        await repairer(warm_spark, nodes).repair(nodes.metadata, session)

        placement = nodes.metadata.placements.find(Simple(3).key)
        for node in (1, 2, 3, 4):
            held = await nodes.rows(node, table)
            owned = [row for row in kept if node in placement.writers(row.token).owners]
            assert {row.key for row in held} == {row.key for row in owned}, node
        assert {node for node, _ in nodes.forgotten} == {owners[0]}
        assert any(old.token in part for _, ranges in nodes.forgotten for part in ranges)


@ASYNC
async def test_old_rows_count_where_the_other_owners_are_too_few(warm_spark, tmp_path):
    """Two of three came back as old copies: what both had acknowledged, nobody else may have."""
    async with store_nodes(tmp_path, cluster()) as nodes:
        table, session = table_of(nodes.metadata), opened(nodes, (FULL,))
        old, owners, _ = await deleted_meanwhile(nodes, table, 2)

        await repairer(warm_spark, nodes).repair(nodes.metadata, session)

        for node in owners:
            assert old in await nodes.rows(node, table), node
        forgotten = [part for _, ranges in nodes.forgotten for part in ranges]
        assert not any(old.token in part for part in forgotten)


@ASYNC
async def test_nothing_is_forgotten_before_all_is_staged(warm_spark, tmp_path):
    async with store_nodes(tmp_path, cluster()) as nodes:
        table, session = table_of(nodes.metadata), opened(nodes, (FULL,))
        old, owners, _ = await deleted_meanwhile(nodes, table, 1)
        staging = nodes.staging
        (tmp_path / "full").write_text("")

        async def staging_but_one(node, wanted):
            found = await staging(node, wanted)
            return str(tmp_path / "full" / "staged") if node == owners[1] else found

        nodes.staging = staging_but_one
        with pytest.raises(WorkError, match="full"):
            await repairer(warm_spark, nodes).repair(nodes.metadata, session)

        assert nodes.forgotten == []
        assert await nodes.rows(owners[0], table) == [old]


@ASYNC
async def test_owners_are_told_where_there_is_no_table(warm_spark, tmp_path):
    """One of them may have been set back, and serve nothing before it is repaired."""
    metadata = commit(
        joined_cluster(4, None, spare=1, tokens=TOKENS),
        CreateKeyspace(name="shop", replication=Simple(3)),
    )
    async with store_nodes(tmp_path, metadata) as nodes:
        session = opened(nodes, (FULL,), (1, 2, 3, 4, 5))

        await repairer(warm_spark, nodes).repair(nodes.metadata, session)

        assert nodes.covered == {1: 0, 2: 0, 3: 0, 4: 0}


@ASYNC
async def test_a_repair_needs_every_owner(warm_spark, tmp_path):
    async with store_nodes(tmp_path, cluster()) as nodes:
        await fill(nodes, rows=20)
        session = opened(nodes)
        nodes.down.add(3)

        with pytest.raises(WorkError, match="node 3 does not answer"):
            await repairer(warm_spark, nodes).repair(nodes.metadata, session)

        assert nodes.covered == {}


@ASYNC
async def test_a_repair_that_one_owner_has_no_room_for_leaves_nothing_at_the_others(
    warm_spark, tmp_path
):
    """Each try brings all of it: what stays behind would fill their disks, too."""
    async with store_nodes(tmp_path, cluster()) as nodes:
        await fill(nodes, rows=40)
        session, staging = opened(nodes), nodes.staging
        (tmp_path / "full").write_text("")

        async def staging_but_one(node, wanted):
            return str(tmp_path / "full" / "staged") if node == 4 else await staging(node, wanted)

        nodes.staging = staging_but_one
        with pytest.raises(WorkError, match=r"for node 4: .*full"):
            await repairer(warm_spark, nodes).repair(nodes.metadata, session)

        assert nodes.imports == {}
        assert [nodes.staged(node) for node in (1, 2, 3)] == [[], [], []]
        nodes.staging = staging
        await repairer(warm_spark, nodes).repair(nodes.metadata, session)
        assert sorted(nodes.covered) == [1, 2, 3, 4]


@ASYNC
async def test_a_repair_of_some_owners_is_none(warm_spark, tmp_path):
    async with store_nodes(tmp_path, cluster()) as nodes:
        session = opened(nodes, names=(1, 2))

        with pytest.raises(WorkError, match=r"does not name nodes 3, 4: open one for all owners"):
            await repairer(warm_spark, nodes).repair(nodes.metadata, session)


def test_every_owner_shares_every_part_once():
    metadata = cluster()

    found = list(shared_by(metadata, [FULL]))

    assert all(isinstance(item, Gained) for item in found)
    assert len({(item.change.range, item.target) for item in found}) == len(found) == 5 * 3
