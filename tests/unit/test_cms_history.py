"""Past versions: the nearest thing known is where reading begins."""

import asyncio

import pytest

from log.chain import NO_ENTRIES
from log.memory import MemoryLog
from log.replay import NOTHING_APPLIED, replayed
from metadata.epoch import Epoch
from services.cms.history import History
from snapshots.memory import MemorySnapshots
from snapshots.restore import taken
from tests.golden.history import history as golden

ENTRIES = golden().entries
VERSIONS = [NOTHING_APPLIED, *replayed(ENTRIES)]


class Counting(MemorySnapshots):
    """Says which snapshots were opened."""

    def __init__(self):
        super().__init__()
        self.loaded = []

    async def load(self, epoch):
        self.loaded.append(epoch)
        return await super().load(epoch)


@pytest.fixture
async def snapshots():
    found = Counting()
    for epoch in (20, 40):
        await found.save(await taken(VERSIONS[epoch]), created_by="test")
    return found


@pytest.fixture
async def history(snapshots):
    log = MemoryLog()
    await log.append(ENTRIES, onto=NO_ENTRIES)
    return History(log, snapshots, lambda epoch, why: pytest.fail(f"{epoch}: {why}"))


@pytest.mark.parametrize("epoch", [0, 1, 19, 20, 33, 40, 41, len(ENTRIES)])
async def test_every_version_is_the_one_of_its_epoch(history, epoch):
    found = await history.at(Epoch(epoch))

    assert found.metadata.digest == VERSIONS[epoch].metadata.digest
    assert found.hash == VERSIONS[epoch].hash


async def test_a_snapshot_is_opened_once_for_all_epochs_behind_it(history, snapshots):
    for epoch in (25, 26, 22, 39, 20):
        await history.at(Epoch(epoch))

    assert snapshots.loaded == [20]


async def test_who_asks_at_the_same_time_shares_the_work(history, snapshots):
    found = await asyncio.gather(*(history.at(Epoch(epoch)) for epoch in (30, 31, 32, 30)))

    assert [item.metadata.epoch for item in found] == [30, 31, 32, 30]
    assert snapshots.loaded == [20]


async def test_a_nearer_snapshot_is_preferred_to_a_version_far_behind(history, snapshots):
    await history.at(Epoch(25))
    await history.at(Epoch(45))

    assert snapshots.loaded == [20, 40]


async def test_an_epoch_beyond_the_log_is_named(history):
    with pytest.raises(LookupError, match=str(len(ENTRIES) + 1)):
        await history.at(Epoch(len(ENTRIES) + 1))
