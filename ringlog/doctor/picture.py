"""Everything that was seen of a cluster at one moment: values, and no opinion about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ringlog.commands.naming import Roster

Plain = Mapping[str, Any]


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is None where somebody else tells of it."""

    path: str | None = None
    free_bytes: int
    total_bytes: int


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A process as it looked over HTTP; `skew_s` is its clock less ours, `disk` what it tells.

    `code` and `detail` are what it says of not being ready, `complaint` why it did not answer.
    """

    name: str
    role: str
    url: str
    answered: bool
    ready: bool = False
    code: str | None = None
    detail: str | None = None
    complaint: str | None = None
    cluster: str | None = None
    sequencing: bool | None = None
    version: str | None = None
    skew_s: float | None = None
    disk: Disk | None = None


class Supervised(msgspec.Struct, frozen=True, kw_only=True):
    """A process that should run on this machine; `pid` is None where none is listed."""

    name: str
    role: str
    pid: int | None
    alive: bool


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """A file that only its owner should read."""

    path: str
    mode: int


class Local(msgspec.Struct, frozen=True, kw_only=True):
    """The state directory of a cluster that `ringlog up` runs, or ran."""

    state_dir: str
    founded: bool
    supervisor: int | None = None
    processes: tuple[Supervised, ...] = ()
    drives: bool = False
    by_kafka: bool = False
    has_java: bool = True
    disks: tuple[Disk, ...] = ()
    secrets: tuple[Secret, ...] = ()

    @property
    def runs(self) -> bool:
        return any(item.alive for item in self.processes)


class Database(msgspec.Struct, frozen=True, kw_only=True):
    """The Postgres that keeps the log; without a complaint it answered."""

    complaint: str | None = None
    version: str = ""
    major: int = 0
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    lax: tuple[str, ...] = ()
    skew_s: float | None = None
    tip: int = 0
    published: Mapping[str, int] = {}


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    epoch: int
    age_s: float | None


class Unanswered(msgspec.Struct, frozen=True):
    """A question that no CMS answered, although one was there."""

    question: str
    complaint: str


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """What is None was not seen: nobody answered, or nobody was asked.

    `where` are the words that name this cluster in a command, `start` is what starts its processes
    where nobody supervises them from here. `nodes`, `sequences`, `sessions`
    and `divergences` are as a CMS shows them; `session_ages_s` are by session, and so is what
    drivers say of them, `served`.
    """

    release: str
    urls: tuple[str, ...]
    where: str = ""
    start: str | None = None
    local: Local | None = None
    database: Database | None = None
    asked: tuple[Asked, ...] = ()
    cluster: Plain | None = None
    tip: int | None = None
    nodes: tuple[Plain, ...] | None = None
    roster: Roster = Roster(())
    sequences: tuple[Plain, ...] | None = None
    sessions: tuple[Plain, ...] | None = None
    session_ages_s: Mapping[int, float] = {}
    served: Mapping[int, Plain] = {}
    keyspaces: tuple[Plain, ...] | None = None
    divergences: tuple[Plain, ...] | None = None
    snapshots: tuple[Snapshot, ...] | None = None
    unanswered: tuple[Unanswered, ...] = ()

    @property
    def cms(self) -> tuple[Asked, ...]:
        return tuple(item for item in self.asked if item.role == "cms")

    @property
    def is_reachable(self) -> bool:
        return any(item.answered for item in self.cms)
