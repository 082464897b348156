"""Whatever is changed in an archive is found, and its place is named; untouched ones are sound."""

from __future__ import annotations

import random

import msgspec
import pytest

from audit import codecs
from audit.archive import (
    CHECKPOINT,
    MANIFEST,
    TILES,
    CheckpointFile,
    checkpoint_path,
    described,
    read_manifest,
)
from audit.checkpoints import Checkpoint, parse_checkpoint
from audit.exporting import export
from audit.folder import folder
from audit.history import metadata_at
from audit.notes import SignedNote
from audit.reading import open_archive
from audit.replay import audited
from audit.segments import SEGMENT_ENTRIES_MAX
from audit.stored_snapshots import encode_snapshot
from audit.verify import Fault, Given, Verified, verify
from log.chain import seal
from log.replay import replay
from metadata.epoch import Epoch
from tests.archives import (
    KEY,
    SMALL,
    archived,
    committed,
    entries_of,
    long_log,
    small_archive,
    snapshot_of,
)
from tests.forging import Forger
from tests.golden.scribe import Scribe
from tests.histories import simulated
from transformations.extensions import SetExtension

ANCHORED = Given(keys=(KEY.public,))
SMALL_ENTRIES = entries_of(SMALL)
LARGE = 100_000
ROUNDS = 12
LENGTHS = (0, 300, 500, 900, 12_000)
"""Of untouched archives; none is shorter than the sequences that it begins with."""
SEED = random.SystemRandom().randrange(2**32)
EACH_ROUND = pytest.mark.parametrize("number", range(ROUNDS))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return small_archive(tmp_path_factory.mktemp("small") / "archive", SMALL_ENTRIES)


@pytest.fixture
def forger(small, tmp_path, number):
    seed = SEED + number
    print("seed", seed)
    return Forger(small, tmp_path / "copy", seed)


def fault_in(place, given=ANCHORED):
    verdict = verify(place, given)
    assert isinstance(verdict, Fault), verdict
    assert verdict.sentence.endswith(".")
    return verdict


def assert_located(fault, path, manifest):
    """In the file that was changed, and for entries not outside of it."""
    if path == MANIFEST:
        assert fault.where == MANIFEST or "manifest" in fault.fault, fault
        return
    assert fault.where == path, fault
    for segment in manifest.segments:
        if segment.path == path:
            assert fault.epoch is None or segment.first <= fault.epoch <= segment.last, fault


@pytest.mark.parametrize("number", range(5 * ROUNDS))
def test_a_flipped_bit_is_found_in_any_file(forger):
    path = forger.any_file()
    data = bytearray(forger.get(path))
    manifest = forger.manifest
    data[forger.chance.randrange(len(data))] ^= 1 << forger.chance.randrange(8)
    forger.put(path, bytes(data))

    assert_located(fault_in(forger.archive), path, manifest)


@pytest.mark.parametrize("number", range(2 * ROUNDS))
def test_a_file_cut_short_is_found(forger):
    path = forger.any_file()
    data = forger.get(path)
    manifest = forger.manifest
    forger.put(path, data[: forger.chance.randrange(len(data))])

    assert_located(fault_in(forger.archive), path, manifest)


def is_outgrown(path):
    """A part of a tile, for a tree of long ago; a longer one is there."""
    return path.startswith(f"{TILES}/1/") and path != f"{TILES}/1/000.p/11"


@EACH_ROUND
def test_a_file_that_is_gone_is_found(forger):
    for path in filter(is_outgrown, forger.files):
        (forger.archive / path).unlink()
    assert isinstance(verify(forger.archive, ANCHORED), Verified)
    path = forger.any_file()
    (forger.archive / path).unlink()

    fault = fault_in(forger.archive)

    assert fault.where == (str(forger.archive) if path == MANIFEST else path)
    assert "missing" in fault.fault or path == MANIFEST


@EACH_ROUND
def test_files_that_changed_places_are_found(forger):
    kind = forger.chance.choice(["segments/", "snapshots/", "checkpoints/", "tile/0/0"])
    one, other = sorted(
        forger.chance.sample([path for path in forger.files if path.startswith(kind)], 2)
    )
    ones, others = forger.get(one), forger.get(other)
    forger.put(one, others)
    forger.put(other, ones)

    assert fault_in(forger.archive).where in {one, other}


@EACH_ROUND
def test_a_flipped_bit_in_an_entry_is_found_at_its_epoch(forger):
    """Also where the file itself was written anew around it."""
    segment = forger.any_segment()
    place = forger.chance.randrange(segment.last - segment.first + 1)

    def flip(entries):
        payload = bytearray(entries[place].payload)
        payload[forger.chance.randrange(10, len(payload))] ^= 1 << forger.chance.randrange(8)
        entries[place] = msgspec.structs.replace(entries[place], payload=bytes(payload))
        return entries

    forger.rewrite(segment, flip)

    fault = fault_in(forger.archive)
    assert (fault.where, fault.epoch) == (segment.path, segment.first + place)


@EACH_ROUND
def test_a_dropped_entry_is_found_at_its_epoch(forger):
    segment = forger.any_segment()
    place = forger.chance.randrange(segment.last - segment.first + 1)
    forger.rewrite(segment, lambda entries: entries[:place] + entries[place + 1 :])

    fault = fault_in(forger.archive)

    assert (fault.where, fault.epoch) == (segment.path, segment.first + place)


@EACH_ROUND
def test_swapped_entries_are_found_at_the_first(forger):
    segment = forger.any_segment()
    one, other = sorted(forger.chance.sample(range(segment.last - segment.first + 1), 2))

    def swap(entries):
        entries[one], entries[other] = entries[other], entries[one]
        return entries

    forger.rewrite(segment, swap)

    fault = fault_in(forger.archive)
    assert (fault.where, fault.epoch) == (segment.path, segment.first + one)


@EACH_ROUND
def test_an_entry_given_twice_is_found(forger):
    segment = forger.any_segment()
    place = forger.chance.randrange(segment.last - segment.first)
    forger.rewrite(segment, lambda entries: entries[: place + 1] + entries[place:])

    fault = fault_in(forger.archive)

    assert (fault.where, fault.epoch) == (segment.path, segment.first + place + 1)
    assert fault.fault == f"the entry of epoch {segment.first + place} is in its place"


@EACH_ROUND
def test_one_entry_hashed_anew_is_found_at_the_next(forger):
    segment = forger.any_segment()
    place = forger.chance.randrange(segment.last - segment.first)

    def replace(entries):
        entry = msgspec.structs.replace(entries[place].entry, actor="forger")
        entries[place] = seal(entry, entries[place].previous_hash)
        return entries

    forger.rewrite(segment, replace)

    fault = fault_in(forger.archive)
    tile = (segment.first + place - 1) // 256
    if fault.where == segment.path:
        assert fault.epoch == segment.first + place + 1
        assert fault.fault == "its previous hash is not the hash of the entry before it"
    else:  # The last entry of its tile, which is looked at first.
        assert fault.where in {f"tile/entries/{tile:03}", f"tile/0/{tile:03}"}


@pytest.mark.parametrize("codec", codecs.EXPANDING)
def test_bytes_that_no_entry_needs_are_found(small, tmp_path, codec):
    """Behind the end of a compressed block, where every reader passes over them."""
    forger = Forger(small, tmp_path / "copy", 0)
    segment = forger.manifest.segments[2]
    archive = open_archive(small)
    entries = list(archive.entries(Epoch(segment.first - 1), Epoch(segment.last)))
    with pytest.MonkeyPatch.context() as patched:
        compressed = codecs.compressed
        patched.setattr(
            codecs, "compressed", lambda data, codec: compressed(data, codec) + b"hidden"
        )
        forger.rewrite(segment, lambda _: entries, codec)

    fault = fault_in(forger.archive)

    assert fault.where == segment.path
    assert fault.fault == "it is damaged: something follows where a block should end"


@pytest.mark.parametrize("indent", [0, 2])
def test_a_manifest_that_is_laid_out_otherwise_is_found(small, tmp_path, indent):
    forger = Forger(small, tmp_path / "copy", 0)
    forger.put(MANIFEST, msgspec.json.format(forger.get(MANIFEST), indent=indent))

    assert fault_in(forger.archive).where == MANIFEST


def lively(seed, length):
    """Sequences of every kind, some of them not ended, and then simple entries."""
    found = simulated(seed, steps=random.Random(seed).randrange(150, 350)).entries
    kinds = {sealed.kind for sealed in found}
    assert "RetireSequence" in kinds
    assert any(kind.startswith("Prepare") for kind in kinds)
    scribe = Scribe(replay(found))
    for number in range(length - len(found)):
        scribe.commit(SetExtension(name=f"name{number % 50}", value=str(number)), actor="ada")
    return [*found, *scribe.entries]


@pytest.mark.parametrize("number", range(20))
def test_an_untouched_archive_raises_no_alarm(tmp_path, number):
    """Neither by verifying nor by replaying; the last ones go beyond one segment of full size."""
    chance = random.Random(SEED + number)
    print("seed", SEED + number)
    entries = lively(SEED + number, LENGTHS[number % len(LENGTHS)])
    length = len(entries)
    cuts = sorted(chance.sample(range(1, length + 1), chance.randrange(4)))
    with pytest.MonkeyPatch.context() as patched:
        if length <= SEGMENT_ENTRIES_MAX:
            entries_max = chance.randrange(1, length)
            patched.setattr("audit.segments.SEGMENT_ENTRIES_MAX", entries_max)
        archived(tmp_path, entries, signed_at=cuts, snapshots={length // 2, length})

    verdict = verify(tmp_path, Given(keys=(KEY.public,), recompute=True))
    report = audited(open_archive(tmp_path))

    assert isinstance(verdict, Verified), verdict
    assert verdict.is_anchored
    assert verdict.strays == ()
    assert report.holds, report.findings
    assert report.entries == length


def test_every_byte_of_the_manifest_counts(tmp_path):
    """Each is flipped in turn; nothing in it can be changed unseen, not even a size."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("audit.segments.SEGMENT_ENTRIES_MAX", 4)
        archived(tmp_path, SMALL_ENTRIES[:6], signed_at=[3], snapshots={5})
    manifest = read_manifest(folder(tmp_path))
    data = (tmp_path / MANIFEST).read_bytes()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        (tmp_path / MANIFEST).write_bytes(bytes(changed))

        assert_located(fault_in(tmp_path), MANIFEST, manifest)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    place = tmp_path_factory.mktemp("large") / "archive"
    steps = long_log(LARGE)
    kept = []

    def entries():
        for step in steps:
            if step.sealed.epoch % 25_000 == 0:
                kept.append(snapshot_of(step.applied))
            yield step.sealed

    export(entries(), folder(place), keys=[KEY])
    export([], folder(place), snapshots=kept)
    return place


def test_a_large_archive_is_sound(large):
    verdict = verify(large, ANCHORED)

    assert isinstance(verdict, Verified), verdict
    assert verdict.sentence == (
        "epochs 1 to 100000: verified and anchored by ringlog.example/log; digests not recomputed"
    )


@pytest.mark.parametrize("number", range(6))
def test_whatever_is_changed_in_a_large_archive_is_located(large, tmp_path, number):
    print("seed", SEED + number)
    forger = Forger(large, tmp_path / "copy", SEED + number)
    manifest = forger.manifest
    segment = forger.any_segment()
    place = forger.chance.randrange(segment.last - segment.first)
    if number < 3:
        path = [forger.any_file(), segment.path, manifest.snapshots[-1].path][number]
        data = bytearray(forger.get(path))
        data[forger.chance.randrange(len(data))] ^= 1
        forger.put(path, bytes(data))
        assert_located(fault_in(forger.archive), path, manifest)
        return
    changes = [
        lambda entries: entries[:place] + entries[place + 1 :],
        lambda entries: entries[: place + 1] + entries[place:],
        lambda entries: [
            *entries[:place],
            entries[place + 1],
            entries[place],
            *entries[place + 2 :],
        ],
    ]
    forger.rewrite(segment, changes[number - 3])

    fault = fault_in(forger.archive)

    assert fault.where == segment.path
    assert fault.epoch == segment.first + place + (number == 4)


@pytest.mark.parametrize("number", range(3))
def test_a_file_cut_short_in_a_large_archive_is_found(large, tmp_path, number):
    print("seed", SEED + number)
    forger = Forger(large, tmp_path / "copy", SEED + number)
    manifest = forger.manifest
    path = [forger.any_file(), forger.any_segment().path, manifest.snapshots[0].path][number]
    data = forger.get(path)
    forger.put(path, data[: forger.chance.randrange(len(data))])

    assert_located(fault_in(forger.archive), path, manifest)


def test_a_replaced_snapshot_in_a_large_archive_is_found(large, tmp_path):
    """By that of another epoch, with the manifest mended around it."""
    print("seed", SEED)
    forger = Forger(large, tmp_path / "copy", SEED)
    archive = open_archive(large)
    one, other = forger.chance.sample(archive.snapshots(), 2)
    true, false = archive.snapshot(one), archive.snapshot(other)
    file, data = encode_snapshot(msgspec.structs.replace(false, epoch=one, hash=true.hash))
    forger.put(file.path, data)
    named = {item.epoch: item for item in forger.manifest.snapshots} | {one: file}
    forger.mend(snapshots=tuple(named[epoch] for epoch in sorted(named)))

    fault = fault_in(forger.archive)

    assert (fault.where, fault.epoch) == (file.path, one)


def test_a_forged_checkpoint_of_a_large_archive_is_found(large, tmp_path):
    """Another root under the signature that there is, and in every place where it stands."""
    forger = Forger(large, tmp_path / "copy", SEED)
    signed = parse_checkpoint(forger.get(CHECKPOINT))
    other = Checkpoint(signed.checkpoint.origin, LARGE, bytes(32))
    data = SignedNote(other.text, signed.note.signatures).encode()
    plain = described("", data)
    file = CheckpointFile(
        path=checkpoint_path(LARGE, plain.sha256),
        sha256=plain.sha256,
        size_bytes=len(data),
        epoch=LARGE,
    )
    forger.put(file.path, data)
    forger.put(CHECKPOINT, data)
    forger.mend(checkpoints=(file,))

    assert fault_in(forger.archive).where == file.path


def test_a_large_history_hashed_anew_from_the_middle_is_found(large, tmp_path):
    seed = SEED
    print("seed", seed)
    place = random.Random(seed).randrange(1, LARGE)
    archive = open_archive(large)
    entries = list(archive.entries(Epoch(0), Epoch(place)))
    applied = metadata_at(archive, Epoch(place))
    for number in range(place, LARGE):
        step = committed(SetExtension(name="forged", value=str(number)), applied)
        entries.append(step.sealed)
        applied = step.applied
    export(entries, folder(tmp_path / "forged"))
    forged = Forger(tmp_path / "forged", tmp_path / "copy", seed)
    forged.leave_checkpoints_of(large)

    assert (
        verify(tmp_path / "forged").sentence
        == "epochs 1 to 100000: consistent, not anchored; digests not recomputed"
    )
    fault = fault_in(forged.archive)
    assert fault.where.startswith("checkpoints/000000100000")
    assert fault.fault == "epochs 1 to 100000 are not those that were signed"
