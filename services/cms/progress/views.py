"""Sequences, joined with what nodes report and drivers tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Listed

import msgspec

from encoding.entries import Entry
from encoding.views import sequence_view
from log.store import StoreUnavailableError, TrimmedError
from metadata.barriers import Evidence, Level, voter_groups
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from metadata.sequences import Sequence
from services.cms.api import Api
from services.cms.progress.barriers import barrier_now, laggards_of
from services.cms.progress.bodies import (
    ReconfigurationView,
    SequencesAnswer,
    SequenceView,
    SessionView,
    StepView,
)
from services.cms.progress.movements import driven_in, driver_view, movement_view, serving_view
from services.cms.progress.store import Known
from services.cms.reports.store import Heard
from services.cms.reports.views import heard_by
from services.http.progress import Driven

STEPS_READ_MAX = 100
"""Entries that are read to say who took a step, and when; with more steps than that nobody says."""
MICROSECONDS = 1_000_000
ENTRY_BYTES_MAX = 64 * 1024 * 1024


class Surroundings(msgspec.Struct, frozen=True):
    """What is known of this moment: of nodes, and of sequences."""

    heard: Mapping[NodeId, Heard]
    known: Mapping[SequenceId, Known]
    now_us: int


def sequences_at(metadata: ClusterMetadata) -> SequencesAnswer:
    """What the metadata says alone."""
    found = [sequence_at(metadata, item) for item in metadata.sequences.in_progress.values()]
    return SequencesAnswer(
        epoch=metadata.epoch,
        sequences=found,
        sessions=sessions_at(metadata),
        reconfiguration=reconfiguration_at(metadata),
    )


def sessions_at(
    metadata: ClusterMetadata, known: Mapping[SequenceId, Known] | None = None
) -> list[SessionView]:
    """Those that stand alone, with what drivers tell; a movement's is its sequence's."""
    return [
        SessionView(
            id=session.id,
            purpose=session.purpose.value,
            nodes=[*map(int, session.nodes)],
            ranges=len(session.ranges),
            driver=serving_view((known or {}).get(SequenceId(session.id))),
        )
        for session in metadata.sessions.open.values()
        if session.sequence is None
    ]


def reconfiguration_at(
    metadata: ClusterMetadata, known: Mapping[SequenceId, Known] | None = None
) -> ReconfigurationView | None:
    found = metadata.cms.reconfiguration
    if found is None:
        return None
    return ReconfigurationView(
        id=found.id,
        adding=[member.name for member in found.add],
        removing=[*found.remove],
        taken=found.index,
        driver=serving_view((known or {}).get(found.id)),
    )


def sequence_at(metadata: ClusterMetadata, sequence: Sequence) -> SequenceView:
    plain = sequence_view(sequence)
    taken = [StepView(step=item.step.value, epoch=item.epoch) for item in sequence.taken]
    return SequenceView(**{**plain, "taken": taken, "voters": voters_of(metadata, sequence)})


def voters_of(metadata: ClusterMetadata, sequence: Sequence) -> list[list[int]]:
    """The groups of the barrier that the sequence stands before."""
    return sorted(list(group) for group in voter_groups(metadata, sequence))


async def surroundings(api: Api, *, is_stale: bool) -> Surroundings:
    """Where a stale answer will do, none is one."""
    heard = await heard_by(api, is_stale=is_stale)
    known: Iterable[Known] = ()
    try:
        known = await api.engine.reporting.stores.progress.known()
    except StoreUnavailableError:
        if not is_stale:
            raise
    return Surroundings(
        {item.node: item for item in heard},
        {item.sequence: item for item in known},
        api.engine.reporting.clock_us(),
    )


async def sequences_now(api: Api, metadata: ClusterMetadata, *, is_stale: bool) -> SequencesAnswer:
    """All of them, and the sessions that stand alone."""
    around = await surroundings(api, is_stale=is_stale)
    listed = list(metadata.sequences.in_progress.values())
    return SequencesAnswer(
        epoch=metadata.epoch,
        sequences=await shown_now(api, metadata, listed, around, is_stale=is_stale),
        sessions=sessions_at(metadata, around.known),
        reconfiguration=reconfiguration_at(metadata, around.known),
    )


async def shown_now(
    api: Api,
    metadata: ClusterMetadata,
    found: Listed[Sequence],
    around: Surroundings,
    *,
    is_stale: bool,
) -> list[SequenceView]:
    steps: Mapping[Epoch, StepView] = {}
    if not is_stale and sum(len(item.taken) for item in found) <= STEPS_READ_MAX:
        steps = await _steps(api, found)
    return [joined(metadata, item, around, steps) for item in found]


def joined(
    metadata: ClusterMetadata,
    sequence: Sequence,
    around: Surroundings,
    steps: Mapping[Epoch, StepView],
) -> SequenceView:
    plain = sequence_at(metadata, sequence)
    known = around.known.get(sequence.id)
    driven = driven_in(known)
    taken = [steps.get(item.epoch, item) for item in plain.taken]
    barrier = barrier_now(metadata, sequence, around.heard, level_of(driven, taken))
    view = msgspec.structs.replace(
        plain,
        taken=taken,
        since_s=_since_s(taken[-1], around.now_us),
        barrier=barrier,
        laggards=laggards_of(barrier),
    )
    if known is None or driven is None:
        return view
    view = msgspec.structs.replace(view, driver=driver_view(known, driven))
    # Of the step before, rows may still be told for a moment.
    if driven.moved is None or driven.step != sequence.due.value:
        return view
    moving = movement_view(driven.moved, known.age_s)
    return msgspec.structs.replace(
        view, rows=moving.rows_total, bytes=moving.bytes_total, progress=moving
    )


def level_of(driven: Driven | None, taken: Listed[StepView]) -> Level:
    """As the driver says; without one, as the steps before had it."""
    if driven is not None:
        return driven.level
    recorded = (item.level for item in reversed(taken) if item.level is not None)
    return next(recorded, Level.EACH_QUORUM)


def _since_s(step: StepView, now_us: int) -> float | None:
    """Clocks of two machines may disagree by more than this."""
    if step.committed_at is None:
        return None
    return round(max(0, now_us - step.committed_at) / MICROSECONDS, 3)


async def _steps(api: Api, found: Listed[Sequence]) -> dict[Epoch, StepView]:
    """Who took each step, and when, as far as the log still has it."""
    steps = {}
    for taken in (taken for item in found for taken in item.taken):
        entry = await _entry_at(api, taken.epoch)
        if entry is not None:
            steps[taken.epoch] = StepView(
                step=taken.step.value,
                epoch=taken.epoch,
                committed_at=entry.committed_at,
                committed_by=entry.committed_by,
                actor=entry.actor,
                reason=entry.reason,
                level=_level(entry),
            )
    return steps


async def _entry_at(api: Api, epoch: Epoch) -> Entry | None:
    before = Epoch(epoch - 1)
    try:
        found = await api.engine.entries_after(before, entries_max=1, bytes_max=ENTRY_BYTES_MAX)
    except TrimmedError:
        return None
    return found[0].entry if found and found[0].epoch == epoch else None


def _level(entry: Entry) -> Level | None:
    given: Evidence | None = getattr(entry.transformation, "barrier", None)
    return None if given is None else given.level
