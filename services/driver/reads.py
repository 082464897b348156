"""What a driver tells of itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from sequences.status import Board, Doing
from services.driver.engine import DriverEngine
from services.driver.telling import Telling
from services.http import api
from services.http.api import Call
from services.http.bodies import Nothing
from services.http.metrics import HttpCounts
from services.http.problems import Code, ProblemError
from services.http.progress import Progress
from services.http.room import Room, room_in
from services.http.routing import Route


class DriverMetrics:
    """`board` and `telling` are what the answers are made of."""

    def __init__(self, board: Board, telling: Telling) -> None:
        self.http = HttpCounts()
        self.board = board
        self.telling = telling


Api: TypeAlias = api.Api[DriverEngine, DriverMetrics]


class DriverHealth(msgspec.Struct, frozen=True, kw_only=True):
    status: str
    name: str
    epoch: int
    state: str
    detail: str
    sequences: int
    disk: Room | None = None


async def healthz(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """The process runs, whatever else does not."""
    return await api.json(call.request, _health(api), Cache_Control="no-store")


async def readyz(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """The process follows the log and would drive what it finds there."""
    if api.stopping.is_set():
        raise ProblemError(Code.STOPPING, "This process is stopping.")
    await api.engine.latest()
    return await api.json(call.request, _health(api), Cache_Control="no-store")


async def sequences(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    now_s = api.engine.clock()
    found = api.metrics.telling.progress(now_s)
    return await api.json(call.request, found, Cache_Control="no-store")


async def metrics(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    registry = CollectorRegistry()
    registry.register(_Collected(api))
    headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    return await api.answer(call.request, generate_latest(registry), headers)


class _Collected:
    """The one collector, in the form the library asks for."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def collect(self) -> Iterable[Metric]:
        yield from self._api.metrics.http.families()
        yield from self._levels()

    def _levels(self) -> Iterator[Metric]:
        listed = self._api.metrics.board.all()
        family = GaugeMetricFamily(
            "ringlog_sequences_driven", "Sequences by what is being done.", labels=["doing"]
        )
        for doing in Doing:
            family.add_metric([doing.value], sum(item.doing is doing for item in listed))
        yield family
        yield GaugeMetricFamily(
            "ringlog_movement_stalled_seconds",
            "How long ago the movement that is stalled longest came further.",
            value=self._api.metrics.telling.stalled_s,
        )
        epoch = self._api.engine.applied.metadata.epoch
        yield GaugeMetricFamily(
            "ringlog_watermark_epoch", "The highest epoch applied.", value=epoch
        )


def _health(api: Api) -> DriverHealth:
    standing = api.engine.follower.standing
    status = "ok" if standing.is_trusted else standing.state.value
    return DriverHealth(
        status="stopping" if api.stopping.is_set() else status,
        name=api.engine.name,
        epoch=api.engine.applied.metadata.epoch,
        state=standing.state.value,
        detail=standing.detail,
        sequences=len(api.metrics.board.all()),
        disk=room_in(api.engine.folder),
    )


ROUTES = (
    Route(
        method="GET",
        path="/v1/sequences",
        run=sequences,
        summary="What this driver is doing about each sequence",
        answer=Progress,
    ),
    Route(
        method="GET",
        path="/healthz",
        run=healthz,
        summary="The process runs",
        answer=DriverHealth,
        role=None,
    ),
    Route(
        method="GET",
        path="/readyz",
        run=readyz,
        summary="The driver drives",
        answer=DriverHealth,
        problems=(Code.UNAVAILABLE, Code.STOPPING),
        role=None,
    ),
    Route(
        method="GET",
        path="/metrics",
        run=metrics,
        summary="Figures for Prometheus",
        answer=str,
        media_types=("text/plain",),
    ),
)
