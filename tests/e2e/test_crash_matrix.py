"""Whatever is killed in whichever moment of a sequence, it ends and no row is lost or hidden."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest
import pytest_asyncio

from client.answers import Committed
from client.client import Client
from metadata.columns import ColumnType
from metadata.schema import Column, Simple
from tests.e2e.crashing import CrashTown
from tests.e2e.matrix import MOMENTS, chosen, in_turn, table
from tests.e2e.place import a_place
from tests.e2e.traffic import Traffic
from transformations.cms import NewMember, PrepareCmsReconfiguration
from transformations.schema import CreateKeyspace, CreateTable

SEED = int(os.environ.get("MATRIX_SEED") or random.randrange(1 << 30))
CELLS = os.environ.get("MATRIX_CELLS") or "25"
"""A number, `all`, or names of cells and of kinds: `join-mid-spark-before,remove,…`."""
TABLE = os.environ.get("MATRIX_TABLE")
CELL_TIMEOUT_S = 700
WARM_TIMEOUT_S = 60.0
BLOCKED_TIMEOUT_S = 60.0
COLUMNS = (
    Column("id", ColumnType.STRING),
    Column("version", ColumnType.BIGINT),
    Column("text", ColumnType.STRING),
)

CHOSEN = chosen(CELLS, SEED)

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(120 + CELL_TIMEOUT_S * len(CHOSEN)),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(tmp_path_factory):
    """Three nodes, three copies, a table, and clients that read and write all the time."""
    print(f"MATRIX_SEED={SEED}")
    with a_place() as place:
        await asyncio.to_thread(place.run, "up", "--detach", "--port", "0", "--nodes", "3")
        cms = next(item["url"] for item in place.listed() if item["role"] == "cms")
        async with Client(cms) as client:
            found = CrashTown(place, client, tmp_path_factory.mktemp("spares"), SEED)
            try:
                await committed(client, CreateKeyspace(name="shop", replication=Simple(3)))
                await committed(
                    client,
                    CreateTable(
                        keyspace="shop", name="orders", columns=COLUMNS, partition_key=("id",)
                    ),
                )
                yield found
            finally:
                await found.close()


async def committed(client, transformation):
    outcome = await client.commit(transformation)
    assert isinstance(outcome, Committed), outcome


async def test_every_cell_ends_and_loses_nothing(town):
    traffic = Traffic(town.urls, "shop.orders", SEED, keys=120)
    busy = asyncio.create_task(traffic.run(writers=1, readers=1, pause_s=0.02))
    results = []
    try:
        async with asyncio.timeout(WARM_TIMEOUT_S):
            while traffic.counts["written"] < 120:  # noqa: ASYNC110 another process
                await asyncio.sleep(0.05)
        for kind, cell in in_turn(CHOSEN):
            print(cell or f"{kind}: nothing dies", flush=True)
            result = await town.run(kind, cell)
            await traffic.verify()
            assert traffic.violations == [], cell
            assert not busy.done()
            assert kind != "cancel" or result.ended == "cancelled", result
            if cell is not None:
                results.append(result)
    finally:
        traffic.stop()
        await busy
        tell(results)
    print(f"{dict(traffic.counts)}, failed: {dict(traffic.complaints)}")
    assert len(results) == len(CHOSEN)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("victim", ["driver", "cms"])
async def test_members_of_the_cms_change_whatever_dies(town, victim, moment):
    """One comes and goes again; there is no source, no target and no Spark in it."""
    name = f"{victim}_{moment}"
    away = NewMember(name, "http://127.0.0.1:1")

    came = await town.reconfigured(PrepareCmsReconfiguration(add=(away,)), victim, moment)
    went = await town.reconfigured(PrepareCmsReconfiguration(remove=(name,)), victim, moment)

    assert came == {**went, name: "active"}


async def test_a_barrier_names_those_who_do_not_answer_and_goes_on_when_they_do(town):
    """A majority of the owners is cut off: nothing is taken, and everybody can see for whom."""
    kind = "join" if town.spare is None else "move"
    await town.make_room(kind)
    stopped = [town.place.process(name)["pid"] for name in ("node-2", "node-3")]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        async with town.begun(kind) as log:
            (found,) = await town.until(lambda: blocked(town), BLOCKED_TIMEOUT_S)
            assert (found["id"], found["due"]) == (log.sequence, "start")
            assert not found["barrier"]["passed"]
            laggards = {item["node"] for item in found["laggards"] if item["blocking"]}
            assert laggards == {2, 3}
            assert not log.taken["start"].is_set()
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
            assert await town.ended(kind, log) == "forward"
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


async def blocked(town):
    """The sequence, once a driver says that it waits for both."""
    found = await town.seen()
    told = [item["driver"] or {} for item in found]
    return found if [item.get("waiting") for item in told] == [[2, 3]] else None


def tell(results):
    """The table, where it is wanted; also of a run that failed."""
    if TABLE is None:
        print(table(results))
    else:
        Path(TABLE).write_text(table(results))
