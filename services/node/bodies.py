"""What a node is asked and what it answers, besides what every service does."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from metadata.epoch import Epoch
from services.http.bodies import EpochField
from services.http.room import Room


class AtLeast(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hold the answer until the node has applied `at_least`, or `wait` seconds are over.

    With `drained`, until nothing that an older version let in still runs.
    """

    at_least: EpochField = Epoch(0)
    wait: Annotated[float, Meta(ge=0, le=86400)] = 0.0
    drained: bool = False


class Watermark(msgspec.Struct, frozen=True, kw_only=True):
    """The highest epoch that a node has stored and published, with digest and hash there.

    `drained` is the highest one such that no replica read or write that an older version let in
    still runs: up to there the node *has applied* the log, in the sense of a barrier.
    """

    node: int | None
    epoch: Epoch
    drained: Epoch
    digest: str
    hash: str
    state: str


class NodeHealth(msgspec.Struct, frozen=True, kw_only=True):
    """`status` is ok, stopping, or a state in which the node serves nothing; `detail` says why.

    `lag` is by what a CMS said `silence_s` ago. `disk` is where its log and its rows are.
    """

    status: str
    name: str
    node: int | None
    epoch: Epoch
    cluster: str | None
    state: str
    lag: int
    silence_s: float
    detail: str
    disk: Room | None = None
