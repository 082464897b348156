"""Rows of a node that was set back, as they were then: who may read them, and when they go."""

import asyncio
import shutil
from functools import partial

import pytest

from metadata.epoch import Epoch
from metadata.tokens import FULL
from services.local.waiting import until
from services.node.data.fitness import _Doubt
from tests.integration.data_cluster import data_cluster
from tests.integration.nodes import TIMEOUT_S
from tests.integration.test_data_movement import WHOLE, filled, flush_of, opened, staged
from tests.store_model import scanned
from transformations.extensions import SetExtension
from transformations.sessions import CloseSession, Errand

PLAIN = [{"left": FULL.left, "right": FULL.right}]


@pytest.fixture
async def three(database, tmp_path):
    async with data_cluster(database, tmp_path) as made:
        yield made


async def set_back(cluster, number, copy):
    """Node `number` as it was, while the log went on."""
    await cluster.stop(number)
    state = cluster.settings(number).state_dir
    await asyncio.to_thread(shutil.copytree, state, copy)
    await cluster.start(number)
    await cluster.fit()
    tip = (await cluster.commit(SetExtension(name="x", value="y"))).epoch
    await cluster.home.heard_of(number, tip)
    await cluster.stop(number)
    await asyncio.to_thread(shutil.rmtree, state)
    await asyncio.to_thread(copy.rename, state)
    restored = await cluster.start(number)
    await until(partial(_is_set_back, restored), timeout_s=TIMEOUT_S)


def _is_set_back(subject):
    return subject.plane.fitness._doubt.set_back


async def keys(cluster, number):
    store = cluster.nodes[number].plane.store
    return {row.key for row in await scanned(store, table=cluster.table())}


async def test_old_rows_are_told_and_forgotten_once(three, tmp_path):
    await filled(three)
    await set_back(three, 3, tmp_path / "copy")
    session = await opened(three)
    _, flushed = await three.internal("flush", flush_of(three, session), 3)
    assert flushed["old"] == [{"table": 1, "ranges": PLAIN}]
    assert len(await keys(three, 3)) == 30
    forget = {"session": session, "table": 1, "ranges": WHOLE}

    assert await three.internal("forget", forget, 3) == (200, {"ranges": PLAIN})
    assert await keys(three, 3) == set()
    _, flushed = await three.internal("flush", flush_of(three, session), 3)
    assert (flushed["old"], flushed["segments"]) == ([], [])

    # What comes now is not old, for a message that is late or a node that starts again neither.
    assert (await three.internal("import", await staged(three, session, 3), 3))[0] == 200
    assert await three.internal("forget", forget, 3) == (200, {"ranges": []})
    await three.stop(3)
    await three.start(3)
    assert await three.internal("forget", forget, 3) == (200, {"ranges": []})
    assert len(await keys(three, 3)) == 30
    status, problem = await three.get("k1", number=3)
    assert (status, problem["code"]) == (503, "needs_repair")

    assert (await three.internal("repaired", {"session": session, "ranges": WHOLE}, 3))[0] == 200
    assert (await three.get("k1", number=3))[0] == 200
    # When it happens again, all of it is old again.
    await three.commit(CloseSession(session=session))
    await set_back(three, 3, tmp_path / "again")
    session = await opened(three)
    _, flushed = await three.internal("flush", flush_of(three, session), 3)
    assert flushed["old"] == [{"table": 1, "ranges": PLAIN}]


async def test_a_node_that_was_not_set_back_forgets_nothing(three):
    await filled(three)
    session = await opened(three)
    forget = {"session": session, "table": 1, "ranges": WHOLE}

    assert await three.internal("forget", forget, 2) == (200, {"ranges": []})
    assert len(await keys(three, 2)) == 30
    _, flushed = await three.internal("flush", flush_of(three, session), 2)
    assert flushed["old"] == []


async def test_a_node_that_was_repaired_meanwhile_forgets_nothing(three):
    """Another driver was quicker between the look for old rows and their end."""
    await filled(three)
    session = await opened(three)

    async def all_old(_table, _ranges):
        return (FULL,)

    three.nodes[2].plane.fitness.old_rows = all_old
    forget = {"session": session, "table": 1, "ranges": WHOLE}

    status, problem = await three.internal("forget", forget, 2)

    assert (status, problem["code"]) == (409, "no_permit")
    assert len(await keys(three, 2)) == 30


async def test_nothing_is_forgotten_without_a_permit(three, tmp_path):
    await filled(three)
    await set_back(three, 3, tmp_path / "copy")
    cleanup = await opened(three, Errand.CLEANUP)
    others = await opened(three, nodes=(1, 2))
    gone = await opened(three)
    await three.commit(CloseSession(session=gone))

    for session in (cleanup, others, gone):
        forget = {"session": session, "table": 1, "ranges": WHOLE}
        status, problem = await three.internal("forget", forget, 3)
        assert (status, problem["code"]) == (409, "no_permit"), problem

    assert len(await keys(three, 3)) == 30


async def test_a_repair_waits_until_it_is_known_whether_a_node_was_set_back(three):
    await filled(three)
    session = await opened(three)
    fitness = three.nodes[3].plane.fitness

    async def unsettled(_told):
        """As if no CMS had answered yet."""

    fitness.settle = unsettled
    fitness._doubt = _Doubt(Epoch(1), set_back=False, repaired=())

    status, problem = await three.internal("flush", flush_of(three, session), 3)

    assert (status, problem["code"]) == (503, "unavailable")
    assert "waits for a CMS to confirm" in problem["detail"]
