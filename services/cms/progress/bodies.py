"""What is answered about sequences: types that encode and document."""

from __future__ import annotations

from typing import Any

import msgspec

from metadata.barriers import Level
from metadata.epoch import Epoch
from services.cms.reports.liveness import Liveness


class Voter(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is waited for, by its last report.

    It counts by `drained`, or by `watermark` where it has no data plane; `behind` says how many
    epochs are missing to the barrier's.
    """

    node: int
    address: str | None
    liveness: Liveness
    watermark: int | None
    drained: int | None
    behind: int | None


class Laggard(Voter, frozen=True, kw_only=True):
    """`blocking`: the barrier would be nearer with it; else enough others have voted."""

    blocking: bool


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """So many of the group must have applied the epoch; with `all_of` nobody may be missing."""

    group: list[int]
    needed: int
    applied: list[int]
    missing: list[Voter]
    all_of: bool = False


class BarrierView(msgspec.Struct, frozen=True, kw_only=True):
    """What the due step waits for. Without a group there is no table, and it has passed."""

    epoch: Epoch
    level: Level
    groups: list[GroupView]
    passed: bool


class DriverView(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver said `age_s` ago; `waiting` are nodes that it could not hear the epoch from."""

    name: str
    step: str
    doing: str
    for_s: float
    detail: str | None
    failures: int
    waiting: list[int]
    age_s: float


class MovementView(msgspec.Struct, frozen=True, kw_only=True):
    """How far the rows are; `eta_s` is null while nobody can tell.

    `stalled_s` is how long ago it last came further.
    """

    phase: str
    detail: str | None = None
    rows_done: int
    rows_total: int
    bytes_done: int
    bytes_total: int
    rows_per_s: float
    eta_s: float | None
    stalled_s: float = 0.0


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """A step that was taken, and the level of the barrier before it.

    All but step and epoch is null at a past epoch, and where there are many.
    """

    step: str
    epoch: Epoch
    committed_at: int | None = None
    committed_by: str | None = None
    actor: str | None = None
    reason: str | None = None
    level: Level | None = None


class SequenceView(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence, and what is being done about it.

    From `since_s` on everything is of this moment, and null at a past epoch. `since_s` is how long
    ago the last step was taken. `driver` is null if none tells of it, `progress` while no rows
    move.
    """

    id: int
    kind: str
    node: int
    replaced: int | None
    tokens: list[str]
    dead: list[int]
    accept_loss: str | None
    session: int | None
    taken: list[StepView]
    due: str
    cancelled: bool
    plans: list[dict[str, Any]]
    voters: list[list[int]]
    since_s: float | None = None
    barrier: BarrierView | None = None
    laggards: list[Laggard] | None = None
    driver: DriverView | None = None
    rows: int | None = None
    bytes: int | None = None
    progress: MovementView | None = None


class ServingView(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver said `age_s` ago about a session, or about a change of the members of the CMS;
    `nodes` keep it from going on."""

    name: str
    doing: str
    for_s: float
    detail: str | None
    failures: int
    nodes: list[int]
    age_s: float


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A session for cleanup or repair; `driver` is null if none tells of it, or at a past epoch."""

    id: int
    purpose: str
    nodes: list[int]
    ranges: int
    driver: ServingView | None = None


class ReconfigurationView(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the members of the CMS: who is still to be added and removed, how many were."""

    id: int
    adding: list[str]
    removing: list[str]
    taken: int
    driver: ServingView | None = None


class SequenceAnswer(SequenceView, frozen=True, kw_only=True):
    epoch: Epoch


class SequencesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    epoch: Epoch
    sequences: list[SequenceView]
    sessions: list[SessionView]
    reconfiguration: ReconfigurationView | None = None


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """What one node would read of another; null where no node tells how much it holds."""

    source: int
    target: int
    ranges: int
    rows: int | None
    bytes: int | None
