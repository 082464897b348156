"""Reports of one moment: each node counts once, and nothing that it said before is lost."""

from __future__ import annotations

import asyncio
from hashlib import sha256

import msgspec

from log.memory import MemoryLog
from metadata.directory import NodeId
from metadata.epoch import Epoch
from services.cms.reports.intake import Arrival, Intake
from services.cms.reports.memory import memory_stores
from services.cms.reports.store import Highest
from services.http.reports import Report, ReportAnswer


def report(epoch, **more):
    found = {"hash": sha256(b"%d" % epoch).hexdigest() if epoch else "00" * 32, **more}
    plain = {"node": 1, "epoch": epoch, "digest": "00" * 32, "sent_at_us": 1, "version": "1"}
    return msgspec.convert({**plain, **found}, Report)


def up_to(epoch, writes=None):
    return Highest(Epoch(epoch), writes)


async def taken(stores, *reports):
    """As if all had come at once."""
    intake = Intake(stores, lambda: None)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(intake.run())
        arrivals = [Arrival(each, [], is_known=True) for each in reports]
        found = await asyncio.gather(*map(intake.take, arrivals))
        running.cancel()
    return [each.reported for each in found]


async def test_the_first_report_of_a_life_hears_of_the_last_one_before_it():
    stores = memory_stores(MemoryLog())
    assert await taken(stores, report(5, writes=8)) == [None]

    found = await taken(stores, report(9, writes=7), report(0))
    assert found == [up_to(5, 8), up_to(9, 8)]
    assert await taken(stores, report(0)) == [up_to(9, 8)]


async def test_a_node_that_starts_again_still_has_another_history():
    stores = memory_stores(MemoryLog())
    await taken(stores, report(9), report(0))
    await taken(stores, report(0))

    (found,) = await stores.reports.divergences()
    assert (found.node, found.epoch, found.hash) == (NodeId(1), 9, sha256(b"9").digest())


def test_a_node_behind_what_it_reported_is_told_so():
    tip = Epoch(9)
    told = ReportAnswer(tip=tip, now_us=1, reported=Epoch(5), reported_writes=8)

    assert not told.is_beyond(Epoch(5), 8)
    assert told.is_beyond(Epoch(4), 8)
    assert told.is_beyond(Epoch(5), 7)
    assert not ReportAnswer(tip=tip, now_us=1).is_beyond(Epoch(0), 0)
