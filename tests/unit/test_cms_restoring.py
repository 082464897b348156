"""Where a CMS begins: at a snapshot that the log vouches for, or at an older one."""

from __future__ import annotations

import msgspec
import pytest

from log.chain import NO_ENTRIES
from log.memory import MemoryLog
from log.replay import NOTHING_APPLIED, replayed
from services.cms.engine import SnapshotTaker, restored
from snapshots.memory import MemorySnapshots
from snapshots.restore import newest_usable, taken
from tests.golden.history import history as golden

ENTRIES = golden().entries
VERSIONS = [NOTHING_APPLIED, *replayed(ENTRIES)]
TIP = len(ENTRIES)


@pytest.fixture
async def log():
    found = MemoryLog()
    await found.append(ENTRIES, onto=NO_ENTRIES)
    return found


async def snapshots_of(newest):
    """One at epoch 20, and another one."""
    found = MemorySnapshots()
    for each in (await taken(VERSIONS[20]), newest):
        await found.save(each, created_by="test")
    return found


@pytest.mark.parametrize("epoch", [40, TIP])
async def test_a_damaged_hash_beside_a_snapshot_costs_only_that_snapshot(log, epoch):
    """Without entries behind it nothing but the log itself tells."""
    wrong = msgspec.structs.replace(await taken(VERSIONS[epoch]), hash=bytes(32))
    snapshots = await snapshots_of(wrong)

    found = await restored(log, snapshots)
    assert found.applied == VERSIONS[TIP]
    assert found.cadence.entries == TIP - 20


async def test_a_snapshot_of_another_history_is_not_used(log):
    """Image and digest fit each other, but not the entry."""
    other = await taken(VERSIONS[39])
    metadata = msgspec.structs.replace(VERSIONS[39].metadata, epoch=VERSIONS[40].metadata.epoch)
    image = await taken(msgspec.structs.replace(VERSIONS[39], metadata=metadata))
    wrong = msgspec.structs.replace(image, hash=VERSIONS[40].hash)
    assert wrong.digest != VERSIONS[40].metadata.digest != other.digest
    said = []

    found = await newest_usable(
        await snapshots_of(wrong),
        log,
        up_to=VERSIONS[40].metadata.epoch,
        report=lambda epoch, fault: said.append((epoch, fault)),
    )
    assert found == VERSIONS[20]
    assert said == [(40, "The digest is not that of the entry at epoch 40.")]


async def test_a_damaged_entry_says_nothing_against_a_snapshot_that_leads_past_it(log):
    log._entries[39] = msgspec.structs.replace(ENTRIES[39], payload=ENTRIES[40].payload)
    snapshots = await snapshots_of(await taken(VERSIONS[40]))

    assert (await restored(log, snapshots)).applied == VERSIONS[TIP]


async def test_processes_that_live_shorter_than_the_cadence_take_snapshots_all_the_same(
    log, monkeypatch
):
    monkeypatch.setattr("snapshots.policy.ENTRIES_BETWEEN", TIP - 20)
    snapshots = await snapshots_of(await taken(VERSIONS[20]))
    before = await restored(log, snapshots)
    taker = SnapshotTaker(snapshots, "cms", before.cadence)
    assert before.cadence.due
    taker.observe(before.applied, [])

    assert taker._due.get_nowait() == before.applied
