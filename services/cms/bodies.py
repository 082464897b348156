"""What requests and answers look like: the types that decode, encode and document them."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from client.choosing import COUNT_MAX
from encoding.entries import Actor, Why
from metadata.cluster import COMPONENTS
from metadata.directory import KnownNode
from metadata.epoch import Epoch
from metadata.limits import ID_MAX, Name
from services.cms.progress.bodies import BarrierView, Transfer
from services.http.bodies import EpochField
from services.http.limits import BATCH_COMMITS_MAX
from services.http.problems import Problem
from services.http.roles import Role
from transformations.outcome import Result

RoleName = Annotated[str, Meta(extra_json_schema={"enum": [role.name.lower() for role in Role]})]
RowsPerSecond = Annotated[float, Meta(gt=0, le=ID_MAX)]


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
    """A commit that is not made; `rows_per_s` is how fast rows are thought to move."""

    transformation: msgspec.Raw
    rows_per_s: RowsPerSecond | None = None
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


class PlanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen at `epoch`.

    `rows` and `bytes` are what targets would gain, estimated from what nodes report: each holds
    its rows evenly over the tokens it reads. They are null where no node reports any. `seconds`
    is by `rows_per_s`: the rate that was given, or that of past movements. `weakest` is the
    smallest number of replicas that any affected range is read from on the way.
    """

    epoch: Epoch
    outcome: str
    result: Result | None = None
    problem: Problem | None = None
    sequence: dict[str, Any] | None = None
    deltas: list[dict[str, Any]] = []
    locks: list[dict[str, Any]] = []
    voters: list[list[int]] = []
    transfers: list[Transfer] = []
    rows: int | None = None
    bytes: int | None = None
    rows_per_s: float | None = None
    seconds: float | None = None
    weakest: int | None = None
    barrier: BarrierView | None = None


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


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """`status` is ok, stopping, or diverged: then `detail` says why nothing is committed."""

    status: str
    name: str
    epoch: Epoch
    cluster: str | None
    sequencing: bool
    detail: str | None = None


class Me(msgspec.Struct, frozen=True):
    """Who asks: null without a token that is known here. Where none are in use it is open."""

    role: RoleName | None
    is_open: bool


class ModifiedAnswer(msgspec.Struct, frozen=True):
    """A component is the same at all epochs from the one it changed at until it changes again."""

    epoch: Epoch
    modified: dict[str, int]


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


class TokensFor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without `count`, as many as the other nodes of its datacenter have."""

    node: KnownNode
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] | None = None


class TokensAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Free at `epoch`, ascending, and chosen so that every node holds its share."""

    epoch: Epoch
    node: int
    tokens: list[str]


class Between(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"before": "from"}
):
    before: EpochField
    to: EpochField


class OneSchema(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    fingerprint: str
