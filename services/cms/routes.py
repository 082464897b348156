"""The table of paths: what each takes, answers and needs. Routing and OpenAPI read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from services.cms import commits, logs, plans, reads, streams
from services.cms.api import Api, Call
from services.cms.bodies import (
    At,
    Batch,
    BatchAnswer,
    Between,
    Commit,
    CommitAnswer,
    ComponentAt,
    DiffAnswer,
    Entry,
    Follow,
    Health,
    LogPage,
    LogState,
    Nothing,
    OneEpoch,
    OneSchema,
    OwnersAnswer,
    OwnersAt,
    Plan,
    PlanAnswer,
    SequenceAt,
    SnapshotsAnswer,
    View,
)
from services.cms.containers import MEDIA_TYPE as CONTAINER
from services.cms.problems import Code
from services.cms.reads import SINGLE_OBJECT
from services.cms.roles import Role

Handler = Callable[[Api, Call[Any]], Awaitable[web.StreamResponse]]

JSON = "application/json"
_BODY = (Code.MALFORMED, Code.TOO_LARGE, Code.UNSUPPORTED_MEDIA_TYPE)
_DECIDED = (*_BODY, Code.DIVERGED, Code.ENTRY_ID_REUSED, Code.OVERLOADED, Code.UNKNOWN)
_LOG = (Code.DIVERGED, Code.TRIMMED, Code.OVERLOADED)


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """`role` none: open to everybody. `problems` are those besides what any path may answer.

    Internal ones are for other processes, which must name their cluster.
    """

    method: str
    path: str
    run: Handler
    summary: str
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] | None = None
    answer: Any = dict[str, Any]
    media_types: tuple[str, ...] = (JSON,)
    problems: tuple[Code, ...] = ()
    role: Role | None = Role.VIEWER
    is_internal: bool = False


ROUTES = (
    Route(
        method="POST",
        path="/v1/commit",
        run=commits.commit,
        summary="Decide and append one transformation",
        body=Commit,
        answer=CommitAnswer,
        problems=_DECIDED,
        role=Role.NODE,
    ),
    Route(
        method="POST",
        path="/v1/commit/batch",
        run=commits.commit_batch,
        summary="Decide and append up to 1,000 transformations",
        body=Batch,
        answer=BatchAnswer,
        problems=_DECIDED,
        role=Role.NODE,
    ),
    Route(
        method="POST",
        path="/v1/plan",
        run=plans.plan,
        summary="What a transformation would do",
        body=Plan,
        answer=PlanAnswer,
        problems=_BODY,
    ),
    Route(
        method="GET",
        path="/v1/log",
        run=logs.log_page,
        summary="Entries without a gap, from one epoch on",
        query=LogPage,
        answer=LogState,
        media_types=(JSON, CONTAINER),
        problems=_LOG,
    ),
    Route(
        method="GET",
        path="/v1/log/stream",
        run=streams.log_stream,
        summary="Entries as server-sent events, with bookmarks",
        query=Follow,
        answer=str,
        media_types=("text/event-stream",),
        problems=_LOG,
    ),
    Route(
        method="GET",
        path="/v1/log/{epoch}",
        run=logs.log_entry,
        summary="One entry",
        query=OneEpoch,
        answer=Entry,
        media_types=(JSON, CONTAINER),
        problems=(Code.UNKNOWN_EPOCH, Code.TRIMMED),
    ),
    Route(
        method="GET",
        path="/v1/metadata",
        run=reads.metadata,
        summary="All components at one epoch",
        query=At,
        answer=View,
        problems=(Code.UNKNOWN_EPOCH,),
    ),
    Route(
        method="GET",
        path="/v1/metadata/{component}",
        run=reads.component,
        summary="One component at one epoch",
        query=ComponentAt,
        answer=View,
        problems=(Code.UNKNOWN_EPOCH, Code.NOT_FOUND),
    ),
    Route(
        method="GET",
        path="/v1/owners",
        run=reads.key_owners,
        summary="Readers and writers of a key or token",
        query=OwnersAt,
        answer=OwnersAnswer,
        problems=(Code.UNKNOWN_EPOCH, Code.NOT_FOUND),
    ),
    Route(
        method="GET",
        path="/v1/diff",
        run=reads.diff,
        summary="What changed between two epochs, by meaning",
        query=Between,
        answer=DiffAnswer,
        problems=(Code.UNKNOWN_EPOCH,),
    ),
    Route(
        method="GET",
        path="/v1/sequences",
        run=reads.sequences,
        summary="Sequences in progress",
        query=At,
        answer=View,
        problems=(Code.UNKNOWN_EPOCH,),
    ),
    Route(
        method="GET",
        path="/v1/sequences/{id}",
        run=reads.sequence,
        summary="One sequence in progress",
        query=SequenceAt,
        answer=View,
        problems=(Code.UNKNOWN_EPOCH, Code.NOT_FOUND),
    ),
    Route(
        method="GET",
        path="/v1/nodes",
        run=reads.nodes,
        summary="The directory, with liveness and watermarks",
        query=At,
        answer=View,
        problems=(Code.UNKNOWN_EPOCH,),
    ),
    Route(
        method="GET",
        path="/v1/snapshots",
        run=reads.snapshots,
        summary="Snapshots, newest first",
        answer=SnapshotsAnswer,
    ),
    Route(
        method="GET",
        path="/v1/snapshots/{epoch}",
        run=reads.snapshot,
        summary="One snapshot, as JSON or as stored",
        query=OneEpoch,
        answer=View,
        media_types=(JSON, SINGLE_OBJECT),
        problems=(Code.UNKNOWN_EPOCH,),
    ),
    Route(
        method="GET",
        path="/v1/schemas",
        run=reads.schemas,
        summary="Every Avro schema by fingerprint",
    ),
    Route(
        method="GET",
        path="/v1/schemas/{fingerprint}",
        run=reads.schema,
        summary="One Avro schema",
        query=OneSchema,
        problems=(Code.NOT_FOUND,),
    ),
    Route(
        method="GET",
        path="/healthz",
        run=reads.healthz,
        summary="The process runs",
        answer=Health,
        role=None,
    ),
    Route(
        method="GET",
        path="/readyz",
        run=reads.readyz,
        summary="The process can answer",
        answer=Health,
        problems=(Code.UNAVAILABLE, Code.STOPPING),
        role=None,
    ),
    Route(
        method="GET",
        path="/metrics",
        run=reads.metrics,
        summary="Figures for Prometheus",
        answer=str,
        media_types=("text/plain",),
    ),
)
