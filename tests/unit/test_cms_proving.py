"""A release is held against the log before it sequences, once, and meanwhile others may read."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from audit.reproduce import DECIDING, Release, _sources, installed_release
from log.batch import Stamp
from log.chain import NO_ENTRIES, Tip, tip_of
from log.memory import MemoryLog
from log.replay import replay
from services.cms import proving as proving_module
from services.cms.engine import running
from services.cms.proving import Evidence, Proving
from services.http.problems import ProblemError
from snapshots.memory import MemorySnapshots
from tests.archives import entries_of, snapshot_of
from transformations.extensions import SetExtension
from transformations.kinds import execute
from transformations.outcome import Accepted

RELEASE = Release("9.9.9", b"\x01" * 32)
OTHER_RELEASE = Release("9.9.10", b"\x02" * 32)
ENTRIES = entries_of(40)
DEADLINE_S = 10.0


class ListedProofs:
    def __init__(self):
        self.kept = {}

    async def find(self, release):
        return self.kept.get(release)

    async def keep(self, release, up_to, *, by, is_another_log=False):
        assert by
        known = self.kept.get(release, NO_ENTRIES)
        if is_another_log or known.epoch < up_to.epoch:
            self.kept[release] = up_to


class CountingLog(MemoryLog):
    """Counts what is read, and lets reading wait."""

    def __init__(self):
        super().__init__()
        self.epochs_read = []
        self.open = asyncio.Event()
        self.open.set()

    async def read_after(self, epoch, *, entries_max, bytes_max):
        await self.open.wait()
        found = await super().read_after(epoch, entries_max=entries_max, bytes_max=bytes_max)
        self.epochs_read.extend(item.epoch for item in found)
        return found


@pytest.fixture
async def evidence():
    """A log of 40 entries with snapshots at 20 and 40, so that a start reads next to nothing."""
    log, snapshots = CountingLog(), MemorySnapshots()
    await log.append(ENTRIES, onto=NO_ENTRIES)
    for size in (20, 40):
        await snapshots.save(snapshot_of(replay(ENTRIES[:size])), created_by="before")
    return Evidence(log, snapshots, ListedProofs())


@asynccontextmanager
async def started(evidence, release=RELEASE, refused=lambda: None):
    proving = Proving(evidence, release, "cms1", refused)
    stamp = Stamp("cms1", 1)
    async with running(
        "cms1", evidence.log, evidence.snapshots, lambda: stamp, proving=proving
    ) as engine:
        yield proving, engine


async def until(holds):
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if holds():
                return
            await asyncio.sleep(0)


async def test_a_release_is_proved_once_and_the_next_start_reads_nothing_again(evidence):
    async with started(evidence) as (proving, _):
        await until(lambda: RELEASE in evidence.proofs.kept)
        assert proving.is_proved
    assert evidence.proofs.kept[RELEASE] == tip_of(ENTRIES[-1])
    assert set(evidence.log.epochs_read) == set(range(1, 41))

    evidence.log.epochs_read.clear()
    async with started(evidence) as (proving, _):
        assert proving.is_proved, "before anything else runs"
    assert set(evidence.log.epochs_read) == {40}, "only to see that it is the same log"


async def test_another_release_is_proved_anew(evidence):
    evidence.proofs.kept[RELEASE] = tip_of(ENTRIES[-1])

    async with started(evidence, OTHER_RELEASE) as (proving, _):
        assert not proving.is_proved
        await until(lambda: OTHER_RELEASE in evidence.proofs.kept)


async def test_only_what_is_new_is_executed(evidence):
    evidence.proofs.kept[RELEASE] = tip_of(ENTRIES[24])

    async with started(evidence) as (proving, _):
        await until(lambda: proving.is_proved)

    assert min(evidence.log.epochs_read) == 20, "from the snapshot before what is kept"


async def test_what_is_kept_of_another_log_counts_for_nothing(evidence):
    evidence.proofs.kept[RELEASE] = Tip(ENTRIES[-1].epoch, b"\x07" * 32)

    async with started(evidence) as (proving, _):
        assert not proving.is_proved
        await until(lambda: evidence.proofs.kept[RELEASE] == tip_of(ENTRIES[-1]))


async def test_while_it_is_not_proved_it_reads_and_decides_nothing(evidence):
    async with started(evidence) as (proving, engine):
        evidence.log.open.clear()
        assert not proving.is_proved
        assert engine.applied.metadata.epoch == 40
        for decide in (engine.commit, engine.sequence):
            with pytest.raises(ProblemError, match="held against the history") as refused:
                await decide(None)
            assert refused.value.problem.status == 503
        evidence.log.open.set()
        await until(lambda: proving.is_proved)


async def test_a_release_that_decides_otherwise_never_sequences(evidence, monkeypatch):
    decides = SetExtension.execute

    def otherwise(self, metadata):
        if metadata.epoch == 16:
            return decides(SetExtension(name=self.name, value="forged"), metadata)
        return decides(self, metadata)

    told = asyncio.Event()
    monkeypatch.setattr(SetExtension, "execute", otherwise)
    assert isinstance(
        execute(SetExtension(name="a", value="b"), replay(ENTRIES[:3]).metadata), Accepted
    )
    async with started(evidence, refused=told.set) as (proving, _):
        await asyncio.wait_for(told.wait(), DEADLINE_S)
        assert not proving.is_proved
        assert proving.refusal.epoch == 17
        assert "does not reproduce epoch 17" in str(proving.refusal)
        with pytest.raises(ProblemError):
            proving.check()
    assert RELEASE not in evidence.proofs.kept


async def test_a_long_proof_that_is_broken_off_goes_on_where_it_was(evidence, monkeypatch):
    monkeypatch.setattr(proving_module, "PAGE_ENTRIES_MAX", 10)
    monkeypatch.setattr(proving_module, "KEEP_EVERY_ENTRIES", 15)
    proving = Proving(evidence, RELEASE, "cms1", lambda: None)
    await proving.begin(replay(ENTRIES))
    monkeypatch.setattr(evidence.proofs, "keep", _broken_off(evidence.proofs.keep))

    with pytest.raises(asyncio.CancelledError):
        await proving.run(lambda: replay(ENTRIES))

    assert evidence.proofs.kept[RELEASE].epoch == 20
    evidence.log.epochs_read.clear()
    again = Proving(evidence, RELEASE, "cms1", lambda: None)
    await again.begin(replay(ENTRIES))
    with pytest.raises(asyncio.CancelledError):
        await again.run(lambda: replay(ENTRIES))
    assert min(evidence.log.epochs_read) == 20, "the entry that vouches for the snapshot"


def _broken_off(keep):
    async def once(*words, **named):
        await keep(*words, **named)
        raise asyncio.CancelledError

    return once


def test_the_fingerprint_is_of_all_that_decides():
    release = installed_release()

    assert release == installed_release()
    assert len(release.fingerprint) == 32
    assert {"metadata", "transformations", "encoding"} <= set(DECIDING)


def test_the_fingerprint_sees_every_source(tmp_path):
    (tmp_path / "inner").mkdir()
    for name in ("b.py", "a.py", "inner/c.avsc", "inner/c.pyc", "notes.txt"):
        (tmp_path / name).write_text(name)

    found = list(_sources(tmp_path, "top", 8))

    assert found == [
        ("top/a.py", b"a.py"),
        ("top/b.py", b"b.py"),
        ("top/inner/c.avsc", b"inner/c.avsc"),
    ]
