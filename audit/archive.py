"""What an archive consists of: its manifest, and where its files lie.

manifest.json                          written last; what it does not name is not there yet
segments/000000000001-000000008192.avro   entries in order
snapshots/000000008192.avro               the metadata at one epoch
seams/000000008192.avro                   where another archive goes before: its last entry
checkpoints/000000008192                  a signed checkpoint of the tree of so many entries
checkpoint                                the newest of them again, where C2SP looks for it
tile/...                                  the Merkle tree and its leaves, as C2SP tlog-tiles
"""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from audit.errors import ArchiveError, NotThereError
from audit.folder import Folder
from audit.merkle import EMPTY_ROOT
from log.chain import NO_ENTRIES, Tip
from metadata.cluster import ClusterId
from metadata.epoch import Epoch

MANIFEST = "manifest.json"
CHECKPOINT = "checkpoint"
SEGMENTS = "segments"
SNAPSHOTS = "snapshots"
SEAMS = "seams"
CHECKPOINTS = "checkpoints"
TILES = "tile"

MANIFEST_BYTES_MAX = 256 * 1024 * 1024
"""Room for half a million files, thousands of millions of entries."""

Hex32 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of the archive and how to tell that it is the same."""

    path: str
    sha256: Hex32
    size_bytes: Number

    def fits(self, data: bytes) -> bool:
        return len(data) == self.size_bytes and sha256(data).hexdigest() == self.sha256


class Segment(File, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entries `first` to `last`; the hashes are the chain's before and after them."""

    first: Number
    last: Number
    payload_bytes: Number
    previous_hash: Hex32
    hash: Hex32


class SnapshotFile(File, frozen=True, kw_only=True, forbid_unknown_fields=True):
    epoch: Number
    digest: Hex32
    hash: Hex32


class SeamEntry(Segment, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The entry at `after`, and the proof that it is the last leaf of the tree there."""

    proof: tuple[Hex32, ...]


class CheckpointFile(File, frozen=True, kw_only=True, forbid_unknown_fields=True):
    epoch: Number


class Seam(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An end of the archive: the chain's hash and the tree's root with that entry in."""

    epoch: Number
    hash: Hex32
    root: Hex32

    @property
    def tip(self) -> Tip:
        return Tip(Epoch(self.epoch), bytes.fromhex(self.hash))


ORIGIN = Seam(epoch=0, hash=NO_ENTRIES.hash.hex(), root=EMPTY_ROOT.hex())


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The entries behind `after` up to `tip`; `after` is the origin unless an archive goes before.

    `cluster` and `name` are the cluster's; the first entry says the same. With a `seam_entry` the
    format is v2; archives that begin behind another and have none are by releases before it.
    """

    format: Literal["ringlog.archive.v1", "ringlog.archive.v2"] = "ringlog.archive.v1"
    cluster: ClusterId
    name: str
    after: Seam
    tip: Seam
    segments: tuple[Segment, ...]
    snapshots: tuple[SnapshotFile, ...] = ()
    checkpoints: tuple[CheckpointFile, ...] = ()
    seam_entry: SeamEntry | UnsetType = UNSET

    def files(self) -> tuple[File, ...]:
        """Everything that it names."""
        seam = () if self.seam_entry is UNSET else (self.seam_entry,)
        return (*self.segments, *self.snapshots, *self.checkpoints, *seam)


def encode_manifest(manifest: Manifest) -> bytes:
    """One form for one manifest, so that not even a blank can be changed unseen."""
    return msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=1) + b"\n"


def decode_manifest(data: bytes) -> Manifest:
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ArchiveError(MANIFEST, f"it is not an archive's manifest: {error}") from error
    if encode_manifest(manifest) != data:
        raise ArchiveError(MANIFEST, "it is not written as an export writes it")
    fault = _fault_of(manifest)
    if fault is not None:
        raise ArchiveError(MANIFEST, fault)
    return manifest


def find_manifest(archive: Folder) -> Manifest | None:
    """None where no archive has been begun."""
    try:
        return decode_manifest(archive.read(MANIFEST, bytes_max=MANIFEST_BYTES_MAX))
    except NotThereError:
        return None


def read_manifest(archive: Folder) -> Manifest:
    manifest = find_manifest(archive)
    if manifest is None:
        raise ArchiveError(archive.name, f"it is not an archive: it has no {MANIFEST}")
    return manifest


def write_manifest(archive: Folder, manifest: Manifest, *, over: Manifest | None) -> None:
    """From now on this is the archive, instead of `over`; what it names must be settled by then."""
    if find_manifest(archive) != over:
        raise ArchiveError(
            MANIFEST, "somebody else wrote to the archive meanwhile: begin this export again"
        )
    archive.write(MANIFEST, encode_manifest(manifest))
    archive.settle()


def described(path: str, data: bytes) -> File:
    return File(path=path, sha256=sha256(data).hexdigest(), size_bytes=len(data))


def segment_path(first: int, last: int) -> str:
    return f"{SEGMENTS}/{first:012}-{last:012}.avro"


def snapshot_path(epoch: int) -> str:
    return f"{SNAPSHOTS}/{epoch:012}.avro"


def seam_path(epoch: int) -> str:
    return f"{SEAMS}/{epoch:012}.avro"


def checkpoint_path(size: int, digest: str) -> str:
    """Named by its content, too: with a signature more it is another file."""
    return f"{CHECKPOINTS}/{size:012}-{digest[:8]}"


def _fault_of(manifest: Manifest) -> str | None:
    """What cannot be right, whatever the files hold."""
    before = manifest.after.tip
    for segment in manifest.segments:
        if (segment.first, segment.previous_hash) != (before.epoch + 1, before.hash.hex()):
            return f"{segment.path} does not follow epoch {before.epoch}"
        if segment.last < segment.first or segment.path != segment_path(
            segment.first, segment.last
        ):
            return f"{segment.path} does not hold epochs {segment.first} to {segment.last}"
        before = Tip(Epoch(segment.last), bytes.fromhex(segment.hash))
    if before != manifest.tip.tip:
        return f"its segments end at epoch {before.epoch} and its tip is {manifest.tip.epoch}"
    return _fault_at_seam(manifest) or _fault_beside(manifest)


def _fault_at_seam(manifest: Manifest) -> str | None:
    found, after = manifest.seam_entry, manifest.after
    if after.epoch == 0 and (after != ORIGIN or found is not UNSET):
        return "it begins with the first epoch, and before that there is neither hash nor entry"
    if (found is UNSET) != (manifest.format == "ringlog.archive.v1"):
        return "its format is not that of what it names"
    if found is not UNSET and (found.path, found.first, found.last, found.hash) != (
        seam_path(after.epoch),
        max(1, after.epoch),
        after.epoch,
        after.hash,
    ):
        return f"{found.path} is not the entry of epoch {after.epoch}, where it begins"
    return None


def _fault_beside(manifest: Manifest) -> str | None:
    """Snapshots and checkpoints, each in order and in its place."""
    paths = {item.path: snapshot_path(item.epoch) for item in manifest.snapshots}
    paths |= {item.path: checkpoint_path(item.epoch, item.sha256) for item in manifest.checkpoints}
    for epochs in (
        [item.epoch for item in manifest.snapshots],
        [item.epoch for item in manifest.checkpoints],
    ):
        if epochs != sorted(set(epochs)):
            return "its snapshots or checkpoints are not in order"
        if (
            epochs
            and not max(1, manifest.after.epoch) <= epochs[0] <= epochs[-1] <= manifest.tip.epoch
        ):
            return "it has a snapshot or checkpoint of an epoch that is not in the archive"
    wrong = [path for path, right in paths.items() if path != right]
    return f"{wrong[0]} is not called as an export calls it" if wrong else None
