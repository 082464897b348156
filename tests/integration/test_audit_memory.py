"""How much memory audits take: as much for a long log as for a short one, but for entry ids."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from audit.exporting import export
from audit.folder import folder
from audit.reading import open_archive
from audit.replay import audited
from audit.verify import Given, Verified, verify
from tests.archives import KEY, entries_of, snapshots_at

SHORT, LONG = 3_000, 12_000
SEGMENT_ENTRIES = 500
SNAPSHOT_EVERY = 1_000
SLACK_BYTES = 150_000
"""Far less than what an entry takes in memory, times those that the long log has more."""
ID_BYTES_MAX = 36
"""Of one entry in the table of ids, while the table is doubled."""


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """A short log and a long one, in as many times more files."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.segments.SEGMENT_ENTRIES_MAX", SEGMENT_ENTRIES)
        for length in (SHORT, LONG):
            place = tmp_path_factory.mktemp("archives") / str(length)
            entries = entries_of(length)
            snapshots = snapshots_at(entries, set(range(SNAPSHOT_EVERY, length, SNAPSHOT_EVERY)))
            export(entries, folder(place), snapshots=snapshots, keys=[KEY])
            found.append(place)
    return found


def peak_bytes(work):
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def grown_bytes(archives, work):
    """What the long log takes more than the short one, once everything is imported and cached."""
    work(archives[0])
    short, long = (peak_bytes(lambda place=place: work(place)) for place in archives)
    print(f"{short:,} bytes for {SHORT:,} entries, {long:,} for {LONG:,}")
    return long - short


@pytest.mark.parametrize("recompute", [False, True])
def test_verifying_takes_no_more_for_a_long_log(archives, recompute):
    def work(place):
        found = verify(place, Given(keys=(KEY.public,), recompute=recompute))
        assert isinstance(found, Verified)

    assert grown_bytes(archives, work) < SLACK_BYTES


def test_replaying_remembers_no_more_of_an_entry_than_its_id(archives):
    def work(place):
        assert audited(open_archive(place)).holds

    assert grown_bytes(archives, work) < SLACK_BYTES + ID_BYTES_MAX * (LONG - SHORT)
