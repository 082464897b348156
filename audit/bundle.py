"""A file that proves to somebody who does not trust us that an entry is in the log.

It also proves, where an earlier checkpoint is in it, that the log extends the one of then. To
check it takes the public key and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from audit.archive import Hex32, Number
from audit.checkpoints import Checkpoint, SignedCheckpoint, origin_of, parse_checkpoint
from audit.errors import ArchiveError
from audit.keys import PublicKey
from audit.merkle import (
    PROOF_HASHES_MAX,
    consistency_holds,
    inclusion_holds,
    leaf_hash,
    prove_consistency,
    prove_inclusion,
)
from audit.notes import NoteError
from audit.reading import Archive
from audit.segments import known_schemas
from audit.signing import newest_checkpoint
from encoding.avro import HEADER_BYTES, MARKER
from encoding.entries import ENTRY_BYTES_MAX, Entry, decode_entry
from encoding.errors import DecodeError
from encoding.registry import Document
from log.chain import link
from log.entry import SealedEntry
from metadata.epoch import Epoch

BUNDLE_BYTES_MAX = 2 * ENTRY_BYTES_MAX


class BundleError(ValueError):
    """The bundle proves nothing. The message is one sentence for people."""


class Earlier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A checkpoint of some time ago, and the proof that it was of the same log."""

    checkpoint: str
    consistency: tuple[Hex32, ...]


class Bundle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`schema` lets anybody read the payload, which is an Avro single-object message.

    The leaf of the tree is SHA-256(previous hash ‖ payload), the entry's hash in the chain.
    """

    format: Literal["ringlog.proof.v1"] = "ringlog.proof.v1"
    epoch: Number
    payload: bytes
    previous_hash: Hex32
    schema: Document
    inclusion: tuple[Hex32, ...]
    checkpoint: str
    earlier: Earlier | None = None


class Proved(msgspec.Struct, frozen=True, kw_only=True):
    """The entry is in the log of `size` entries; that log extends the one of `earlier_size`."""

    entry: Entry
    size: int
    signed_by: tuple[str, ...]
    earlier_size: int | None


def prove(archive: Archive, epoch: Epoch, *, since: SignedCheckpoint | None = None) -> Bundle:
    """Made from the archive's newest checkpoint; `since` is one that was kept from before.

    An `ArchiveError` says so where the archive does not prove it.
    """
    signed = newest_checkpoint(archive.files, archive.manifest)
    if signed is None:
        raise ArchiveError(archive.files.name, "it has no checkpoint to prove by: sign it first")
    size = signed.checkpoint.size
    if not archive.after.epoch < epoch <= size:
        raise ArchiveError(archive.files.name, f"epoch {epoch} is not among what was signed in it")
    sealed = archive.entry(epoch)
    proof = prove_inclusion(epoch - 1, size, archive.tree.subtree)
    root = signed.checkpoint.root
    if not inclusion_holds(leaf_hash(sealed.hash), epoch - 1, size, root, proof):
        raise ArchiveError(
            archive.files.name,
            "its tiles do not prove that the entry is in what was signed: verify it",
            epoch=epoch,
        )
    earlier = None if since is None else _earlier(archive, since, signed.checkpoint)
    return bundled(sealed, signed, proof, earlier)


def bundled(
    sealed: SealedEntry,
    signed: SignedCheckpoint,
    inclusion: Sequence[bytes],
    earlier: Earlier | None,
) -> Bundle:
    """An entry with its proof, wherever that was made."""
    return Bundle(
        epoch=sealed.epoch,
        payload=sealed.payload,
        previous_hash=sealed.previous_hash.hex(),
        schema=known_schemas()[sealed.payload[len(MARKER) : HEADER_BYTES].hex()],
        inclusion=_hex(inclusion),
        checkpoint=signed.encode().decode(),
        earlier=earlier,
    )


def earlier_of(since: SignedCheckpoint, consistency: Sequence[bytes]) -> Earlier:
    return Earlier(since.encode().decode(), _hex(consistency))


def encode_bundle(bundle: Bundle) -> bytes:
    return msgspec.json.format(msgspec.json.encode(bundle), indent=1) + b"\n"


def decode_bundle(data: bytes) -> Bundle:
    if len(data) > BUNDLE_BYTES_MAX:
        raise BundleError(f"{len(data)} bytes are more than the {BUNDLE_BYTES_MAX} of a bundle.")
    try:
        bundle = msgspec.json.decode(data, type=Bundle)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BundleError(f"This is not a proof bundle: {error}.") from error
    if len(bundle.inclusion) > PROOF_HASHES_MAX:
        raise BundleError("Its proof is longer than that of any log.")
    return bundle


def check_bundle(
    bundle: Bundle, keys: Sequence[PublicKey], *, remembered: SignedCheckpoint | None = None
) -> Proved:
    """What the bundle proves to whoever trusts one of the keys; `BundleError` if nothing.

    With `remembered`, a checkpoint that the reader kept, the log must be seen to extend that one.
    """
    checkpoint, signers = _trusted(bundle.checkpoint, keys)
    entry = _entry(bundle)
    if not checkpoint.is_of_log(origin_of(entry.cluster)):
        raise BundleError(f"The checkpoint is of {checkpoint.origin}, not of the entry's cluster.")
    leaf = leaf_hash(link(bytes.fromhex(bundle.previous_hash), bundle.payload))
    proof = _bytes(bundle.inclusion)
    if not inclusion_holds(leaf, bundle.epoch - 1, checkpoint.size, checkpoint.root, proof):
        raise BundleError(f"Epoch {bundle.epoch} is not shown to be in the log that was signed.")
    earlier = _extended(bundle, checkpoint, keys)
    if remembered is not None and remembered.checkpoint not in (earlier, checkpoint):
        raise BundleError("The log is not shown to extend the checkpoint that you kept.")
    return Proved(
        entry=entry,
        size=checkpoint.size,
        signed_by=tuple(key.name for key in signers),
        earlier_size=None if earlier is None else earlier.size,
    )


def _earlier(archive: Archive, since: SignedCheckpoint, newest: Checkpoint) -> Earlier:
    old = since.checkpoint
    if not old.is_of_log(origin_of(archive.manifest.cluster)) or old.size > newest.size:
        raise ArchiveError(
            archive.files.name, f"it does not extend {old.origin} with {old.size} entries"
        )
    if old.size < archive.after.epoch or archive.tree.root_at(old.size) != old.root:
        raise ArchiveError(
            archive.files.name, "its entries are not those of the earlier checkpoint"
        )
    proof = prove_consistency(old.size, newest.size, archive.tree.subtree)
    if not consistency_holds(old.size, old.root, newest.size, newest.root, proof):
        raise ArchiveError(
            archive.files.name,
            "its tiles do not prove that it extends the earlier checkpoint: verify it",
        )
    return earlier_of(since, proof)


def _extended(
    bundle: Bundle, checkpoint: Checkpoint, keys: Sequence[PublicKey]
) -> Checkpoint | None:
    if bundle.earlier is None:
        return None
    old, _ = _trusted(bundle.earlier.checkpoint, keys)
    proof = _bytes(bundle.earlier.consistency)
    if not old.is_of_log(checkpoint.origin) or not consistency_holds(
        old.size, old.root, checkpoint.size, checkpoint.root, proof
    ):
        raise BundleError("The log is not shown to extend the earlier checkpoint.")
    return old


def _trusted(text: str, keys: Sequence[PublicKey]) -> tuple[Checkpoint, tuple[PublicKey, ...]]:
    try:
        signed = parse_checkpoint(text.encode())
        signers = signed.verified_by(keys)
    except NoteError as error:
        raise BundleError(f"A checkpoint in it cannot be believed: {error}.") from error
    if not signers:
        raise BundleError("A checkpoint in it is signed by none of the keys that you gave.")
    return signed.checkpoint, signers


def _entry(bundle: Bundle) -> Entry:
    try:
        entry = decode_entry(bundle.payload)
    except DecodeError as error:
        raise BundleError(f"The entry in it cannot be read: {error}") from error
    if entry.epoch != bundle.epoch:
        raise BundleError(f"The entry in it is that of epoch {entry.epoch}, not {bundle.epoch}.")
    fingerprint = bundle.payload[len(MARKER) : HEADER_BYTES].hex()
    if bundle.schema != known_schemas()[fingerprint]:
        raise BundleError("The schema in it is not the one that the entry was written with.")
    return entry


def _hex(hashes: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(item.hex() for item in hashes)


def _bytes(hashes: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(map(bytes.fromhex, hashes))
