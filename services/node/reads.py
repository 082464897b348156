"""What a node tells of itself and of the log."""

from __future__ import annotations

from typing import TypeAlias

from aiohttp import web

from client.peers import MEANT_FOR
from log.containers import MEDIA_TYPE, container
from metadata.epoch import Epoch
from services.http import api, logs, streams
from services.http.api import Call, accepts
from services.http.bodies import Follow, LogPage, LogState, Nothing
from services.http.problems import Code, ProblemError
from services.http.room import room_in
from services.node.bodies import AtLeast, NodeHealth, Watermark
from services.node.engine import NodeEngine
from services.node.metrics import NodeMetrics

Api: TypeAlias = api.Api[NodeEngine, NodeMetrics]


async def epoch(api: Api, call: Call[AtLeast]) -> web.StreamResponse:
    """The watermark, at once or when it is high enough."""
    check_meant(api, call.request)
    await _waited(api, call.query)
    drained = api.engine.gate.drained
    applied = await api.engine.latest()
    found = Watermark(
        node=api.engine.node,
        epoch=applied.metadata.epoch,
        drained=drained,
        digest=applied.metadata.digest.hex(),
        hash=applied.hash.hex(),
        state=api.engine.following.standing.state.value,
    )
    return await api.json(call.request, found, Cache_Control="no-store")


async def _waited(api: Api, query: AtLeast) -> None:
    if not query.wait or _is_enough(api, query):
        return
    clock = api.engine.following.clock
    with api.following():
        deadline_s = clock() + min(query.wait, api.limits.wait_s_max)
        await api.wait_beyond(Epoch(query.at_least - 1), deadline_s - clock())
        while not api.stopping.is_set() and not _is_enough(api, query):
            left_s = min(deadline_s - clock(), api.limits.slice_s)
            if left_s <= 0:
                return
            await api.engine.gate.wait_drained(query.at_least, left_s)


def _is_enough(api: Api, query: AtLeast) -> bool:
    engine = api.engine
    found = engine.gate.drained if query.drained else engine.applied.metadata.epoch
    return query.at_least <= found


async def log_page(api: Api, call: Call[LogPage]) -> web.StreamResponse:
    """Like the CMS's, but a node may be behind whoever asks: that is no other history."""
    check_meant(api, call.request)
    query = call.query
    tip = (await api.engine.latest()).metadata.epoch
    if query.wait and query.after > tip:
        with api.following():
            await api.wait_beyond(query.after, min(query.wait, api.limits.wait_s_max))
        tip = api.engine.applied.metadata.epoch
    if query.after <= tip:
        return await logs.log_page(api, call)
    if accepts(call.request, MEDIA_TYPE):
        body = container([], {"tip": str(tip)})
        return await api.answer(call.request, body, {"Content-Type": MEDIA_TYPE})
    state = LogState(tip=tip, snapshot=None, entries=[])
    return await api.json(call.request, state, Cache_Control="no-store")


async def log_stream(api: Api, call: Call[Follow]) -> web.StreamResponse:
    """The same as a stream: whoever is ahead of this node has to come back later."""
    check_meant(api, call.request)
    after = streams.begun_at(call).after
    tip = (await api.engine.latest()).metadata.epoch
    if after > tip:
        raise ProblemError(
            Code.UNAVAILABLE, f"This node is at epoch {tip}, behind epoch {after}.", tip=tip
        )
    return await streams.log_stream(api, call)


async def healthz(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """The process runs, whatever else does not."""
    return await api.json(call.request, _health(api), Cache_Control="no-store")


async def readyz(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """The node is known to the cluster and what it serves is right, if perhaps late."""
    if api.stopping.is_set():
        raise ProblemError(Code.STOPPING, "This process is stopping.")
    api.engine.check_trusted()
    if api.engine.node is None:
        detail = api.engine.following.standing.detail
        raise ProblemError(
            Code.UNAVAILABLE, f"The cluster does not know this node yet. {detail}".rstrip()
        )
    if api.engine.was_set_back:
        raise ProblemError(
            Code.NEEDS_REPAIR,
            f"This node was set back to epoch {api.engine.restored_at} and serves no data: "
            "repair its ranges, or replace it.",
        )
    return await api.json(call.request, _health(api), Cache_Control="no-store")


async def metrics(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    return await api.answer(call.request, api.metrics.text(api.engine, api.followers), headers)


def check_meant(api: Api, request: web.BaseRequest) -> None:
    """A message that names another node has come to the wrong address."""
    meant = request.headers.get(MEANT_FOR)
    if meant is not None and meant != str(api.engine.node):
        raise ProblemError(
            Code.WRONG_NODE,
            f"This is node {api.engine.node or '(not known yet)'}, not node {meant}.",
            field=MEANT_FOR,
        )


def _health(api: Api) -> NodeHealth:
    engine = api.engine
    standing = engine.following.standing
    found = engine.applied.metadata
    status = "ok" if standing.is_trusted else standing.state.value
    return NodeHealth(
        status="stopping" if api.stopping.is_set() else status,
        name=engine.name,
        node=engine.node,
        epoch=found.epoch,
        cluster=found.cluster.id or None,
        state=standing.state.value,
        lag=engine.lag,
        silence_s=round(engine.silence_s, 3),
        detail=standing.detail,
        disk=room_in(engine.folder),
    )
