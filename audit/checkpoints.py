"""Checkpoints: the size and root of a log's tree, signed (c2sp.org/tlog-checkpoint)."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from uuid import UUID

import msgspec

from audit.keys import PrivateKey, PublicKey
from audit.notes import NoteError, SignedNote, parse_note
from metadata.cluster import ClusterId

CHECKPOINT_BYTES_MAX = 64 * 1024

_ROOT_BYTES = 32
_SIZE = re.compile(r"0|[1-9]\d{0,18}")
_LINES_MIN = 3
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_LINEAGE = re.compile(f"(ringlog/{_UUID})/{_UUID}")


class Checkpoint(msgspec.Struct, frozen=True):
    """The tree of the first `size` entries; the origin says of which log."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        return f"{self.origin}\n{self.size}\n{b64encode(self.root).decode()}\n"

    def is_of_log(self, origin: str) -> bool:
        """Whether both are lineages of one cluster; if one extends the other, a proof tells."""
        return _cluster_part(self.origin) == _cluster_part(origin)


class SignedCheckpoint(msgspec.Struct, frozen=True):
    checkpoint: Checkpoint
    note: SignedNote

    def encode(self) -> bytes:
        return self.note.encode()

    def signed(self, key: PrivateKey, *, at_s: int = 0) -> SignedCheckpoint:
        """With one signature more: the next key's before the old one goes, or a witness's."""
        return SignedCheckpoint(self.checkpoint, self.note.signed(key, at_s=at_s))

    def verified_by(self, keys: Sequence[PublicKey]) -> tuple[PublicKey, ...]:
        return self.note.verified_by(keys)


def origin_of(cluster: ClusterId, lineage: UUID | None = None) -> str:
    """What a cluster's log is called in its checkpoints.

    One that was imported signs by the name of its lineage: nobody there knows what was signed of
    the entries that the archive did not bring, and those to come may be others.
    """
    return f"ringlog/{cluster}" if lineage is None else f"ringlog/{cluster}/{lineage}"


def _cluster_part(origin: str) -> str:
    found = _LINEAGE.fullmatch(origin)
    return origin if found is None else found[1]


def sign(checkpoint: Checkpoint, keys: Sequence[PrivateKey], *, at_s: int = 0) -> SignedCheckpoint:
    """Signed by all keys. Whoever signs must know that the log extends what was signed before."""
    assert keys, "a checkpoint without a signature says nothing"
    note = SignedNote(checkpoint.text)
    for key in keys:
        note = note.signed(key, at_s=at_s)
    return SignedCheckpoint(checkpoint, note)


def parse_checkpoint(data: bytes) -> SignedCheckpoint:
    """What it says, whoever signed it; raises `NoteError`."""
    if len(data) > CHECKPOINT_BYTES_MAX:
        raise NoteError(f"{len(data)} bytes are more than the {CHECKPOINT_BYTES_MAX} allowed")
    note = parse_note(data)
    lines = note.text.split("\n")[:-1]
    if len(lines) < _LINES_MIN or not all(lines):
        raise NoteError("it is not a checkpoint: origin, size and root are three lines")
    origin, size, root = lines[:_LINES_MIN]
    if not _SIZE.fullmatch(size):
        raise NoteError(f"{size[:40]!r} is not the size of a tree")
    return SignedCheckpoint(Checkpoint(origin, int(size), _decoded(root)), note)


def _decoded(root: str) -> bytes:
    try:
        found = b64decode(root, validate=True)
    except ValueError as error:
        raise NoteError("its root is not base64") from error
    if len(found) != _ROOT_BYTES or b64encode(found).decode() != root:
        raise NoteError(f"its root is not that of {_ROOT_BYTES} bytes")
    return found
