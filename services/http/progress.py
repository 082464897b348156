"""What a driver tells the CMS about the sequences that it drives; both sides import it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from metadata.barriers import Level
from metadata.directory import KnownNode
from metadata.limits import ID_MAX, TEXT_MAX, Count, Label
from services.http.bodies import EpochField

PROGRESS_PATH = "/internal/v1/progress"
PROGRESS_EVERY_S = 1.0
SEQUENCES_MAX = 1000
GROUPS_MAX = 1000
NODES_MAX = 1000
PROGRESS_BYTES_MAX = 1024 * 1024

Seconds = Annotated[float, Meta(ge=0, le=ID_MAX)]


class Waiting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of the barrier that is short of nodes; with `all_of` nobody may be missing."""

    group: Annotated[tuple[KnownNode, ...], Meta(max_length=NODES_MAX)]
    needed: Count
    missing: Annotated[tuple[KnownNode, ...], Meta(max_length=NODES_MAX)]
    all_of: bool = False


class Moved(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a movement is; `left_s` is None while nobody can tell.

    `stalled_s` is how long ago it last came further.
    """

    phase: Label
    detail: Annotated[str, Meta(max_length=TEXT_MAX)] = ""
    rows_done: Count
    rows_total: Count
    bytes_done: Count
    bytes_total: Count
    rows_per_s: Seconds = 0.0
    left_s: Seconds | None = None
    stalled_s: Seconds = 0.0


class Driven(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is being done about one sequence: `doing` is waiting, moving, committing, cleaning or
    stuck, `for_s` since when, `detail` why it does not go on, `level` of the barrier."""

    sequence: EpochField
    step: Label
    doing: Label
    for_s: Seconds
    detail: Annotated[str, Meta(max_length=TEXT_MAX)] = ""
    failures: Count = 0
    waiting: Annotated[tuple[Waiting, ...], Meta(max_length=GROUPS_MAX)] = ()
    moved: Moved | None = None
    level: Level = Level.EACH_QUORUM


class Served(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is being done under a session for cleanup or repair: `doing` is cleaning, repairing,
    waiting or stuck, `detail` why it does not go on, `nodes` those that keep it from that.

    Of a change of the members of the CMS, too, which is named as a session is: by the epoch of the
    entry that began it. Its `doing` is committing or stuck."""

    session: EpochField
    doing: Label
    for_s: Seconds
    detail: Annotated[str, Meta(max_length=TEXT_MAX)] = ""
    failures: Count = 0
    nodes: Annotated[tuple[KnownNode, ...], Meta(max_length=NODES_MAX)] = ()


class Progress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that one driver does, whenever it changes and once a second."""

    driver: Label
    sequences: Annotated[tuple[Driven, ...], Meta(max_length=SEQUENCES_MAX)]
    sessions: Annotated[tuple[Served, ...], Meta(max_length=SEQUENCES_MAX)] = ()
    reconfiguration: Served | None = None


class ProgressAnswer(msgspec.Struct, frozen=True):
    """How many of them are in progress, or open, by the metadata of the CMS."""

    known: int
