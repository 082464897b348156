"""Every history is read the same way, wherever it lies."""

from __future__ import annotations

import pytest

from audit.exporting import export
from audit.folder import folder
from audit.history import History, SnapshotUnusableError, metadata_at
from audit.reading import open_archive
from log.chain import tip_of
from log.replay import NOTHING_APPLIED, replayed
from metadata.epoch import Epoch
from snapshots.store import Snapshot
from tests.golden.history import history as golden
from tests.histories import MemoryHistory, kept

ENTRIES = golden().entries
LENGTH = len(ENTRIES)
VERSIONS = [NOTHING_APPLIED, *replayed(ENTRIES)]
SNAPSHOTS = [Epoch(20), Epoch(40), Epoch(60)]


def archived(memory: MemoryHistory, place) -> History:
    snapshots = [
        Snapshot(
            epoch=epoch,
            digest=VERSIONS[epoch].metadata.digest,
            hash=VERSIONS[epoch].hash,
            image=memory.images[epoch],
        )
        for epoch in memory.snapshots()
    ]
    export(memory.entries(Epoch(0), Epoch(LENGTH)), folder(place), snapshots=snapshots)
    return open_archive(place)


@pytest.fixture(params=["memory", "archive"])
def history(request, tmp_path):
    memory = kept(ENTRIES, every=20)
    return memory if request.param == "memory" else archived(memory, tmp_path / "archive")


def test_the_tip_is_the_last_entry(history):
    assert history.tip == tip_of(ENTRIES[-1])


@pytest.mark.parametrize(
    ("after", "up_to"), [(0, LENGTH), (0, 1), (19, 21), (20, 20), (40, 60), (LENGTH, LENGTH)]
)
def test_entries_are_dense_and_as_they_were_written(history, after, up_to):
    found = list(history.entries(Epoch(after), Epoch(up_to)))

    assert found == ENTRIES[after:up_to]


def test_entries_come_as_they_are_asked_for(history):
    reading = iter(history.entries(Epoch(30), Epoch(LENGTH)))

    assert next(reading).epoch == 31


def test_snapshots_ascend(history):
    assert list(history.snapshots()) == SNAPSHOTS


@pytest.mark.parametrize("epoch", SNAPSHOTS)
def test_a_snapshot_is_where_the_entries_lead(history, epoch):
    found = history.restored(epoch)

    assert found.metadata.digest == VERSIONS[epoch].metadata.digest
    assert found.hash == VERSIONS[epoch].hash


def test_a_snapshot_that_is_not_there_has_a_name(history):
    with pytest.raises(SnapshotUnusableError):
        history.restored(Epoch(21))


@pytest.mark.parametrize("epoch", [0, 1, 20, 33, LENGTH])
def test_any_version_can_be_had(history, epoch):
    assert metadata_at(history, Epoch(epoch)) == VERSIONS[epoch]
