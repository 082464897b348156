"""Where an archive begins behind another: the last entry before it, and what binds it to the tree.

Its hash is what the first entry continues and its digest is what a snapshot there must have. The
tree at the seam has it as its last leaf, so whoever signs a later root vouches for it, too.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from audit.archive import MANIFEST, Manifest, SeamEntry, seam_path
from audit.errors import ArchiveError
from audit.folder import Folder
from audit.merkle import inclusion_holds, leaf_hash, prove_inclusion
from audit.segments import SEGMENT_FILE_BYTES_MAX, chained, encode_segment
from audit.tile_files import TileFiles
from encoding.errors import DecodeError
from log.chain import HASH_BYTES, seal_payload
from log.entry import SealedEntry
from metadata.epoch import Epoch


def encode_seam(sealed: SealedEntry, tree: TileFiles) -> tuple[SeamEntry, bytes]:
    """The last entry of a tree, as a file for the archive that goes on behind it."""
    segment, data = encode_segment([sealed])
    proof = prove_inclusion(sealed.epoch - 1, sealed.epoch, tree.subtree)
    fields = msgspec.structs.asdict(segment) | {"path": seam_path(sealed.epoch)}
    return SeamEntry(**fields, proof=tuple(item.hex() for item in proof)), data


def read_seam(files: Folder, manifest: Manifest) -> SealedEntry | None:
    """The entry where the archive begins, if it is the last leaf there; None if none is kept."""
    seam = manifest.seam_entry
    if seam is UNSET:
        return None
    data = files.read(seam.path, bytes_max=SEGMENT_FILE_BYTES_MAX)
    epoch = Epoch(seam.last)
    sealed = None
    for _, previous_hash, _, payload in chained(data, seam, after=Epoch(seam.first - 1)):
        try:
            sealed = seal_payload(payload, previous_hash)
        except DecodeError as error:
            raise ArchiveError(seam.path, str(error).rstrip("."), epoch=epoch) from error
    if not seam.fits(data):
        raise ArchiveError(seam.path, "it is not the file of the manifest", epoch=epoch)
    assert sealed is not None, "its last hash is that of the manifest"
    _check(sealed, seam, manifest)
    return sealed


def _check(sealed: SealedEntry, seam: SeamEntry, manifest: Manifest) -> None:
    entry = sealed.entry
    if (sealed.epoch, entry.cluster) != (seam.last, manifest.cluster):
        fault = f"it is of epoch {sealed.epoch} of cluster {entry.cluster}"
        raise ArchiveError(seam.path, fault, epoch=Epoch(seam.last))
    if len(entry.digest) != HASH_BYTES:
        raise ArchiveError(seam.path, f"its digest has {len(entry.digest)} bytes")
    if len(sealed.payload) != seam.payload_bytes:
        raise ArchiveError(MANIFEST, f"it is wrong about the payload in {seam.path}")
    root = bytes.fromhex(manifest.after.root)
    proof = [bytes.fromhex(item) for item in seam.proof]
    if not inclusion_holds(leaf_hash(sealed.hash), seam.last - 1, seam.last, root, proof):
        raise ArchiveError(
            MANIFEST, f"its hash of epoch {seam.last}, where it begins, is not in the tree there"
        )
