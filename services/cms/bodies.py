"""What requests and answers look like: the types that decode, encode and document them."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from encoding.entries import Actor, Why
from metadata.cluster import COMPONENTS
from metadata.epoch import Epoch
from metadata.limits import ID_MAX, Hash, Name
from services.cms.limits import BATCH_COMMITS_MAX
from services.cms.problems import Problem
from transformations.outcome import Result

EpochField = Annotated[Epoch, Meta(ge=0, le=ID_MAX)]


class Commit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A transformation and the id under which it is enacted at most once."""

    entry_id: UUID
    transformation: msgspec.Raw
    last_known: EpochField | None = None
    actor: Actor | None = None
    reason: Why | None = None


class Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    commits: Annotated[tuple[Commit, ...], Meta(max_length=BATCH_COMMITS_MAX)]
    atomic: bool = False


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A commit that is not made."""

    transformation: msgspec.Raw
    entry_id: UUID | None = None
    last_known: EpochField | None = None
    actor: Actor | None = None
    reason: Why | None = None


class CommitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    epoch: Epoch
    entry_id: UUID
    result: Result
    hash: str
    entries: list[msgspec.Raw] = []


class BatchAnswer(msgspec.Struct, frozen=True):
    outcomes: list[msgspec.Raw]


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


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """Entries without a gap from `after` + 1 on, or from behind the snapshot where there is one."""

    tip: Epoch
    snapshot: SnapshotView | None
    entries: list[msgspec.Raw]


class View(msgspec.Struct, frozen=True):
    """Something at one epoch."""

    epoch: int


class PlanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen at `epoch`; `rows`, `bytes` and `barrier` come with the data plane."""

    epoch: Epoch
    outcome: str
    result: Result | None = None
    problem: Problem | None = None
    sequence: dict[str, Any] | None = None
    deltas: list[dict[str, Any]] = []
    locks: list[dict[str, Any]] = []
    voters: list[list[int]] = []
    rows: int | None = None
    bytes: int | None = None
    barrier: dict[str, Any] | None = None


class OwnersAnswer(msgspec.Struct, frozen=True, kw_only=True):
    epoch: Epoch
    keyspace: str
    token: str
    readers: list[int]
    writers: list[int]
    readers_epoch: int | None
    writers_epoch: int | None


class Difference(msgspec.Struct, frozen=True):
    added: list[dict[str, Any]]
    removed: list[dict[str, Any]]
    changed: list[dict[str, Any]]


class DiffAnswer(msgspec.Struct, frozen=True, kw_only=True, rename={"before": "from", "to": "to"}):
    before: Epoch
    to: Epoch
    components: dict[str, Difference]


class SnapshotsAnswer(msgspec.Struct, frozen=True):
    snapshots: list[SnapshotView]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    status: str
    name: str
    epoch: Epoch
    cluster: str | None
    sequencing: bool


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class At(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which version: a past one, the newest there is, or the one at hand."""

    at: EpochField | None = None
    stale: bool = False


class ComponentAt(At, frozen=True, kw_only=True):
    component: Annotated[str, Meta(extra_json_schema={"enum": list(COMPONENTS)})]


class SequenceAt(At, frozen=True, kw_only=True):
    id: EpochField


class OwnersAt(At, frozen=True, kw_only=True):
    keyspace: Name
    key: str | None = None
    token: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    table: Name | None = None


class Between(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"before": "from"}
):
    before: EpochField
    to: EpochField


class LogPage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`hash` is the one the client has for the entry at `after`."""

    after: EpochField = Epoch(0)
    limit: Annotated[int, Meta(ge=1, le=ID_MAX)] = 1000
    wait: Annotated[float, Meta(ge=0, le=86400)] = 0.0
    hash: Hash | None = None
    snapshot: bool = False
    stale: bool = False


class Follow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: EpochField = Epoch(0)
    hash: Hash | None = None


class OneEpoch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    epoch: EpochField


class OneSchema(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    fingerprint: str
