"""What a transformation would do, without doing it."""

from __future__ import annotations

from uuid import uuid4

import msgspec
from aiohttp import web

from encoding.entries import EntryId
from encoding.views import component_view, sequence_view
from log.batch import Proposal, attempted, founding
from metadata.barriers import voter_groups
from metadata.cluster import ClusterMetadata
from metadata.sequences import Sequence
from services.cms.api import Api, Call
from services.cms.bodies import Nothing, Plan, PlanAnswer
from services.cms.commits import decoded, read_json
from services.cms.differences import placement_changes
from services.cms.problems import malformed, refused
from transformations.outcome import Accepted, Rejected

_decode_plan = msgspec.json.Decoder(Plan).decode


async def plan(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    body = await read_json(api, call.request)
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
            answer = _planned(metadata, accepted)
    return await api.json(call.request, answer, Cache_Control="no-store")


def _planned(before: ClusterMetadata, accepted: Accepted) -> PlanAnswer:
    after = accepted.after
    sequence = _changed_sequence(before, after)
    return PlanAnswer(
        epoch=before.epoch,
        outcome="accepted",
        result=accepted.result,
        sequence=None if sequence is None else sequence_view(sequence),
        deltas=list(placement_changes(before, after)) if sequence is None else _deltas(sequence),
        locks=_new_locks(before, after),
        voters=[] if sequence is None else voters_of(after, sequence),
    )


def voters_of(metadata: ClusterMetadata, sequence: Sequence) -> list[list[int]]:
    """The groups of the barrier that the sequence stands before."""
    return sorted(list(group) for group in voter_groups(metadata, sequence))


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
