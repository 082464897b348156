"""The table of a node's paths."""

from __future__ import annotations

from log.containers import MEDIA_TYPE as CONTAINER
from services.http import logs, snapshots
from services.http.bodies import (
    Entry,
    Follow,
    Listed,
    LogPage,
    LogState,
    OneEpoch,
    SnapshotsAnswer,
    View,
)
from services.http.problems import Code
from services.http.routing import JSON, Route
from services.http.snapshots import SINGLE_OBJECT
from services.node import reads
from services.node.bodies import AtLeast, NodeHealth, Watermark

_LOG = (Code.DIVERGED, Code.TRIMMED, Code.OVERLOADED, Code.WRONG_NODE)

ROUTES = (
    Route(
        method="GET",
        path="/v1/epoch",
        run=reads.epoch,
        summary="How far this node is, at once or when it is far enough",
        query=AtLeast,
        answer=Watermark,
        problems=(Code.DIVERGED, Code.OVERLOADED, Code.WRONG_NODE),
    ),
    Route(
        method="GET",
        path="/v1/log",
        run=reads.log_page,
        summary="Entries without a gap, from this node's own copy",
        query=LogPage,
        answer=LogState,
        media_types=(JSON, CONTAINER),
        problems=_LOG,
    ),
    Route(
        method="GET",
        path="/v1/log/stream",
        run=reads.log_stream,
        summary="Entries as server-sent events, with bookmarks",
        query=Follow,
        answer=str,
        media_types=("text/event-stream",),
        problems=(*_LOG, Code.UNAVAILABLE),
    ),
    Route(
        method="GET",
        path="/v1/log/{epoch}",
        run=logs.log_entry,
        summary="One entry",
        query=OneEpoch,
        answer=Entry,
        media_types=(JSON, CONTAINER),
        problems=(Code.UNKNOWN_EPOCH, Code.TRIMMED, Code.DIVERGED),
    ),
    Route(
        method="GET",
        path="/v1/snapshots",
        run=snapshots.snapshots,
        summary="Snapshots that this node keeps, newest first",
        query=Listed,
        answer=SnapshotsAnswer,
    ),
    Route(
        method="GET",
        path="/v1/snapshots/{epoch}",
        run=snapshots.snapshot,
        summary="One snapshot, as JSON or as stored",
        query=OneEpoch,
        answer=View,
        media_types=(JSON, SINGLE_OBJECT),
        problems=(Code.UNKNOWN_EPOCH,),
    ),
    Route(
        method="GET",
        path="/healthz",
        run=reads.healthz,
        summary="The process runs",
        answer=NodeHealth,
        role=None,
    ),
    Route(
        method="GET",
        path="/readyz",
        run=reads.readyz,
        summary="The node serves",
        answer=NodeHealth,
        problems=(Code.UNAVAILABLE, Code.STOPPING, Code.DIVERGED, Code.NEEDS_REPAIR),
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
