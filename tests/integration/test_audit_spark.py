"""Stretches replayed by themselves, by hand and on Spark, find what one replay finds."""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import nullcontext, suppress
from functools import partial
from uuid import UUID

import msgspec
import pytest

from audit.entry_checks import ENTRY_ID, repeated_id
from audit.errors import ArchiveError
from audit.exporting import export
from audit.findings import FINDINGS_PER_RULE_MAX
from audit.folder import folder
from audit.history import SnapshotUnusableError, UnknownEpochError
from audit.parallel import Found, planned, rank_of, replayed_stretch
from audit.parallel_merge import Repeats, assumed_wrongly, check_seams, merged
from audit.people import OTHERS
from audit.reading import open_archive
from audit.replay import audited
from audit.spark import audited_on_spark
from audit.stored_snapshots import encode_snapshot
from encoding.entries import EntryId
from log.chain import NO_HASH, seal
from log.replay import ReplayError, replay
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.invariants import Violation
from tests.archives import snapshots_at
from tests.forging import Forger
from tests.golden.history import history as golden
from tests.golden.scribe import Scribe
from transformations.directory import Unregister
from transformations.extensions import SetExtension

SEED = int(os.environ["SIMULATION_SEED"])
FUTURE = 4_000_000_000_000_000
SEGMENT_ENTRIES = 60
BLOCK_ENTRIES = 7
TIMEOUT_S = 600

# The first test of a run also starts Spark.
pytestmark = pytest.mark.timeout(TIMEOUT_S)


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch):
    """Every snapshot begins one."""
    monkeypatch.setattr("audit.parallel.STRETCH_ENTRIES_MIN", 1)
    monkeypatch.setattr("audit.segments.SEGMENT_ENTRIES_MAX", SEGMENT_ENTRIES)
    monkeypatch.setattr("audit.containers.BLOCK_ENTRIES_MAX", BLOCK_ENTRIES)


def opening(place):
    """As the command gives it to Spark: found again by name where a task runs."""
    return nullcontext(open_archive(place))


class Fickle:
    """An archive of which one snapshot cannot be read at first, as on a disk with a bad day."""

    def __init__(self, archive, epoch):
        self._archive = archive
        self._epoch = epoch
        self.tip, self.snapshots = archive.tip, archive.snapshots

    def entries(self, after, up_to):
        self._epoch = None
        return self._archive.entries(after, up_to)

    def restored(self, epoch):
        if epoch == self._epoch:
            raise SnapshotUnusableError(epoch, "the disk has a bad day")
        return self._archive.restored(epoch)


def opening_fickle(place, epoch):
    return nullcontext(Fickle(open_archive(place), epoch))


@pytest.fixture(scope="module")
def entries():
    """Sequences of every kind, then simple entries by many actors."""
    recorded = golden().entries
    scribe = Scribe(replay(recorded))
    for number in range(120):
        scribe.commit(SetExtension(name=f"n{number % 5}", value=str(number)), actor=f"a{number}")
    return [*recorded, *scribe.entries]


def retold(entries, place, changes):
    """History with entries changed, and every later one chained to them as a forger would."""
    told, tip = list(entries[:place]), entries[place - 1].hash if place else NO_HASH
    for sealed in entries[place:]:
        entry = msgspec.structs.replace(sealed.entry, **changes.get(sealed.epoch, {}))
        told.append(seal(entry, tip))
        tip = told[-1].hash
    return told


def rehashed(snapshots, entries):
    """Snapshots as they were, for a chain that was hashed anew."""
    return [msgspec.structs.replace(item, hash=entries[item.epoch - 1].hash) for item in snapshots]


def forged_history(chance, entries):
    """One to four lies, each where chance will have it; the last one cannot be true."""
    changes = {}
    for left in reversed(range(chance.randint(1, 4))):
        epoch = chance.randint(2, len(entries))
        unlikely = [{"committed_at": chance.choice([1, FUTURE])}, {"actor": "(others)"}]
        impossible = [
            {"entry_id": entries[chance.randrange(epoch - 1)].entry_id},
            {"digest": bytes(32)},
            {"transformation": Unregister(node=NodeId(999))},
        ]
        changes[epoch] = chance.choice(impossible + (unlikely if left else []))
    return retold(entries, min(changes) - 1, changes)


def written(place, chance, entries, *, told=None):
    """An archive of what is told, with snapshots here and there of what was."""
    told = told or entries
    count = chance.randint(0, 9)
    drawn = {*chance.sample(range(1, len(entries) + 1), count), chance.choice([1, len(told)])}
    # Nobody exports a snapshot that its entry gives the lie.
    epochs = {at for at in drawn if told[at - 1].entry.digest == entries[at - 1].entry.digest}
    export(told, folder(place), snapshots=rehashed(snapshots_at(entries, epochs), told))
    return place


def replace_snapshot(forger):
    """By one of another epoch, with everything mended around it."""
    archive = open_archive(forger.archive)
    file = forger.chance.choice(forger.manifest.snapshots)
    stored = archive.snapshot(Epoch(file.epoch))
    others = [item.epoch for item in forger.manifest.snapshots if item.epoch != file.epoch]
    other = archive.snapshot(Epoch(forger.chance.choice(others))).image if others else None
    image = stored.image[:-1] if other is None else other
    made, data = encode_snapshot(msgspec.structs.replace(stored, image=image))
    forger.put(made.path, data)
    named = {item.epoch: item for item in forger.manifest.snapshots} | {file.epoch: made}
    forger.mend(snapshots=tuple(named[epoch] for epoch in sorted(named)))


def tamper(forger):
    """The files of an archive, with or without mending what stands around."""
    chance = forger.chance
    segment = forger.any_segment()
    place = chance.randrange(segment.last - segment.first + 1)

    def flip():
        path = chance.choice([item for item in forger.files if item.startswith("s")])
        data = bytearray(forger.get(path))
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        forger.put(path, bytes(data))

    def drop():
        forger.rewrite(segment, lambda entries: entries[:place] + entries[place + 1 :])

    def repeat():
        forger.rewrite(segment, lambda entries: entries[: place + 1] + entries[place:])

    def reseal():
        def changed(entries):
            entry = msgspec.structs.replace(entries[place].entry, actor="forger")
            entries[place] = seal(entry, entries[place].previous_hash)
            return entries

        forger.rewrite(segment, changed)

    chance.choice([flip, partial(replace_snapshot, forger), drop, repeat, reseal])()


def by_hand(archive, *, after=0, up_to=None, thorough=False):
    """What `audit.spark` has Spark do."""
    end = archive.tip.epoch if up_to is None else Epoch(up_to)
    plan = planned(archive, after=Epoch(after), end=end, thorough=thorough)
    facts = [
        (s.number, item) for s in plan.stretches for item in replayed_stretch(archive, plan, s)
    ]
    summaries = {item.summary.number: item.summary for _, item in facts if item.summary}
    check_seams(plan, list(summaries.values()), "it")
    wrong = assumed_wrongly(list(summaries.values()))
    found = [each for number, item in facts if number not in wrong for each in item.found]
    for stretch in plan.again(wrong):
        for item in replayed_stretch(archive, plan, stretch):
            found += item.found
            summaries |= {item.summary.number: item.summary} if item.summary else {}
    deeds: dict[str | None, Counter[str]] = {}
    known: dict[bytes, Epoch] = {}
    repeats = []
    for _, item in facts:
        for deed in item.deeds:
            deeds.setdefault(deed.actor, Counter())[deed.kind] += deed.entries
        for entry_id, epoch in item.ids:
            if known.setdefault(entry_id, epoch) != epoch:
                repeats.append((epoch, entry_id))
    first = [
        Found(epoch, rank_of(ENTRY_ID), 0, repeated_id(epoch, EntryId(UUID(bytes=entry_id))))
        for epoch, entry_id in repeats[:FINDINGS_PER_RULE_MAX]
    ]
    return merged(list(summaries.values()), found, Repeats(len(repeats), first), deeds, end=end)


def test_what_is_unfinished_is_said_last_of_an_epoch():
    """Also by a stretch that begins at the last epoch, where the one before found something."""
    assert rank_of("unfinished") > rank_of("committed-at") > rank_of("quorums")


@pytest.mark.parametrize("number", range(9))
def test_stretches_find_what_one_replay_finds(entries, tmp_path, monkeypatch, number):
    """Repeat a failure with SIMULATION_SEED=SEED."""
    print("seed", SEED)
    chance = random.Random(SEED + number)
    told = forged_history(chance, entries) if number % 3 else entries
    place = written(tmp_path / "archive", chance, entries, told=told)

    archive = open_archive(place)
    monkeypatch.setattr("audit.parallel.STRETCH_ENTRIES_MIN", chance.choice([1, 50]))

    assert by_hand(archive) == audited(archive)
    first, last = sorted(chance.sample(range(len(entries) + 1), 2))
    with suppress(ReplayError):  # A beginning that cannot be reached is refused by both.
        whole = audited(archive, after=Epoch(first), up_to=Epoch(last))
        assert by_hand(archive, after=first, up_to=last) == whole


@pytest.mark.parametrize("number", range(24))
def test_stretches_find_what_was_done_to_the_files(entries, tmp_path, monkeypatch, number):
    print("seed", SEED)
    chance = random.Random(SEED + number)
    told = forged_history(chance, entries) if number % 3 == 0 else entries
    forger = Forger(written(tmp_path / "a", chance, entries, told=told), tmp_path / "b", number)
    forger.chance = chance
    for _ in range(chance.randint(1, 3)):
        # What is damaged already is not changed again.
        with suppress(ArchiveError):
            tamper(forger)

    archive = open_archive(forger.archive)
    monkeypatch.setattr("audit.parallel.STRETCH_ENTRIES_MIN", chance.choice([1, 50]))

    assert by_hand(archive) == audited(archive)


def test_a_fault_right_behind_a_snapshot_is_told_alike(entries, tmp_path):
    """Also where a block of the file begins there, and a reader could not compare."""
    first = 2 * BLOCK_ENTRIES
    export(entries, folder(tmp_path / "a"), snapshots=snapshots_at(entries, {first}))
    forger = Forger(tmp_path / "a", tmp_path / "b", 0)

    def unchained(held):
        held[first] = seal(held[first].entry, bytes(32))
        return held

    forger.rewrite(forger.manifest.segments[0], unchained)
    archive = open_archive(forger.archive)

    report = by_hand(archive)

    assert report == audited(archive)
    assert [item.epoch for item in report.findings if item.rule == "replay"] == [first + 1]


def test_what_is_wrong_across_a_snapshot_is_told_once(entries, tmp_path, monkeypatch):
    """Also where entries between could not be applied, and it went away and came back there."""

    def crooked(metadata):
        found = metadata.extensions.by_name.get("n3")
        if found is not None and int(found.value) % 50 < 40:
            yield Violation("odd", "n3 is odd")
        if metadata.epoch > 120:
            yield Violation("late", "it is late")

    monkeypatch.setattr("audit.tracing.violations", crooked)
    for place, lie in enumerate((None, 75, 100, 115, 121, 160)):
        changes = {} if lie is None else {lie: {"digest": bytes(32)}}
        told = retold(entries, 60, changes)
        made = rehashed(snapshots_at(entries, {70, 90, 118, 119, 130, 150}), told)
        export(told, folder(tmp_path / str(place)), snapshots=made)
        archive = open_archive(tmp_path / str(place))

        report = audited(archive)

        assert by_hand(archive) == report
        assert report.counts["state-late"] == 1
        assert by_hand(archive, thorough=True) == audited(archive, thorough=True)


def test_a_clock_ahead_is_noticed_in_every_later_stretch(entries, tmp_path):
    told = retold(entries, 60, {70: {"committed_at": FUTURE}})
    made = rehashed(snapshots_at(entries, {90, 120, 150}), told)
    export(told, folder(tmp_path), snapshots=made)
    archive = open_archive(tmp_path)

    report = by_hand(archive)

    assert report == audited(archive)
    assert report.counts["committed-at"] == len(entries) - 70


def test_stretches_that_are_not_of_one_history_are_refused(entries, tmp_path):
    export(entries, folder(tmp_path), snapshots=snapshots_at(entries, {50, 100}))
    archive = open_archive(tmp_path)
    plan = planned(archive, after=Epoch(0), end=archive.tip.epoch)
    facts = [item for s in plan.stretches for item in replayed_stretch(archive, plan, s)]
    summaries = [item.summary for item in facts if item.summary]
    check_seams(plan, summaries, "it")

    for other in (
        {"began": msgspec.structs.replace(summaries[1].began, hash=bytes(32))},
        {"began_digest": bytes(32)},
    ):
        changed = msgspec.structs.replace(summaries[1], **other)
        with pytest.raises(ArchiveError, match=r"epoch 50: .* not of one history"):
            check_seams(plan, [summaries[0], changed, summaries[2]], "it")


@pytest.mark.parametrize("snapshots", [{50, 100}, {50, 100, 180}])
def test_stretches_that_leave_an_end_out_are_refused(entries, tmp_path, snapshots):
    """Also where the last one begins at the last epoch, and only ends what others began."""
    export(entries[:180], folder(tmp_path), snapshots=snapshots_at(entries, snapshots))
    archive = open_archive(tmp_path)
    plan = planned(archive, after=Epoch(0), end=archive.tip.epoch)
    facts = [item for s in plan.stretches for item in replayed_stretch(archive, plan, s)]
    summaries = [item.summary for item in facts if item.summary]

    with pytest.raises(ArchiveError, match=f"epoch {max(snapshots)}: nothing behind it was"):
        check_seams(plan, summaries[:-1], "it")
    with pytest.raises(ArchiveError, match="epoch 0: nothing behind it was"):
        check_seams(plan, summaries[1:], "it")
    with pytest.raises(ArchiveError, match="epoch 0: nothing behind it was"):
        check_seams(plan, [], "it")


async def on_spark(warm_spark, place, **bounds):
    def work(session):
        return audited_on_spark(session, partial(opening, str(place)), name=str(place), **bounds)

    return await warm_spark.run("audit", work)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("number", range(4))
async def test_spark_finds_what_one_replay_finds(warm_spark, entries, tmp_path, number):
    """Untouched, told otherwise, and changed in its files with a snapshot replaced."""
    print("seed", SEED)
    chance = random.Random(SEED + number)
    told = forged_history(chance, entries) if number % 2 else entries
    place = written(tmp_path / "a", chance, entries, told=told)
    if number >= 2:
        forger = Forger(place, tmp_path / "b", SEED + number)
        place = forger.archive
        replace_snapshot(forger)
        with suppress(ArchiveError):
            tamper(forger)

    report = await on_spark(warm_spark, place)

    assert report == audited(open_archive(place))
    assert report.errors or not number


@pytest.mark.asyncio(loop_scope="session")
async def test_spark_compares_what_crosses_stretches(warm_spark, entries, tmp_path, monkeypatch):
    """Ids used before, clocks, more actors than are told apart, more than is kept of each rule."""
    monkeypatch.setattr("audit.people.ACTORS_KEPT_MAX", 20)
    monkeypatch.setattr("audit.spark.ACTORS_KEPT_MAX", 20)
    same = {"entry_id": entries[2].entry_id, "committed_at": 1}
    told = retold(entries, 70, dict.fromkeys(range(71, len(entries) + 1), same))
    made = rehashed(snapshots_at(entries, {40, 80, 120, 160}), told)
    export(told, folder(tmp_path), snapshots=made)

    report = await on_spark(warm_spark, tmp_path)

    assert report == audited(open_archive(tmp_path))
    assert report.counts["entry-id"] == report.counts["committed-at"] == len(entries) - 70
    assert report.dropped > 0
    assert OTHERS in {item.actor for item in report.people}


@pytest.mark.asyncio(loop_scope="session")
async def test_spark_leaves_no_end_out(warm_spark, entries, tmp_path):
    """The last task cannot read the snapshot that the one before it has read."""
    export(entries, folder(tmp_path), snapshots=snapshots_at(entries, {50, 100}))
    fickle = partial(opening_fickle, str(tmp_path), 100)

    with pytest.raises(ArchiveError, match="epoch 100: nothing behind it was replayed"):
        await warm_spark.run("audit", lambda spark: audited_on_spark(spark, fickle, name="it"))


@pytest.mark.asyncio(loop_scope="session")
async def test_spark_is_as_thorough_as_one_replay(warm_spark, entries, tmp_path):
    place = written(tmp_path / "a", random.Random(SEED), entries)

    report = await on_spark(warm_spark, place, thorough=True)

    assert report == audited(open_archive(place), thorough=True)


@pytest.mark.asyncio(loop_scope="session")
async def test_spark_refuses_an_epoch_that_is_not_there(warm_spark, entries, tmp_path):
    export(entries[:30], folder(tmp_path))

    with pytest.raises(UnknownEpochError, match="it ends at 30"):
        await on_spark(warm_spark, tmp_path, up_to=Epoch(31))
