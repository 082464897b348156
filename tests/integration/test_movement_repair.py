"""After a repair every owner of a range has what any of them had."""

from __future__ import annotations

import pytest

from metadata.directory import NodeId
from metadata.tokens import FULL, Range, Token
from movement.transfers import Gained
from sequences.ports import WorkError
from services.driver.copying import Tools
from services.driver.repairing import Repairer, shared_by
from store.rows import newest
from tests.builders import commit
from tests.integration.moving_nodes import store_nodes
from tests.integration.test_movement_spark import cluster, fill, table_of
from transformations.sessions import Errand, OpenSession

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

    return Repairer(Tools(spark, nodes, still_open), lambda: 0.0)


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
async def test_a_repair_needs_every_owner(warm_spark, tmp_path):
    async with store_nodes(tmp_path, cluster()) as nodes:
        await fill(nodes, rows=20)
        session = opened(nodes)
        nodes.down.add(3)

        with pytest.raises(WorkError, match="node 3 does not answer"):
            await repairer(warm_spark, nodes).repair(nodes.metadata, session)

        assert nodes.covered == {}


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
