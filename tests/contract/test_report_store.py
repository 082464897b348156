"""What every store of reports promises: the one in memory and the one in Postgres."""

from __future__ import annotations

from hashlib import sha256
from uuid import uuid4

import pytest

from encoding.entries import EntryId
from log.batch import Proposal, Request, Stamp
from log.chain import NO_ENTRIES
from log.memory import MemoryLog
from log.postgres import PostgresLog
from log.postgres_sessions import Sessions
from metadata.directory import NodeId
from metadata.epoch import Epoch
from services.cms.engine import running
from services.cms.reports.lineage import Fault
from services.cms.reports.marks import MARKS_KEPT_MAX, unpacked
from services.cms.reports.marks import packed as pack
from services.cms.reports.memory import memory_stores
from services.cms.reports.postgres import postgres_stores
from services.cms.reports.store import STRANGERS_MAX, Acknowledgement, Highest, Kept
from snapshots.memory import MemorySnapshots
from transformations.extensions import SetExtension
from transformations.initialize import Initialize

COMMITTED_AT_US = 1_700_000_000_000_001


@pytest.fixture(params=["memory", "postgres"])
def place(request):
    """Only Postgres needs a database."""
    return request.getfixturevalue("database") if request.param == "postgres" else None


@pytest.fixture
async def kept_in(place):
    """The log and the stores beside it."""
    if place is None:
        log = MemoryLog()
        yield log, memory_stores(log)
        return
    sessions = Sessions(place)
    yield PostgresLog(sessions), postgres_stores(sessions)
    await sessions.close()


@pytest.fixture
def reports(kept_in):
    return kept_in[1].reports


@pytest.fixture
def timeline(kept_in):
    return kept_in[1].timeline


def packed(*marks):
    return pack(marks)


def kept(node, epoch=5, **more):
    found = sha256(b"%d" % epoch).digest()
    return Kept(
        node=NodeId(node),
        epoch=Epoch(epoch),
        hash=found,
        digest=found,
        version="1",
        tip=Epoch(5),
        **more,
    )


def up_to(epoch, writes=None):
    return Highest(Epoch(epoch), writes)


async def committed(log, count):
    stamp = Stamp("c", COMMITTED_AT_US)
    async with running("c", log, MemorySnapshots(), lambda: stamp) as engine:
        for number in range(count):
            what = (
                Initialize(name="t") if number == 0 else SetExtension(name="a", value=str(number))
            )
            await engine.commit(
                Request((Proposal(entry_id=EntryId(uuid4()), transformation=what),))
            )


async def test_the_last_report_of_each_node_is_kept(reports):
    first = kept(1, 3, drained=Epoch(2), data=b"{}", marks=packed((3, 30)))
    assert await reports.keep([kept(2), first]) == {1: None, 2: None}
    assert await reports.keep([kept(1, 5, marks=packed((4, 40), (5, 50)))]) == {1: up_to(3)}

    one, two = await reports.heard()
    assert (one.node, one.epoch, one.drained, one.data, one.fault) == (1, 5, None, None, None)
    assert unpacked(one.marks) == [(3, 30), (4, 40), (5, 50)]
    assert (two.node, two.marks) == (2, b"")
    assert 0 <= one.age_s < 30


async def test_the_highest_epoch_is_remembered(reports):
    await reports.keep([kept(1, 9)])
    assert await reports.keep([kept(1, 4)]) == {1: up_to(9)}
    assert await reports.keep([kept(1, 5, writes=70)]) == {1: up_to(9)}
    assert await reports.keep([kept(1, 10, writes=30)]) == {1: up_to(9, 70)}
    assert await reports.keep([kept(1, 0)]) == {1: up_to(10, 70)}
    assert await reports.keep([kept(1, 8, writes=80)]) == {1: up_to(10, 70)}
    assert await reports.keep([kept(1, 8)]) == {1: up_to(10, 80)}


async def test_a_node_that_has_only_just_started_takes_nothing_back(reports):
    await reports.keep([kept(4, 9, fault=Fault.AHEAD, drained=Epoch(8)), kept(1)])
    found = await reports.divergences()
    await reports.keep([kept(4, 0, drained=Epoch(0)), kept(1, 0)])

    assert await reports.divergences() == found
    one, four = await reports.heard()
    assert (one.epoch, one.hash, one.fault) == (5, kept(1).hash, None)
    assert (four.epoch, four.hash, four.fault) == (9, kept(4, 9).hash, Fault.AHEAD)
    assert four.drained == 0
    await reports.keep([kept(4, 3)])
    assert not await reports.divergences()


async def test_marks_are_bounded_and_the_newest_stay(reports):
    for start in range(0, 100, 5):
        await reports.keep([kept(1, marks=packed(*((start + more, 1) for more in range(5))))])

    (found,) = await reports.heard()
    assert [epoch for epoch, _ in unpacked(found.marks)] == list(range(100 - MARKS_KEPT_MAX, 100))


async def test_nodes_that_are_not_known_are_forgotten(reports):
    await reports.keep([kept(1), kept(2), kept(3, 9, fault=Fault.AHEAD)])
    await reports.forget_others([NodeId(2)])

    assert [item.node for item in await reports.heard()] == [2, 3]


async def test_strangers_with_another_history_are_bounded(reports):
    await reports.keep([kept(node, 9, fault=Fault.AHEAD) for node in range(1, STRANGERS_MAX + 51)])
    await reports.forget_others([NodeId(1)])

    found = [item.node for item in await reports.heard()]
    assert len(found) == STRANGERS_MAX + 1
    assert 1 in found


async def test_a_divergence_lasts_until_the_node_reports_otherwise(reports):
    await reports.keep([kept(4, 9, fault=Fault.AHEAD), kept(2, 5, fault=Fault.OTHER_HASH), kept(1)])

    two, four = await reports.divergences()
    assert (two.node, two.fault, four.node, four.fault, four.epoch, four.tip) == (
        2,
        Fault.OTHER_HASH,
        4,
        Fault.AHEAD,
        9,
        5,
    )
    await reports.keep([kept(2)])
    assert [item.node for item in await reports.divergences()] == [4]


async def test_what_is_acknowledged_stops_nobody_until_it_is_something_else(reports):
    await reports.keep([kept(4, 9, fault=Fault.AHEAD), kept(1)])
    (found,) = await reports.divergences()

    def given(**changed):
        plain = {"node": 4, "epoch": found.epoch, "hash": found.hash, "reason": "r", **changed}
        return Acknowledgement(**plain)

    assert not await reports.acknowledge(given(epoch=8))
    assert not await reports.acknowledge(given(hash=bytes(32)))
    assert not await reports.acknowledge(given(node=1, epoch=5, hash=kept(1).hash))
    assert await reports.divergences()
    assert await reports.acknowledge(given())
    assert await reports.acknowledge(given())
    assert not await reports.divergences()
    await reports.keep([kept(4, 9, fault=Fault.OTHER_HASH)])
    assert not await reports.divergences()
    await reports.keep([kept(4, 10, fault=Fault.AHEAD)])
    assert await reports.divergences()


async def test_the_log_says_which_hashes_it_has(kept_in):
    log, stores = kept_in
    empty = await stores.timeline.lineage([Epoch(0), Epoch(3)])
    assert empty.tip == NO_ENTRIES
    await committed(log, 4)

    found = await stores.timeline.lineage([Epoch(2), Epoch(9), Epoch(0)])
    entries = await log.read_after(Epoch(0), entries_max=10, bytes_max=1 << 20)
    assert found.tip == await log.tip()
    assert found.hashes[Epoch(2)] == entries[1].hash
    assert 9 not in found.hashes


async def test_the_log_says_when_entries_were_committed(kept_in):
    log, stores = kept_in
    await committed(log, 3)

    found = await stores.timeline.committed_at([Epoch(1), Epoch(3), Epoch(7)])
    assert sorted(found) == [1, 3]
    assert abs(found[Epoch(3)] - COMMITTED_AT_US) <= 1


async def test_each_relay_keeps_its_last_marks(timeline):
    await timeline.publish("a", [(Epoch(1), 10)])
    await timeline.publish("a", [(Epoch(2), 20)])
    await timeline.publish("b", [(Epoch(index), index) for index in range(1, 200)])

    found = sorted(await timeline.published(), key=len)
    assert found[0] == [(1, 10), (2, 20)]
    assert len(found[1]) == MARKS_KEPT_MAX
    assert found[1][-1] == (199, 199)
