"""A forger who mends everything around a change is found by what others signed, or by replay."""

from __future__ import annotations

import random
from hashlib import sha256

import msgspec
import pytest

from audit.anchors import Kept
from audit.archive import (
    CHECKPOINT,
    CheckpointFile,
    checkpoint_path,
)
from audit.checkpoints import Checkpoint, origin_of, parse_checkpoint, sign
from audit.containers import entry_container
from audit.exporting import export
from audit.folder import folder
from audit.notes import SignedNote
from audit.reading import open_archive
from audit.segments import known_schemas
from audit.signing import sign_archive
from audit.stored_snapshots import encode_snapshot
from audit.verify import Fault, Given, Verified, verify
from log.chain import NO_HASH, seal
from log.replay import replay
from metadata.cluster import ClusterId
from metadata.epoch import Epoch
from tests.archives import (
    KEY,
    OTHER_CLUSTER,
    OTHER_KEY,
    SMALL,
    archived,
    committed,
    entries_of,
    long_log,
    small_archive,
    snapshot_of,
    snapshots_at,
)
from tests.builders import CLUSTER
from tests.forging import Forger
from transformations.extensions import SetExtension

ANCHORED = Given(keys=(KEY.public,))
SMALL_ENTRIES = entries_of(SMALL)
SEED = random.SystemRandom().randrange(2**32)


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


def rehashed(entries, place, *, length):
    """The log as it would be if another entry had been committed at epoch `place` + 1."""
    applied = replay(entries[:place])
    forged = entries[:place]
    for number in range(place, length):
        change = SetExtension(name=f"name{number % 50}", value=f"forged{number}")
        step = committed(change, applied)
        forged.append(step.sealed)
        applied = step.applied
    return forged


@pytest.mark.parametrize("number", range(4))
def test_a_history_hashed_anew_from_the_middle_is_found_by_who_has_the_key(small, tmp_path, number):
    """Everything in it fits together; only what was signed tells."""
    print("seed", SEED + number)
    place = random.Random(SEED + number).randrange(1, SMALL)
    entries = rehashed(SMALL_ENTRIES, place, length=SMALL)
    export(entries, folder(tmp_path / "forged"), snapshots=snapshots_at(entries, {700, 1500}))
    assert verify(tmp_path / "forged", Given(recompute=True)).sentence == (
        "epochs 1 to 3000: consistent, not anchored; digests recomputed"
    )
    assert fault_in(tmp_path / "forged").fault == "no checkpoint is signed by a key that was given"

    forged = Forger(tmp_path / "forged", tmp_path / "copy", number)
    forged.leave_checkpoints_of(small)

    agreed = max(size for size in (0, 1000, 2100) if size <= place)
    signed = min(size for size in (1000, 2100, 3000) if size > place)
    fault = fault_in(forged.archive)
    assert fault.epoch == agreed + 1
    assert fault.where.startswith(f"checkpoints/{signed:012}")
    assert f"epochs {agreed + 1} to {signed} are not those that were signed" in fault.fault


def test_a_checkpoint_that_nobody_signed_narrows_nothing_down(small, tmp_path):
    """A forger's own, that fits the forged entries, must not make others look sound."""
    entries = rehashed(SMALL_ENTRIES, 1200, length=SMALL)
    export(entries[:1800], folder(tmp_path / "forged"), keys=[OTHER_KEY])
    export(entries[1799:], folder(tmp_path / "forged"))
    forged = Forger(tmp_path / "forged", tmp_path / "copy", 0)
    unsigned = forged.manifest.checkpoints
    forged.leave_checkpoints_of(small)
    signed = forged.manifest.checkpoints
    forged.mend(checkpoints=tuple(sorted([*unsigned, *signed], key=lambda file: file.epoch)))

    fault = fault_in(forged.archive)

    assert fault.epoch == 1001
    assert fault.fault == "epochs 1001 to 2100 are not those that were signed"


def test_a_log_that_lost_its_end_is_found_by_who_kept_a_checkpoint(small, tmp_path):
    kept = Kept("my notes", (small / CHECKPOINT).read_bytes())
    shorter = archived(tmp_path, SMALL_ENTRIES[:2100], snapshots=set())

    assert verify(shorter, ANCHORED).sentence == (
        "epochs 1 to 2100: verified and anchored by ringlog.example/log; digests not recomputed"
    )
    fault = fault_in(shorter, Given(keys=(KEY.public,), checkpoints=(kept,)))
    assert (fault.where, fault.epoch) == ("my notes", 2101)
    whole = verify(small, Given(keys=(KEY.public,), checkpoints=(kept,)))
    assert isinstance(whole, Verified)
    assert whole.is_anchored


@pytest.mark.parametrize("number", range(4))
def test_a_replaced_snapshot_is_found(forger, number):
    """By another state, another epoch or another cluster's, with everything mended around it."""
    epoch = forger.chance.choice([700, 1500, 3000])
    true = snapshots_at(SMALL_ENTRIES, {epoch})[0]
    applied = replay(SMALL_ENTRIES[:epoch])
    other = committed(SetExtension(name="forged", value="1"), replay(SMALL_ENTRIES[: epoch - 1]))
    foreign = [step.applied for step in long_log(epoch, cluster=OTHER_CLUSTER)][-1]
    false = [
        msgspec.structs.replace(snapshot_of(other.applied), hash=true.hash),
        msgspec.structs.replace(snapshot_of(replay(SMALL_ENTRIES[: epoch - 1])), epoch=epoch),
        snapshot_of(foreign),
        msgspec.structs.replace(snapshot_of(foreign), hash=true.hash, digest=true.digest),
    ][number]
    assert applied.hash == true.hash
    file, data = encode_snapshot(false)
    forger.put(file.path, data)
    named = {item.epoch: item for item in forger.manifest.snapshots} | {epoch: file}
    forger.mend(snapshots=tuple(named[key] for key in sorted(named)))

    fault = fault_in(forger.archive)

    assert (fault.where, fault.epoch) == (file.path, epoch)


def test_an_entry_that_is_not_so_is_found_by_executing_it_again(tmp_path):
    """Hashed and chained as it should be; the digest that it claims is not that of the metadata."""
    entries, tip = [], NO_HASH
    for sealed in SMALL_ENTRIES[:900]:
        entry = sealed.entry
        if entry.epoch == 640:
            entry = msgspec.structs.replace(entry, digest=bytes(32))
        entries.append(seal(entry, tip))
        tip = entries[-1].hash
    export(entries, folder(tmp_path))

    assert isinstance(verify(tmp_path), Verified)
    fault = fault_in(tmp_path, Given(recompute=True))
    assert fault.epoch == 640
    assert fault.fault == "the metadata has another digest than the entry says"


@pytest.mark.parametrize("number", range(3))
def test_schemas_are_in_the_file_and_known(forger, number):
    """One that is not known, one that was changed, one that is not there."""
    segment = forger.manifest.segments[1]
    archive = open_archive(forger.archive)
    entries = list(archive.entries(Epoch(segment.first - 1), Epoch(segment.last)))
    fingerprint = entries[0].payload[2:10].hex()
    schemas: dict[str, dict] = [
        {"ff" * 8: known_schemas()[fingerprint]},
        {fingerprint: {"type": "record"}},
        {},
    ][number]
    data = entry_container(entries, {"schemas": msgspec.json.encode(schemas)})
    forger.put(segment.path, data)

    fault = fault_in(forger.archive)

    assert (fault.where, fault.epoch) == (segment.path, segment.first)
    assert [
        "no schema with fingerprint ffffffffffffffff is known to this release: use a newer one",
        f"the schema {fingerprint} in it is not what entries were written by",
        f"its schema {fingerprint} is not in the file",
    ][number] == fault.fault


def forged_checkpoints(newest):
    """What somebody without the key can make."""
    signed = parse_checkpoint(newest)
    text = signed.checkpoint.text
    other = Checkpoint(signed.checkpoint.origin, signed.checkpoint.size, bytes(32))
    moved = Checkpoint("ringlog/" + OTHER_CLUSTER, signed.checkpoint.size, signed.checkpoint.root)
    signatures = signed.note.signatures
    stolen = [
        msgspec.structs.replace(item, id=KEY.public.id)
        for item in SignedNote(text).signed(OTHER_KEY).signatures
    ]
    return {
        "another root under the old signature": SignedNote(other.text, signatures),
        "another root under another key": sign(other, [OTHER_KEY]).note,
        "another log": sign(moved, [KEY]).note,
        "the id of the key on another's signature": SignedNote(text, tuple(stolen)),
        "nobody who is known": SignedNote(text).signed(OTHER_KEY),
    }


@pytest.mark.parametrize("named", [True, False])
def test_a_bogus_checkpoint_is_found_also_where_the_manifest_names_none(small, tmp_path, named):
    forger = Forger(small, tmp_path / "copy", 0)
    if not named:
        forger.mend(checkpoints=())
    forger.put(CHECKPOINT, b"signed by nobody\n")
    assert fault_in(forger.archive, Given()).where == CHECKPOINT
    other = Checkpoint(origin_of(ClusterId(CLUSTER)), SMALL, bytes(32))
    forger.put(CHECKPOINT, sign(other, [OTHER_KEY]).encode())
    assert fault_in(forger.archive, Given()).where == CHECKPOINT


def test_nobody_signs_lines_that_others_added(small, tmp_path):
    """A checkpoint may have more lines than size and root; a signature would be on them, too."""
    forger = Forger(small, tmp_path / "copy", 0)
    text = parse_checkpoint(forger.get(CHECKPOINT)).checkpoint.text + "and all of it is true\n"
    data = SignedNote(text).signed(OTHER_KEY).encode()
    digest = sha256(data).hexdigest()
    file = CheckpointFile(
        path=checkpoint_path(SMALL, digest), sha256=digest, size_bytes=len(data), epoch=SMALL
    )
    forger.put(file.path, data)
    forger.put(CHECKPOINT, data)
    forger.mend(checkpoints=(*forger.manifest.checkpoints[:-1], file))

    signed = sign_archive(folder(forger.archive), [KEY])

    assert "true" not in signed.note.text
    assert "true" not in forger.get(CHECKPOINT).decode()


@pytest.mark.parametrize("number", range(5))
def test_a_forged_checkpoint_is_found(forger, number):
    name, note = list(forged_checkpoints(forger.get(CHECKPOINT)).items())[number]
    data = note.encode()
    digest = sha256(data).hexdigest()
    file = CheckpointFile(
        path=checkpoint_path(SMALL, digest), sha256=digest, size_bytes=len(data), epoch=SMALL
    )
    forger.put(file.path, data)
    forger.put(CHECKPOINT, data)
    forger.mend(checkpoints=(*forger.manifest.checkpoints[:-1], file))

    verdict = verify(forger.archive, ANCHORED)

    if name == "nobody who is known":
        assert isinstance(verdict, Verified)
        assert verdict.anchored_up_to == 2100
        return
    assert isinstance(verdict, Fault), name
    assert verdict.where == file.path
