"""What requests and answers of every service look like."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from metadata.epoch import Epoch
from metadata.limits import ID_MAX, Hash
from transformations.outcome import Result

EpochField = Annotated[Epoch, Meta(ge=0, le=ID_MAX)]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the log; `transformation` has tokens as decimal strings."""

    cluster: str
    epoch: int
    entry_id: UUID
    kind: str
    transformation: dict[str, Any]
    result: Result
    digest: str
    actor: str | None
    reason: str | None
    committed_at: int
    committed_by: str
    previous_hash: str
    hash: str


class SnapshotView(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot without its image, which is at `url`."""

    epoch: Epoch
    digest: str
    hash: str
    size_bytes: int
    created_at: str
    created_by: str
    url: str


class Listed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The newest, or the newest of those up to an epoch."""

    up_to: EpochField | None = None


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """Entries without a gap from `after` + 1 on, or from behind the snapshot where there is one."""

    tip: Epoch
    snapshot: SnapshotView | None
    entries: list[msgspec.Raw]


class View(msgspec.Struct, frozen=True):
    """Something at one epoch."""

    epoch: int


class SnapshotsAnswer(msgspec.Struct, frozen=True):
    snapshots: list[SnapshotView]


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class LogPage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`hash` is the one the client has for the entry at `after`, `digest` its metadata's there."""

    after: EpochField = Epoch(0)
    limit: Annotated[int, Meta(ge=1, le=ID_MAX)] = 1000
    wait: Annotated[float, Meta(ge=0, le=86400)] = 0.0
    hash: Hash | None = None
    digest: Hash | None = None
    snapshot: bool = False
    stale: bool = False


class Follow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: EpochField = Epoch(0)
    hash: Hash | None = None


class OneEpoch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    epoch: EpochField
