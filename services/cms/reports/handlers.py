"""Reports over HTTP: taking them in, and acknowledging what they reveal."""

from __future__ import annotations

import msgspec
from aiohttp import web

from metadata.directory import NodeId
from services.cms.api import Api
from services.cms.reports.bodies import Acknowledge, DivergencesAnswer, DivergenceView
from services.cms.reports.intake import Arrival
from services.cms.reports.lineage import Divergence
from services.cms.reports.marks import aligned
from services.cms.reports.store import Acknowledgement
from services.http.api import Call
from services.http.bodies import Nothing
from services.http.limits import HttpLimits
from services.http.problems import Code, ProblemError, malformed
from services.http.reading import read_json
from services.http.reports import REPORT_BYTES_MAX, Report, ReportAnswer, fault_in

EPOCHS_AHEAD_MAX = 10**10
"""Centuries of commits: no log lost as many, so it is the number that is wrong."""

_LIMITS = HttpLimits(body_bytes_max=REPORT_BYTES_MAX)
_decode_report = msgspec.json.Decoder(Report).decode
_decode_acknowledge = msgspec.json.Decoder(Acknowledge).decode


async def report(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """Where a node is. One that has what the log has not is told so, and nothing is committed."""
    reporting = api.engine.reporting
    received_at_us = reporting.clock_us()
    given = await _read_report(api, call)
    marks = aligned(given.applied, sent_at_us=given.sent_at_us, received_at_us=received_at_us)
    is_known = await _is_known(api, given.node)
    taken = await reporting.intake.take(Arrival(given, marks, is_known))
    if taken.divergence is not None:
        found = taken.divergence
        raise ProblemError(
            Code.DIVERGED, found.sentence, field="epoch", tip=taken.tip, remedy=found.remedy
        )
    if not is_known:
        raise ProblemError(
            Code.NOT_FOUND, f"Node {given.node} is not registered.", field="node", tip=taken.tip
        )
    before = taken.reported
    answer = ReportAnswer(
        tip=taken.tip,
        now_us=reporting.clock_us(),
        reported=None if before is None else before.epoch,
        reported_writes=None if before is None else before.writes,
    )
    return await api.json(call.request, answer, Cache_Control="no-store")


async def divergences(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """What keeps this cluster from committing, if anything does."""
    return await _divergences(api, call)


async def acknowledge(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """Go on without what a node has and the log has not. Another epoch or hash stops it again."""
    body = await read_json(_LIMITS, call.request)
    try:
        given = _decode_acknowledge(body)
    except (ValueError, RecursionError) as error:
        raise malformed(error) from error
    found = await api.engine.reporting.stores.reports.acknowledge(
        Acknowledgement(
            node=given.node, epoch=given.epoch, hash=bytes.fromhex(given.hash), reason=given.reason
        )
    )
    if not found:
        raise ProblemError(
            Code.NOT_FOUND,
            f"Node {given.node} does not report another history at epoch {given.epoch} with this "
            "hash; GET /v1/divergences lists what there is.",
            field="node",
        )
    return await _divergences(api, call)


async def _divergences(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    watch = api.engine.reporting.watch
    await watch.look()
    answer = DivergencesAnswer([_view(item) for item in watch.divergences])
    return await api.json(call.request, answer, Cache_Control="no-store")


async def _read_report(api: Api, call: Call[Nothing]) -> Report:
    body = await read_json(_LIMITS, call.request)
    if len(body) > REPORT_BYTES_MAX:
        raise ProblemError(
            Code.TOO_LARGE, f"A report has at most {REPORT_BYTES_MAX} bytes.", field="data"
        )
    try:
        given = _decode_report(body)
    except (ValueError, RecursionError) as error:
        raise malformed(error) from error
    fault = fault_in(given)
    if fault is None and given.epoch > api.engine.applied.metadata.epoch + EPOCHS_AHEAD_MAX:
        fault = ("epoch", "No log is that long.")
    if fault is not None:
        raise ProblemError(Code.MALFORMED, fault[1], field=fault[0])
    return given


async def _is_known(api: Api, node: NodeId) -> bool:
    """It may have registered through another process a moment ago."""
    if api.engine.applied.metadata.directory.find(node) is not None:
        return True
    return (await api.engine.latest()).metadata.directory.find(node) is not None


def _view(item: Divergence) -> DivergenceView:
    return DivergenceView(
        node=item.node,
        epoch=item.epoch,
        hash=item.hash.hex(),
        tip=item.tip,
        fault=item.fault.value,
        detail=item.sentence,
        remedy=item.remedy,
    )
