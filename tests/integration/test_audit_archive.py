"""An archive holds the log that was exported, whole, however often the export was broken off."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import suppress
from io import BytesIO
from typing import Any

import fastavro
import msgspec
import pytest
from pyarrow import fs

from audit.archive import CHECKPOINT, MANIFEST, encode_manifest, read_manifest
from audit.bundle import check_bundle, prove
from audit.errors import ArchiveError, OtherHistoryError
from audit.exporting import begin_export, compared_from, export, export_live, stored_entries
from audit.folder import Folder, folder
from audit.history import SnapshotUnusableError, metadata_at
from audit.keys import generate
from audit.reading import first_difference, join, open_archive
from audit.signing import sign_archive
from audit.verify import Fault, Given, Verified, verify
from log.memory import MemoryLog
from log.replay import replay
from metadata.epoch import Epoch
from snapshots.memory import MemorySnapshots
from tests.archives import (
    KEY,
    OTHER_CLUSTER,
    OTHER_KEY,
    archived,
    committed,
    entries_of,
    snapshot_of,
    snapshots_at,
)
from tests.forging import without_snapshots
from tests.golden.history import history
from transformations.extensions import SetExtension

ENTRIES = entries_of(1500)
ANCHORED = Given(keys=(KEY.public,))


@pytest.fixture(autouse=True)
def small_segments(monkeypatch):
    """So that a short log has many."""
    monkeypatch.setattr("audit.segments.SEGMENT_ENTRIES_MAX", 300)


def sound(place, given=ANCHORED):
    verdict = verify(place, given)
    assert isinstance(verdict, Verified), verdict
    return verdict


def test_an_archive_holds_what_was_exported(tmp_path):
    manifest = export(ENTRIES, folder(tmp_path))
    archive = open_archive(tmp_path)

    assert list(archive.entries(Epoch(0), archive.tip.epoch)) == ENTRIES
    assert list(archive.entries(Epoch(298), Epoch(601))) == ENTRIES[298:601]
    assert archive.entry(Epoch(1500)) == ENTRIES[-1]
    assert archive.tip.hash == ENTRIES[-1].hash
    assert [segment.last for segment in manifest.segments] == [300, 600, 900, 1200, 1500]
    assert (
        sound(tmp_path, Given()).sentence
        == "epochs 1 to 1500: consistent, not anchored; digests not recomputed"
    )


def test_every_kind_of_entry_is_archived_and_executed_again(tmp_path):
    scribe = history()
    export(scribe.entries, folder(tmp_path), snapshots=[snapshot_of(scribe.applied)], keys=[KEY])

    verdict = sound(tmp_path, Given(keys=(KEY.public,), recompute=True))

    archive = open_archive(tmp_path)
    assert verdict.recomputed
    assert replay(archive.entries(Epoch(0), archive.tip.epoch)) == scribe.applied
    assert archive.restored(archive.tip.epoch) == scribe.applied


def test_any_avro_library_reads_a_segment_with_nothing_beside_it(tmp_path):
    segment = export(ENTRIES, folder(tmp_path)).segments[1]

    with (tmp_path / segment.path).open("rb") as file:
        reader = fastavro.reader(file)
        schemas = json.loads(reader.metadata["ringlog.schemas"])
        found: list[Any] = list(reader)

    assert [item["epoch"] for item in found] == list(range(301, 601))
    payload = found[0]["payload"]
    schema = schemas[payload[2:10].hex()]
    content: Any = fastavro.schemaless_reader(BytesIO(payload[10:]), schema, None)
    assert content["epoch"] == 301
    assert content["transformation"] == {"name": "name0", "value": "300"}


def test_exports_add_up(tmp_path):
    """In pieces or at once: the same history, and finished segments stay as they are."""
    seed = random.randrange(2**32)
    print("seed", seed)
    cuts = sorted(random.Random(seed).sample(range(1, 1500), 6))
    whole = export(ENTRIES, folder(tmp_path / "whole"))
    before: dict[str, bytes] = {}
    for cut in [*cuts, 1500]:
        into = folder(tmp_path / "pieces")
        pieces = export(ENTRIES[compared_from(into) : cut], into)
        for path, data in before.items():
            assert (tmp_path / "pieces" / path).read_bytes() == data
        full = [item for item in pieces.segments if item.last - item.first == 299]
        before = {item.path: (tmp_path / "pieces" / item.path).read_bytes() for item in full}
        sound(tmp_path / "pieces", Given())

    assert msgspec.structs.replace(pieces, checkpoints=()) == whole
    assert len(list((tmp_path / "pieces" / "segments").iterdir())) == 5


CHANGES_MAX = 200


class CrashError(Exception):
    pass


class CrashingFolder(Folder):
    """Stops before its n-th change, in the middle of writing a file."""

    def crash_after(self, changes):
        self.left = changes
        return self

    def write(self, path, data):
        self._count(path)
        super().write(path, data)

    def delete(self, path):
        self._count(None)
        super().delete(path)

    def _count(self, path):
        self.left -= 1
        if self.left < 0:
            if path is not None:
                super().write(path + ".partial", b"half a fi")
            raise CrashError


def crashing(path, changes):
    return CrashingFolder(fs.LocalFileSystem(), str(path), str(path)).crash_after(changes)


def test_a_crash_at_any_point_leaves_an_archive_that_goes_on(tmp_path, monkeypatch):
    """Also with a log that went another way than the entries that were not yet committed."""
    monkeypatch.setattr("audit.segments.SEGMENT_ENTRIES_MAX", 60)
    begun = archived(tmp_path / "begun", ENTRIES[:260], snapshots={200})
    fork = ENTRIES[:260] + entries_after(260, 350)
    later = snapshots_at(ENTRIES[:330], {280})
    for changes in range(CHANGES_MAX):
        place = tmp_path / str(changes)
        shutil.copytree(begun, place)
        survived = survives(ENTRIES[255:330], crashing(place, changes), snapshots=later)

        between = sound(place)
        assert between.tip.epoch in {260, 300, 330}
        going_on = ENTRIES if between.tip.epoch > 260 else fork
        export(going_on[255:350], folder(place), keys=[KEY])
        after = sound(place, Given(keys=(KEY.public,), recompute=True))
        assert after.tip.hash == going_on[349].hash
        assert after.strays == ()
        if survived:
            break
    assert survived
    assert changes > 10


@pytest.mark.parametrize("keys", [(), (OTHER_KEY,)], ids=["first", "second"])
def test_a_crash_while_signing_leaves_an_archive_that_can_be_signed(tmp_path, keys):
    begun = export(ENTRIES[:300], folder(tmp_path / "begun"), keys=keys)
    given = Given(keys=tuple(key.public for key in keys))
    for changes in range(CHANGES_MAX):
        place = tmp_path / str(changes)
        shutil.copytree(tmp_path / "begun", place)
        with suppress(CrashError):
            sign_archive(crashing(place, changes), [KEY])
            break

        sound(place, given)
        sign_archive(folder(place), [KEY])
        assert sound(place).is_anchored
    assert changes >= 3
    assert begun.tip.epoch == 300


def survives(entries, place, *, snapshots):
    try:
        export(entries, place, snapshots=snapshots, keys=[KEY])
    except CrashError:
        return False
    return True


def entries_after(shared, length):
    """Entries that follow the first `shared` ones of the log and are not those of the log."""
    applied = replay(ENTRIES[:shared])
    found = []
    for number in range(shared, length):
        step = committed(SetExtension(name="fork", value=str(number)), applied)
        applied = step.applied
        found.append(step.sealed)
    return found


def test_another_history_is_refused(tmp_path):
    other = ENTRIES[:800] + entries_after(800, 1000)
    export(ENTRIES[:900], folder(tmp_path))

    with pytest.raises(OtherHistoryError, match="epoch 801: it holds another history") as caught:
        export(other, folder(tmp_path))
    assert caught.value.epoch == 801
    with pytest.raises(OtherHistoryError, match="epoch 900"):
        export(other[900:], folder(tmp_path))
    with pytest.raises(ArchiveError, match="epoch 901 is due and 902 came"):
        export(ENTRIES[901:], folder(tmp_path))
    archive = open_archive(tmp_path)
    assert first_difference(archive, lambda at: other[at - 1].hash) == 801
    assert first_difference(archive, lambda at: ENTRIES[at - 1].hash) is None
    assert sound(tmp_path, Given()).tip.epoch == 900


def test_an_entry_that_does_not_fit_its_hash_is_not_archived(tmp_path):
    forged = msgspec.structs.replace(ENTRIES[5], payload=ENTRIES[5].payload + b"x")

    with pytest.raises(ArchiveError, match="epoch 6"):
        export([*ENTRIES[:5], forged], folder(tmp_path))


def test_an_empty_log_makes_no_archive(tmp_path):
    with pytest.raises(ArchiveError, match="there is no entry to begin it with"):
        export([], folder(tmp_path))
    with pytest.raises(ArchiveError, match=r"it is not an archive: it has no manifest\.json"):
        open_archive(tmp_path)
    with pytest.raises(ArchiveError, match="epoch 1 is due and 2 came"):
        export(ENTRIES[1:], folder(tmp_path))


def test_other_file_systems_hold_archives_too():
    files = fs.FileSystem.from_uri("mock:///")[0]
    place = Folder(files, "bucket/archive", "mock")

    export(ENTRIES[:700], place, keys=[KEY])
    export(ENTRIES[699:], place, keys=[KEY])

    assert sound(place).is_anchored
    with pytest.raises(ArchiveError, match="no place that Arrow knows"):
        folder("nowhere://bucket/archive")


async def test_a_live_log_is_exported_with_its_snapshots(tmp_path):
    """Not those that stand too close together, but always the newest."""
    log, snapshots = MemoryLog(), MemorySnapshots()
    await log.append(ENTRIES, onto=await log.tip())
    for snapshot in snapshots_at(ENTRIES, {100, 1000, 1001, 1100, 1400}):
        await snapshots.save(snapshot, created_by="cms1")

    await export_live(
        stored_entries(log, after=Epoch(0)), folder(tmp_path), snapshots=snapshots, keys=[KEY]
    )

    archive = open_archive(tmp_path)
    assert archive.snapshots() == [1000, 1400]
    assert sound(tmp_path).is_anchored
    assert archive.restored(Epoch(1400)) == replay(ENTRIES[:1400])
    assert metadata_at(archive, Epoch(1450)) == replay(ENTRIES[:1450])
    with pytest.raises(SnapshotUnusableError, match="there is none"):
        archive.restored(Epoch(1200))


def test_a_snapshot_that_is_not_of_its_entry_is_refused(tmp_path):
    ours = snapshots_at(ENTRIES, {700})[0]
    theirs = snapshots_at(entries_of(700, cluster=OTHER_CLUSTER), {700})[0]
    posing = msgspec.structs.replace(theirs, hash=ours.hash, digest=ours.digest)
    with begin_export(folder(tmp_path)) as running:
        for sealed in ENTRIES[:800]:
            running.take(sealed)

        with pytest.raises(ArchiveError, match="not what the entry of its epoch led to"):
            running.keep(theirs)
        with pytest.raises(ArchiveError, match="The image is not that of epoch 700"):
            running.keep(posing)
        with pytest.raises(ArchiveError, match="no entry for the snapshot of epoch 900"):
            running.keep(msgspec.structs.replace(ours, epoch=Epoch(900)))
        running.keep(ours)
        running.finish()
    assert sound(tmp_path, Given()).tip.epoch == 800


def test_an_archive_may_begin_where_another_ends(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    archived(first, ENTRIES[:700], snapshots={700})
    export(ENTRIES[700:1000], folder(second), continuing=open_archive(first), keys=[KEY])
    export(ENTRIES[999:], folder(second), keys=[KEY])

    verdict = sound(second, Given(keys=(KEY.public,), recompute=True))
    assert (verdict.after, verdict.tip.epoch) == (700, 1500)
    assert open_archive(second).snapshots() == [700]
    assert metadata_at(open_archive(second), Epoch(1300)) == replay(ENTRIES[:1300])
    assert verdict.root.hex() == export(ENTRIES, folder(tmp_path / "whole")).tip.root
    whole = join([open_archive(second), open_archive(first)])
    assert list(whole.entries(Epoch(0), Epoch(1500))) == ENTRIES
    assert list(whole.entries(Epoch(650), Epoch(750))) == ENTRIES[650:750]
    assert whole.snapshots() == [700]
    assert metadata_at(whole, Epoch(900)) == replay(ENTRIES[:900])
    with pytest.raises(ArchiveError, match="it begins after epoch 700"):
        list(open_archive(second).entries(Epoch(0), Epoch(800)))
    bundle = prove(open_archive(second), Epoch(1200))
    assert check_bundle(bundle, [KEY.public]).size == 1500


def test_without_a_snapshot_where_it_begins_digests_cannot_be_computed(tmp_path):
    export(ENTRIES[:700], folder(tmp_path / "first"))
    first = open_archive(tmp_path / "first")
    export(ENTRIES[700:900], folder(tmp_path / "second"), continuing=first)
    without_snapshots(tmp_path / "second")

    assert sound(tmp_path / "second", Given()).tip.epoch == 900
    verdict = verify(tmp_path / "second", Given(recompute=True))
    assert isinstance(verdict, Fault)
    assert "it needs a snapshot of epoch 700, its beginning" in verdict.sentence
    assert verdict.is_misuse
    with pytest.raises(ArchiveError, match="it does not begin where"):
        export(
            ENTRIES[900:], folder(tmp_path / "second"), continuing=open_archive(tmp_path / "second")
        )


def test_archives_that_are_not_one_history_are_refused(tmp_path):
    def at(name, entries, continuing=None):
        export(entries, folder(tmp_path / name), continuing=continuing)
        return open_archive(tmp_path / name)

    first = at("first", ENTRIES[:700])
    second = at("second", ENTRIES[700:1000], first)
    third = at("third", ENTRIES[1000:1200], second)
    longer = at("longer", ENTRIES[:800])
    forked = at("forked", ENTRIES[:650] + entries_after(650, 900))
    beyond = at("beyond", entries_after(650, 950)[250:], forked)
    foreign = at("foreign", entries_of(700, cluster=OTHER_CLUSTER))

    assert join([third, first, second]).tip.epoch == 1200
    for archives, sentence in (
        ([first, third], "epochs 701 to 1000 are missing before it"),
        ([longer, second], "epochs 701 to 800 are in .*longer, too: leave one of them out"),
        ([first, longer], "epochs 1 to 700 are in .*first, too"),
        ([first, forked], "epoch 651: it disagrees with .*first"),
        ([first, second, beyond], "disagrees with .*second at epoch 900 or before"),
        ([first, foreign], f"it is of cluster {OTHER_CLUSTER}"),
    ):
        with pytest.raises(ArchiveError, match=sentence):
            join(archives)


def test_signatures_are_added_and_keys_replaced(tmp_path):
    export(ENTRIES[:700], folder(tmp_path), keys=[KEY])
    export(ENTRIES[699:1000], folder(tmp_path), keys=[KEY, OTHER_KEY])
    export(ENTRIES[999:], folder(tmp_path))

    old, new = Given(keys=(KEY.public,)), Given(keys=(OTHER_KEY.public,))
    assert sound(tmp_path, old).sentence == (
        "epochs 1 to 1500: verified and anchored by ringlog.example/log up to 1000; "
        "consistent, not anchored, behind that; digests not recomputed"
    )
    sign_archive(folder(tmp_path), [OTHER_KEY])
    assert sound(tmp_path, new).sentence == (
        "epochs 1 to 1500: verified and anchored by ringlog.example/log; digests not recomputed"
    )
    sign_archive(folder(tmp_path), [KEY])
    sign_archive(folder(tmp_path), [KEY])
    assert sound(tmp_path, old).is_anchored
    assert sound(tmp_path, new).is_anchored
    assert [item.epoch for item in read_manifest(folder(tmp_path)).checkpoints] == [700, 1000, 1500]
    stranger = generate("stranger").public
    verdict = verify(tmp_path, Given(keys=(stranger,)))
    assert isinstance(verdict, Fault)
    assert verdict.where == CHECKPOINT


def test_a_log_never_signs_two_histories(tmp_path):
    export(ENTRIES[:700], folder(tmp_path / "one"), keys=[KEY])
    export(entries_of(800, salt="other"), folder(tmp_path / "two"), keys=[KEY])
    one = read_manifest(folder(tmp_path / "one")).checkpoints[0]
    two = tmp_path / "two" / MANIFEST
    manifest = msgspec.structs.replace(read_manifest(folder(tmp_path / "two")), checkpoints=(one,))
    two.write_bytes(encode_manifest(manifest))
    shutil.copy(tmp_path / "one" / one.path, tmp_path / "two" / one.path)

    with pytest.raises(ArchiveError, match="the entries are not those that it was signed for"):
        sign_archive(folder(tmp_path / "two"), [KEY])
