"""What is asked and answered about nodes: types that decode, encode and document."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from encoding.entries import Why
from metadata.directory import KnownNode
from metadata.epoch import Epoch
from metadata.limits import Hash
from services.cms.reports.liveness import Liveness
from services.http.bodies import EpochField

PAGE_EPOCHS_MAX = 1000


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the directory and its last report.

    `lag` counts epochs behind the tip. `diverged` says that its history is not the log's. At a
    past epoch nothing is said of liveness.
    """

    id: int
    host_id: str
    addresses: dict[str, str]
    datacenter: str
    rack: str
    version: str
    state: str
    tokens: int
    liveness: Liveness | None = None
    watermark: int | None = None
    lag: int | None = None
    age_s: float | None = None
    hash: str | None = None
    digest: str | None = None
    diverged: bool | None = None
    drained: int | None = None
    data: dict[str, Any] | None = None


class NodesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    epoch: Epoch
    nodes: list[NodeView]


class Spreading(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without `after`, the newest epochs."""

    after: EpochField | None = None
    limit: Annotated[int, Meta(ge=1, le=PAGE_EPOCHS_MAX)] = 100


class Moment(msgspec.Struct, frozen=True):
    """A stage that was reached; `at_us` is null where that is too long ago to be known."""

    at_us: int | None
    node: int | None


class Straggler(msgspec.Struct, frozen=True):
    node: int
    address: str | None


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How one entry spread; a stage that is null is not reached yet.

    `published` is for a relay to say, so it stays null where entries spread by NOTIFY. `quorum`
    is a majority of the nodes that own ranges, `all` are all of them, down or not.
    `straggler` was the last of them to apply it, or is furthest behind while not all have.
    """

    epoch: Epoch
    committed_at_us: int | None
    published: Moment | None
    first: Moment | None
    quorum: Moment | None
    all: Moment | None
    applied: int
    members: int
    straggler: Straggler | None


class PropagationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Dense from `after` + 1 on; fewer than asked for where there are very many nodes."""

    tip: Epoch
    epochs: list[Spread]


class DivergenceView(msgspec.Struct, frozen=True, kw_only=True):
    """A node, or without one the CMS process that answers, has applied what the log has not."""

    node: int | None
    epoch: Epoch
    hash: str
    tip: Epoch
    fault: str
    detail: str
    remedy: str


class DivergencesAnswer(msgspec.Struct, frozen=True):
    divergences: list[DivergenceView]


class Acknowledge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Go on although this node has this entry and the log has not."""

    node: KnownNode
    epoch: EpochField
    hash: Hash
    reason: Why
