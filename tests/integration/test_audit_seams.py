"""Archives that begin where another ends: what lies at the seam is bound to what was signed."""

from __future__ import annotations

import random
from hashlib import sha256

import msgspec
import pytest
from msgspec import UNSET

from audit.archive import (
    CHECKPOINT,
    MANIFEST,
    ORIGIN,
    Seam,
    SeamEntry,
    encode_manifest,
    read_manifest,
    seam_path,
)
from audit.containers import entry_container
from audit.errors import ArchiveError
from audit.exporting import begin_export, export
from audit.folder import folder
from audit.history import SnapshotUnusableError, metadata_at
from audit.reading import Archive, join, open_archive
from audit.report import Made, Trust, report_on_archives
from audit.seams import encode_seam
from audit.segments import schema_notes
from audit.stored_snapshots import encode_snapshot
from audit.tiles import TileTree
from audit.verify import Fault, Given, Verified, verify
from log.chain import seal
from log.replay import replay
from metadata.epoch import Epoch
from tests.archives import KEY, archived, committed, entries_of, snapshot_of, snapshots_at
from tests.forging import Forger
from transformations.extensions import SetExtension

ENTRIES = entries_of(1100)
ANCHORED = Given(keys=(KEY.public,))
SEED = random.SystemRandom().randrange(2**32)
MADE = Made("test", "today")


@pytest.fixture(autouse=True)
def small_segments(monkeypatch):
    """So that a short log has many."""
    monkeypatch.setattr("audit.segments.SEGMENT_ENTRIES_MAX", 100)


def rehashed(first, last):
    """Another history from `first` on, that fits together."""
    applied = replay(ENTRIES[: first - 1])
    found = ENTRIES[: first - 1]
    for number in range(first, last + 1):
        step = committed(SetExtension(name="forged", value=str(number)), applied)
        applied = step.applied
        found.append(step.sealed)
    return found


def fault_in(place, given=ANCHORED):
    verdict = verify(place, given)
    assert isinstance(verdict, Fault), verdict
    return verdict


def sound(place, given=ANCHORED):
    verdict = verify(place, given)
    assert isinstance(verdict, Verified), verdict
    return verdict


def continued(tmp_path, at, up_to, *, name="second"):
    """An archive up to `at`, signed and with a snapshot, and one behind it."""
    first = archived(tmp_path / f"before-{name}", ENTRIES[:at], snapshots={at})
    export(ENTRIES[at:up_to], folder(tmp_path / name), continuing=open_archive(first), keys=[KEY])
    return first, tmp_path / name


def as_an_older_release_wrote_it(place):
    """Without the entry where it begins."""
    manifest = read_manifest(folder(place))
    assert manifest.seam_entry is not UNSET
    (place / manifest.seam_entry.path).unlink()
    older = msgspec.structs.replace(manifest, format="ringlog.archive.v1", seam_entry=UNSET)
    (place / MANIFEST).write_bytes(encode_manifest(older))
    return place


@pytest.mark.parametrize("end", [400, 512])
@pytest.mark.parametrize("seam", ["dropped", "forged", "left"])
def test_a_signed_seam_vouches_for_no_forged_end(tmp_path, end, seam):
    """Where entries end in a full tile, too, of which the archive behind it has no part."""
    forged = rehashed(301, end)
    genuine, second = continued(tmp_path, end, end)
    first = archived(tmp_path / "first", ENTRIES[:300], snapshots=set())
    export(forged[299:], folder(first))
    forger = Forger(second, tmp_path / "copy", 0)
    manifest = forger.manifest
    false = msgspec.structs.replace(manifest.after, hash=forged[-1].hash.hex())
    if seam == "dropped":
        forger.mend(
            after=false, tip=false, seam_entry=UNSET, format="ringlog.archive.v1", snapshots=()
        )
    else:
        entry, data = encode_seam(forged[-1], open_archive(genuine).tree)
        if seam == "forged":
            forger.put(entry.path, data)
            forger.mend(after=false, tip=false, seam_entry=entry, snapshots=())
        else:
            forger.mend(after=false, tip=false, snapshots=())

    verdict = verify(forger.archive, ANCHORED)

    if seam == "dropped" and end == 512:
        assert isinstance(verdict, Verified)
        assert (
            verdict.sentence
            == "no entries behind epoch 512: consistent, not anchored; digests not recomputed"
        )
    else:
        assert isinstance(verdict, Fault)
        assert verdict.where == MANIFEST
        assert f"epoch {end}, where it begins" in verdict.fault
    if seam != "left":
        with pytest.raises(ArchiveError, match=f"it disagrees with .* at epoch {end} or before"):
            join([open_archive(first), open_archive(forger.archive)])
    report = report_on_archives([str(first), str(forger.archive)], ANCHORED, MADE)
    assert report.trust is Trust.TAMPERED


def test_a_report_is_anchored_where_all_of_it_is(tmp_path):
    first = archived(tmp_path / "first", ENTRIES[:300], snapshots=set())
    export(ENTRIES[299:400], folder(first))
    second = tmp_path / "second"
    export(ENTRIES[400:500], folder(second), continuing=open_archive(first), keys=[KEY])

    before = report_on_archives([str(first), str(second)], ANCHORED, MADE)
    export(ENTRIES[399:400], folder(first), keys=[KEY])
    after = report_on_archives([str(first), str(second)], ANCHORED, MADE)

    assert before.trust is Trust.UNANCHORED
    assert after.trust is Trust.ANCHORED


def test_archives_in_a_row_carry_their_seams(tmp_path):
    """Also behind one that holds no entries."""
    found: list[Archive] = []
    for number, end in enumerate([256, 256, 300, 512, 512, 700]):
        before = found[-1] if found else None
        begin = 0 if before is None else before.tip.epoch
        place = tmp_path / str(number)
        export(ENTRIES[begin:end], folder(place), continuing=before, keys=[KEY])
        manifest = read_manifest(folder(place))
        assert manifest.format == f"ringlog.archive.v{1 if number == 0 else 2}"
        assert sound(place).is_anchored
        found.append(open_archive(place))
        assert found[-1].seam_entry() == (ENTRIES[begin - 1] if begin else None)

    assert list(join(found).entries(Epoch(0), Epoch(700))) == ENTRIES[:700]
    export(ENTRIES[699:800], folder(place), keys=[KEY])
    assert sound(place).tip.epoch == 800


def forged_snapshot(epoch):
    """Of other metadata, with everything mended around it."""
    other = committed(SetExtension(name="name9", value="forged"), replay(ENTRIES[: epoch - 1]))
    true = replay(ENTRIES[:epoch])
    return msgspec.structs.replace(snapshot_of(other.applied), hash=true.hash)


def put_snapshot(forger, snapshot):
    file, data = encode_snapshot(snapshot)
    forger.put(file.path, data)
    others = [item for item in forger.manifest.snapshots if item.epoch != file.epoch]
    ordered = sorted([*others, file], key=lambda item: item.epoch)
    forger.mend(snapshots=tuple(ordered))
    return file


@pytest.mark.parametrize("recompute", [False, True])
def test_a_replaced_snapshot_where_an_archive_begins_is_found(tmp_path, recompute):
    _, second = continued(tmp_path, 400, 600)
    forger = Forger(second, tmp_path / "copy", 0)
    file = put_snapshot(forger, forged_snapshot(400))

    fault = fault_in(forger.archive, Given(keys=(KEY.public,), recompute=recompute))

    assert (fault.where, fault.epoch) == (file.path, 400)
    archive = open_archive(forger.archive)
    with pytest.raises(SnapshotUnusableError, match="not what the entry of its epoch led to"):
        archive.restored(Epoch(400))
    with pytest.raises(ArchiveError, match="it begins after epoch 400"):
        metadata_at(archive, Epoch(400))
    report = report_on_archives([str(forger.archive)], ANCHORED, MADE)
    assert report.trust is Trust.TAMPERED


def test_an_archive_of_an_older_release_is_read_and_says_what_it_cannot_tell(tmp_path):
    _, second = continued(tmp_path, 400, 600)
    as_an_older_release_wrote_it(second)

    verdict = sound(second, Given(keys=(KEY.public,), recompute=True))

    assert verdict.is_anchored
    (unchecked,) = verdict.unchecked
    assert unchecked.startswith("the snapshot of epoch 400, where it begins, could not be held")
    assert verdict.sentence.endswith(unchecked)
    archive = open_archive(second)
    assert metadata_at(archive, Epoch(400)) == replay(ENTRIES[:400])
    export(ENTRIES[599:700], folder(second), keys=[KEY])
    assert sound(second).tip.epoch == 700


def test_without_its_entry_the_next_one_holds_a_snapshot_to_account(tmp_path):
    _, second = continued(tmp_path, 400, 600)
    forger = Forger(as_an_older_release_wrote_it(second), tmp_path / "copy", 0)
    put_snapshot(forger, forged_snapshot(400))

    with pytest.raises(SnapshotUnusableError, match="another digest than the entry says"):
        open_archive(forger.archive).restored(Epoch(400))


@pytest.mark.parametrize("number", range(24))
def test_a_change_anywhere_in_a_continuing_archive_is_found(tmp_path, number):
    chance = random.Random(SEED + number)
    print("seed", SEED + number)
    at = chance.choice([256, 400, 512, chance.randrange(2, 900)])
    _, second = continued(tmp_path, at, at + chance.randrange(1, 200))
    forger = Forger(second, tmp_path / "copy", SEED + number)
    path = forger.any_file() if number % 3 else seam_path(at)
    data = bytearray(forger.get(path))
    place = chance.randrange(len(data))
    if number % 2:
        data[place] ^= 1 << chance.randrange(8)
        forger.put(path, bytes(data))
    else:
        forger.put(path, bytes(data[:place]))

    fault = fault_in(forger.archive)

    told = "manifest" in fault.fault or "the tiles do not give the root" in fault.fault
    assert fault.where == path or told or path == MANIFEST, fault


def test_every_byte_of_the_manifest_of_a_continuing_archive_counts(tmp_path):
    _, second = continued(tmp_path, 7, 9)
    data = (second / MANIFEST).read_bytes()
    seam = seam_path(7)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        (second / MANIFEST).write_bytes(bytes(changed))

        fault = fault_in(second)
        assert fault.where in {MANIFEST, seam} or "manifest" in fault.fault, fault


def test_a_continuing_archive_hashed_anew_is_found_and_names_epochs_that_it_holds(tmp_path):
    first, second = continued(tmp_path, 400, 600)
    forged = rehashed(450, 600)
    export(forged[400:], folder(tmp_path / "forged"), continuing=open_archive(first))
    forger = Forger(tmp_path / "forged", tmp_path / "copy", 0)
    forger.leave_checkpoints_of(second)

    fault = fault_in(forger.archive)

    assert fault.epoch == 401
    assert fault.fault == "epochs 401 to 600 are not those that were signed"
    joined = report_on_archives([str(first), str(forger.archive)], ANCHORED, MADE)
    assert joined.trust is Trust.TAMPERED


def test_a_checkpoint_where_the_archive_begins_is_held_against_the_tree_there(tmp_path):
    first = archived(tmp_path / "first", rehashed(350, 400), snapshots=set())
    genuine, _ = continued(tmp_path, 400, 400)
    export([], folder(tmp_path / "forged"), continuing=open_archive(first))
    forger = Forger(tmp_path / "forged", tmp_path / "copy", 0)
    forger.leave_checkpoints_of(genuine)

    fault = fault_in(forger.archive)

    assert fault.epoch == 400
    assert fault.fault == "what goes before, up to epoch 400, is not what was signed"


@pytest.mark.parametrize("drawn", range(4))
def test_a_joined_history_with_another_at_its_seam_is_refused(tmp_path, drawn):
    """One of two archives that fit is replaced by one of another history of the same length."""
    chance = random.Random(SEED + drawn)
    print("seed", SEED + drawn)
    at = chance.randrange(2, 500)
    forged = rehashed(chance.randrange(2, at + 1), at)
    _, second = continued(tmp_path, at, at + 50)
    first = archived(tmp_path / "first", forged, snapshots=set())

    with pytest.raises(ArchiveError, match=f"disagrees with .* at epoch {at} or before"):
        join([open_archive(first), open_archive(second)])


def test_a_seam_of_another_cluster_or_epoch_is_found(tmp_path):
    first, second = continued(tmp_path, 400, 400)
    archive = open_archive(first)
    other = msgspec.structs.replace(ENTRIES[399].entry, epoch=Epoch(399))
    forger = Forger(second, tmp_path / "copy", 0)
    sealed = seal(other, ENTRIES[398].hash)
    entry, data = encode_seam(msgspec.structs.replace(sealed, epoch=Epoch(400)), archive.tree)
    forger.put(entry.path, data)
    false = msgspec.structs.replace(forger.manifest.after, hash=sealed.hash.hex())
    forger.mend(after=false, tip=false, seam_entry=entry, snapshots=())

    assert fault_in(forger.archive).where in {MANIFEST, entry.path}


@pytest.mark.parametrize("changed", ["hash", "root"])
def test_a_chain_that_does_not_begin_with_nothing_is_found(tmp_path, changed):
    """Hashed anew from the first entry on, so that each follows the one before."""
    tip, forged = bytes([7] * 32), []
    for sealed in ENTRIES[:20]:
        forged.append(seal(sealed.entry, tip))
        tip = forged[-1].hash
    begun = msgspec.structs.replace(ORIGIN, **{changed: "07" * 32})
    archived(tmp_path / "archive", ENTRIES[:20], snapshots=set())
    forger = Forger(tmp_path / "archive", tmp_path / "copy", 0)
    (segment,) = forger.manifest.segments
    if changed == "hash":
        forger.rewrite(segment, lambda _: forged)
        (segment,) = forger.manifest.segments
        mended = msgspec.structs.replace(segment, previous_hash="07" * 32, hash=tip.hex())
        tree = TileTree()
        for sealed in forged:
            tree.append(sealed.hash)
        for tile in tree.partial():
            forger.put(tile.place.path, tile.data)
        end = Seam(epoch=20, hash=tip.hex(), root=tree.root().hex())
        forger.mend(after=begun, segments=(mended,), tip=end, checkpoints=())
        (forger.archive / CHECKPOINT).unlink()
    else:
        forger.mend(after=begun)

    fault = fault_in(forger.archive, Given())

    assert fault.where == MANIFEST
    assert "before that there is neither hash nor entry" in fault.fault


def test_an_entry_before_the_first_is_found(tmp_path):
    archived(tmp_path / "archive", ENTRIES[:20], snapshots=set())
    forger = Forger(tmp_path / "archive", tmp_path / "copy", 0)
    data = entry_container([], schema_notes(iter([])))
    nothing = SeamEntry(
        path=seam_path(0),
        sha256=sha256(data).hexdigest(),
        size_bytes=len(data),
        first=1,
        last=0,
        payload_bytes=0,
        previous_hash=ORIGIN.hash,
        hash=ORIGIN.hash,
        proof=(),
    )
    forger.put(nothing.path, data)
    forger.mend(format="ringlog.archive.v2", seam_entry=nothing)

    fault = fault_in(forger.archive, Given())

    assert "before that there is neither hash nor entry" in fault.fault


def test_what_was_exported_behind_another_keeps_no_snapshot_from_before_it(tmp_path):
    """A log lists those of all its past."""
    first = archived(tmp_path / "first", ENTRIES[:1050], snapshots=set())
    with begin_export(folder(tmp_path / "second"), continuing=open_archive(first)) as running:
        for sealed in ENTRIES[1050:]:
            running.take(sealed)
        wanted = running.wanted([Epoch(1000), Epoch(1050), Epoch(1080)])
        for snapshot in snapshots_at(ENTRIES, set(wanted)):
            running.keep(snapshot)
        running.finish([KEY])

    assert wanted == [1080]
    assert open_archive(tmp_path / "second").snapshots() == [1050, 1080]
    assert sound(tmp_path / "second", Given(keys=(KEY.public,), recompute=True)).is_anchored
