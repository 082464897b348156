"""A key signs only what the log holds, whatever somebody wrote into the archive meanwhile."""

from __future__ import annotations

from hashlib import sha256

import msgspec
import pytest
from pyarrow import fs

from audit.archive import CHECKPOINT, CHECKPOINTS, CheckpointFile, checkpoint_path
from audit.checkpoints import Checkpoint, origin_of, parse_checkpoint, sign
from audit.errors import ArchiveError
from audit.exporting import export
from audit.folder import Folder, folder
from audit.keys import generate
from audit.merkle import leaf_hash, root_of
from audit.notes import SignedNote
from audit.reading import open_archive
from audit.signing import sign_archive
from audit.tile_files import read_tile
from audit.tiles import TILE_WIDTH, tree_from
from audit.verify import Fault, Given, Verified, verify
from metadata.cluster import ClusterId
from tests.archives import KEY, OTHER_CLUSTER, OTHER_KEY, entries_of
from tests.forging import Forger

ENTRIES = entries_of(900)
GIVEN = Given(keys=(KEY.public,), recompute=True)
INVENTED = leaf_hash(sha256(b"an entry that never was").digest())


def forged(tmp_path, archive):
    """Another leaf in the first 256, and the root that goes with it; no entry is changed."""
    forger = Forger(archive, tmp_path / "forged", 0)
    path = next(path for path in forger.files if path.startswith("tile/1/000.p/"))
    leaves = forger.get("tile/0/000")
    first = root_of([INVENTED, *(leaves[at : at + 32] for at in range(32, 32 * TILE_WIDTH, 32))])
    forger.put("tile/0/000", INVENTED + leaves[32:])
    forger.put(path, first + forger.get(path)[32:])
    files = folder(forger.archive)
    tip = forger.manifest.tip
    root = tree_from(tip.epoch, lambda place: read_tile(files, place)).root().hex()
    assert root != tip.root
    forger.mend(tip=msgspec.structs.replace(tip, root=root))
    return forger


def forget_checkpoints(forger):
    for path in forger.files:
        if path.startswith((CHECKPOINT, CHECKPOINTS)):
            (forger.archive / path).unlink()
    forger.mend(checkpoints=())


def signatures(forger):
    paths = [path for path in forger.files if path.startswith((CHECKPOINT, CHECKPOINTS))]
    return {path: forger.get(path) for path in paths}


@pytest.mark.parametrize("keys", [[KEY], [OTHER_KEY]], ids=["the same key", "a new key"])
def test_a_forged_tree_is_not_signed(tmp_path, keys):
    export(ENTRIES[:800], folder(tmp_path / "archive"), keys=[KEY])
    forger = forged(tmp_path, tmp_path / "archive")
    forget_checkpoints(forger)

    with pytest.raises(ArchiveError, match="the root in its manifest is not that of its entries"):
        export(ENTRIES[799:], folder(forger.archive), keys=keys)

    assert signatures(forger) == {}


def test_checkpoints_that_the_manifest_forgot_are_neither_removed_nor_passed_over(tmp_path):
    export(ENTRIES[:800], folder(tmp_path / "archive"), keys=[KEY])
    forger = forged(tmp_path, tmp_path / "archive")
    forger.mend(checkpoints=())
    before = signatures(forger)
    assert len(before) == 2

    for keys in ([], [KEY]):
        with pytest.raises(ArchiveError, match="the manifest does not name it"):
            export(ENTRIES[799:], folder(forger.archive), keys=keys)

    assert signatures(forger) == before
    for path in forger.files:
        if path.startswith(CHECKPOINTS):
            (forger.archive / path).unlink()
    with pytest.raises(ArchiveError, match=r"^checkpoint, epoch 800: .* does not name it"):
        export(ENTRIES[799:], folder(forger.archive))
    (forger.archive / "manifest.json").unlink()
    with pytest.raises(ArchiveError, match="800 entries that the archive does not hold"):
        export(ENTRIES, folder(forger.archive))


def test_a_forged_tree_before_the_archive_is_not_signed(tmp_path):
    """Its seam agrees with it: hash and last leaf are true, and only an earlier leaf is not."""
    export(ENTRIES[:700], folder(tmp_path / "first"))
    before = forged(tmp_path, tmp_path / "first")

    with pytest.raises(ArchiveError, match="forged: the root in its manifest is not that of its"):
        continued(tmp_path / "second", before.archive, keys=[KEY])

    continued(tmp_path / "third", before.archive)
    with pytest.raises(ArchiveError, match="name the archive before it by --continuing"):
        export(ENTRIES[799:850], folder(tmp_path / "third"), keys=[KEY])
    assert not (tmp_path / "third" / CHECKPOINT).exists()


def continued(place, first, *, keys=()):
    return export(ENTRIES[700:800], folder(place), continuing=open_archive(first), keys=keys)


def test_an_archive_behind_one_that_nobody_signed_is_signed_once_that_is_read(tmp_path):
    export(ENTRIES[:700], folder(tmp_path / "first"))
    first = open_archive(tmp_path / "first")
    export(ENTRIES[700:800], folder(tmp_path / "second"), continuing=first)
    export(ENTRIES[799:850], folder(tmp_path / "second"), continuing=first, keys=[KEY])
    export(ENTRIES[849:], folder(tmp_path / "second"), keys=[KEY])
    second = open_archive(tmp_path / "second")

    verdict = verify(tmp_path / "second", Given(keys=(KEY.public,)))

    assert isinstance(verdict, Verified)
    assert verdict.is_anchored
    with pytest.raises(ArchiveError, match="none of its checkpoints is by a key that is to sign"):
        export([], folder(tmp_path / "third"), continuing=second, keys=[OTHER_KEY])
    export([], folder(tmp_path / "fourth"), continuing=second, keys=[KEY])


def test_an_end_that_was_not_looked_up_in_the_log_is_not_signed(tmp_path):
    """Whoever exports less than the archive holds has not seen that its end is the log's."""
    export(ENTRIES[:700], folder(tmp_path), keys=[KEY])
    export(ENTRIES[699:800], folder(tmp_path))

    for entries in ([], ENTRIES[:650]):
        with pytest.raises(ArchiveError, match="its last entry, 800, was not looked up in the log"):
            export(entries, folder(tmp_path), keys=[KEY])

    export(ENTRIES[799:800], folder(tmp_path), keys=[KEY])
    export(ENTRIES[:650], folder(tmp_path), keys=[KEY])


class NotingFolder(Folder):
    """Notes what is read."""

    def noting(self):
        self.noted = []
        return self

    def read(self, path, *, bytes_max):
        self.noted.append(path)
        return super().read(path, bytes_max=bytes_max)


def test_only_what_follows_the_last_signature_of_the_key_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr("audit.segments.SEGMENT_ENTRIES_MAX", 100)
    export(ENTRIES[:500], folder(tmp_path), keys=[KEY])
    export(ENTRIES[499:650], folder(tmp_path), keys=[OTHER_KEY])
    place = NotingFolder(fs.LocalFileSystem(), str(tmp_path), "noted").noting()

    sign_archive(place, [KEY])

    assert [path for path in place.noted if path.startswith("segments")] == [
        "segments/000000000501-000000000600.avro",
        "segments/000000000601-000000000650.avro",
    ]
    verdict = verify(tmp_path, GIVEN)
    assert isinstance(verdict, Verified)
    assert verdict.is_anchored


def named(forger, note, size):
    """The one checkpoint of the manifest."""
    data = note.encode()
    digest = sha256(data).hexdigest()
    file = CheckpointFile(
        path=checkpoint_path(size, digest), sha256=digest, size_bytes=len(data), epoch=size
    )
    forger.put(file.path, data)
    forger.put(CHECKPOINT, data)
    forger.mend(checkpoints=(file,))


def test_only_a_true_signature_of_the_key_on_this_log_is_believed(tmp_path):
    """The same key may sign several logs."""
    export(ENTRIES[:800], folder(tmp_path / "archive"), keys=[KEY])
    forger = forged(tmp_path, tmp_path / "archive")
    forget_checkpoints(forger)
    root = bytes.fromhex(forger.manifest.tip.root)
    stated = Checkpoint(origin_of(forger.manifest.cluster), 800, root)
    stolen = sign(stated, [OTHER_KEY]).note.signatures[0]
    false = msgspec.structs.replace(stolen, id=KEY.public.id)
    elsewhere = Checkpoint(origin_of(ClusterId(OTHER_CLUSTER)), 800, root)
    for note, said in (
        (SignedNote(stated.text, (false,)), "the signature of ringlog.example/log is false"),
        (sign(elsewhere, [KEY]).note, "the entries are not those that it was signed for"),
        (sign(stated, [OTHER_KEY]).note, "is not that of its entries, so it is not signed"),
    ):
        forget_checkpoints(forger)
        named(forger, note, 800)
        with pytest.raises(ArchiveError, match=said):
            sign_archive(folder(forger.archive), [KEY])


def set_back(forger):
    """`checkpoint` as somebody without the key could make it from what there is."""
    newest = parse_checkpoint(forger.get(CHECKPOINT)).note
    one, other = newest.signatures
    file = forger.manifest.checkpoints[0]
    return {
        "an older one": forger.get(file.path),
        "without a signature": SignedNote(newest.text, (one,)).encode(),
        "in another order": SignedNote(newest.text, (other, one)).encode(),
        "with one twice": SignedNote(newest.text, (one, other, other)).encode(),
        "with one more": newest.signed(generate("stranger")).encode(),
    }


@pytest.mark.parametrize("number", range(5))
def test_a_checkpoint_that_was_set_back_is_found(tmp_path, number):
    """It is where others look for the newest: by it they would miss what came since."""
    export(ENTRIES[:500], folder(tmp_path / "archive"), keys=[KEY])
    export(ENTRIES[499:800], folder(tmp_path / "archive"), keys=[KEY, OTHER_KEY])
    forger = Forger(tmp_path / "archive", tmp_path / "copy", 0)
    name, data = list(set_back(forger).items())[number]
    forger.put(CHECKPOINT, data)

    for given in (Given(), GIVEN):
        verdict = verify(forger.archive, given)
        assert isinstance(verdict, Fault), name
        assert verdict.sentence == (
            "checkpoint: it is not the newest checkpoint that the manifest names."
        )
    sign_archive(folder(forger.archive), [KEY])
    assert isinstance(verify(forger.archive, GIVEN), Verified)
