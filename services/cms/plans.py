"""What a transformation would do, without doing it."""

from __future__ import annotations

from uuid import uuid4

import msgspec
from aiohttp import web
from msgspec.structs import replace

from encoding.entries import EntryId
from encoding.views import component_view, sequence_view
from log.batch import Proposal, attempted, founding
from metadata.cluster import ClusterMetadata
from metadata.sequences import Sequence
from services.cms.api import Api
from services.cms.bodies import Plan, PlanAnswer
from services.cms.commits import decoded
from services.cms.differences import placement_changes
from services.cms.progress.barriers import barrier_now
from services.cms.progress.estimates import Estimate, estimated, weakest
from services.cms.progress.movements import usual_rate
from services.cms.progress.views import voters_of
from services.http.api import Call
from services.http.bodies import Nothing
from services.http.problems import malformed, refused
from services.http.reading import read_json
from transformations.outcome import Accepted, Rejected

_decode_plan = msgspec.json.Decoder(Plan).decode


async def plan(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    body = await read_json(api.limits, call.request)
    try:
        wanted = _decode_plan(body)
    except (ValueError, RecursionError) as error:
        raise malformed(error) from error
    # Nothing is enacted, so any id will do.
    entry_id = EntryId(wanted.entry_id or uuid4())
    proposal = Proposal(entry_id=entry_id, transformation=decoded(wanted.transformation))
    metadata = (await api.engine.latest()).metadata
    match attempted(founding(proposal), metadata):
        case Rejected() as rejected:
            found = refused(rejected, epoch=metadata.epoch)
            answer = PlanAnswer(epoch=metadata.epoch, outcome="rejected", problem=found)
        case Accepted() as accepted:
            answer = await _planned(api, metadata, accepted, wanted.rows_per_s)
    return await api.json(call.request, answer, Cache_Control="no-store")


async def _planned(
    api: Api, before: ClusterMetadata, accepted: Accepted, rows_per_s: float | None
) -> PlanAnswer:
    after = accepted.after
    sequence = _changed_sequence(before, after)
    answer = PlanAnswer(
        epoch=before.epoch,
        outcome="accepted",
        result=accepted.result,
        locks=_new_locks(before, after),
    )
    if sequence is None:
        return replace(answer, deltas=list(placement_changes(before, after)))
    stores = api.engine.reporting.stores
    heard = {item.node: item for item in await stores.reports.heard()}
    rate = rows_per_s or usual_rate(await stores.progress.rates())
    answer = replace(
        answer,
        sequence=sequence_view(sequence),
        deltas=_deltas(sequence),
        voters=voters_of(after, sequence),
        barrier=barrier_now(after, sequence, heard),
        weakest=weakest(sequence),
    )
    return _sized(answer, estimated(after, sequence, heard), rate)


def _sized(answer: PlanAnswer, estimate: Estimate, rate: float | None) -> PlanAnswer:
    """With the figures, as far as anybody knows them."""
    answer = replace(answer, transfers=estimate.transfers, rows_per_s=rate)
    if estimate.total is None:
        return answer
    rows, size_bytes = round(estimate.total.rows), round(estimate.total.bytes)
    seconds = None if rate is None else round(estimate.total.rows / rate, 3)
    return replace(answer, rows=rows, bytes=size_bytes, seconds=seconds)


def _changed_sequence(before: ClusterMetadata, after: ClusterMetadata) -> Sequence | None:
    changed = (
        item
        for key, item in after.sequences.in_progress.items()
        if before.sequences.find(key) != item
    )
    return next(changed, None)


def _deltas(sequence: Sequence) -> list[dict[str, object]]:
    """What all steps of the sequence come to, range by range."""
    return [
        {
            "placement": found.placement,
            "left": str(change.range.left),
            "right": str(change.range.right),
            "before": list(change.before),
            "after": list(change.after),
            "gained": list(change.gained),
            "lost": list(change.lost),
        }
        for found in sequence.plans
        for change in found.changes
    ]


def _new_locks(before: ClusterMetadata, after: ClusterMetadata) -> list[dict[str, object]]:
    held = component_view(after, "locks")["locks"]
    return [item for item in held if item["sequence"] not in before.locks.held]
