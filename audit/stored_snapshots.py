"""Snapshots in an archive: one to a file, with the schema of its image."""

from __future__ import annotations

from audit.archive import SnapshotFile, described, snapshot_path
from audit.codecs import DEFAULT
from audit.containers import SNAPSHOT_SCHEMA, container, opened
from audit.errors import ArchiveError
from audit.folder import Folder
from audit.segments import SCHEMAS, embedded_schemas, schema_notes
from encoding.avro import HEADER_BYTES
from encoding.errors import DecodeError
from encoding.images import IMAGE_BYTES_MAX
from encoding.varints import DamagedError, encoded_bytes, encoded_long
from log.replay import Applied
from metadata.cluster import ClusterId
from metadata.epoch import Epoch
from snapshots.restore import opened as opened_snapshot
from snapshots.store import Snapshot

SNAPSHOT_FILE_BYTES_MAX = IMAGE_BYTES_MAX + 1024 * 1024
INFLATED_BYTES_MIN = 64 * 1024 * 1024
INFLATED_TIMES_MAX = 200
"""What a file may unpack to: so much in any case, or so many times its size. Names and numbers
shrink to a tenth at best; what shrinks more was made to fill a reader's memory."""


def encode_snapshot(snapshot: Snapshot, codec: str = DEFAULT) -> tuple[SnapshotFile, bytes]:
    item = b"".join(
        (
            encoded_long(snapshot.epoch),
            snapshot.digest,
            snapshot.hash,
            encoded_bytes(snapshot.image),
        )
    )
    data = container(SNAPSHOT_SCHEMA, [[item]], schema_notes(iter([snapshot.image])), codec)
    file = described(snapshot_path(snapshot.epoch), data)
    stored = SnapshotFile(
        path=file.path,
        sha256=file.sha256,
        size_bytes=file.size_bytes,
        epoch=snapshot.epoch,
        digest=snapshot.digest.hex(),
        hash=snapshot.hash.hex(),
    )
    return stored, data


def read_snapshot(archive: Folder, file: SnapshotFile) -> Snapshot:
    """What the file holds, if it is the file that the manifest means."""
    epoch = Epoch(file.epoch)
    data = archive.read(file.path, bytes_max=SNAPSHOT_FILE_BYTES_MAX)
    try:
        found = opened(data, SNAPSHOT_SCHEMA, inflated_bytes_max=_inflated_bytes_max(len(data)))
        known = embedded_schemas(found.notes.get(SCHEMAS))
        stored = found.snapshot()
    except DamagedError as error:
        raise ArchiveError(file.path, str(error), epoch=epoch) from error
    if stored[3][:HEADER_BYTES] not in known:
        raise ArchiveError(file.path, "the schema of its image is not in the file", epoch=epoch)
    expected = (file.epoch, bytes.fromhex(file.digest), bytes.fromhex(file.hash))
    if stored[:3] != expected or not file.fits(data):
        raise ArchiveError(file.path, "it is not the snapshot of the manifest", epoch=epoch)
    return Snapshot(epoch=epoch, digest=stored[1], hash=stored[2], image=stored[3])


def _inflated_bytes_max(size_bytes: int) -> int:
    allowed = max(INFLATED_BYTES_MIN, INFLATED_TIMES_MAX * size_bytes)
    return min(SNAPSHOT_FILE_BYTES_MAX, allowed)


def applied_from(
    snapshot: Snapshot, *, digest: bytes, entry_hash: bytes, cluster: ClusterId
) -> Applied:
    """The metadata in it, if that is what the entry of its epoch led to."""
    where = snapshot_path(snapshot.epoch)
    if snapshot.digest != digest or snapshot.hash != entry_hash:
        raise ArchiveError(
            where, "it is not what the entry of its epoch led to", epoch=snapshot.epoch
        )
    try:
        applied = opened_snapshot(snapshot)
    except DecodeError as error:
        raise ArchiveError(where, str(error).rstrip("."), epoch=snapshot.epoch) from error
    if applied.metadata.cluster.id != cluster:
        raise ArchiveError(
            where, f"it is of cluster {applied.metadata.cluster.id}", epoch=snapshot.epoch
        )
    return applied
