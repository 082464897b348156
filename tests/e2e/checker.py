"""Judging a history of calls by the log it left: what a cluster that crashed still owes.

Every acknowledged commit names its epoch, so the order is known and only has to fit: the log,
real time, and the decisions themselves. All of it takes time linear in the history, but for a sort.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain, groupby
from math import inf
from typing import Any

import msgspec

from encoding.entries import EntryId
from encoding.json import result_json
from encoding.views import component_view
from log.batch import Proposal, attempted, founding
from log.entry import SealedEntry
from log.replay import NOTHING_APPLIED, ReplayError, replayed
from metadata.cluster import ClusterMetadata
from metadata.epoch import Epoch
from transformations.kinds import AnyTransformation, kind_of
from transformations.outcome import Accepted


class Committed(msgspec.Struct, frozen=True):
    """Acknowledged: it is in the log, there and with this hash."""

    epoch: int
    hash: str
    result: Mapping[str, Any]


class Refused(msgspec.Struct, frozen=True):
    """A "no" for good, which held at `epoch`."""

    epoch: int
    code: str
    detail: str


class Unknown(msgspec.Struct, frozen=True):
    """The service did not say, or nobody answered: it may be in the log or not."""

    why: str


class Fault(msgspec.Struct, frozen=True):
    """An answer that no crash excuses."""

    what: str


Answer = Committed | Refused | Unknown | Fault
Decided = Committed | Refused


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt; retries have the same entry id. Times are of one clock."""

    start_s: float
    end_s: float
    entry_id: EntryId
    transformation: AnyTransformation
    answer: Answer
    cms: str


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """A linearizable read that was answered; `view` is what it showed of `component`."""

    start_s: float
    end_s: float
    cms: str
    epoch: int
    component: str | None = None
    view: Mapping[str, Any] | None = None


class History(msgspec.Struct, frozen=True):
    calls: Sequence[Call]
    reads: Sequence[Read] = ()


class Rule(StrEnum):
    BROKEN_LOG = "the log has no gap, and chain and digests hold"
    TWICE = "an entry id is in the log once"
    NOT_IN_LOG = "what was acknowledged is in the log at its epoch, with its hash and result"
    REFUSED_IN_LOG = "what was refused is not in the log"
    NOT_ASKED_FOR = "what is in the log was asked for"
    ANSWERED_UNLIKE = "a retry gets the first answer"
    OUT_OF_ORDER = "what had ended comes before what began later"
    UNFOUNDED = "a refusal holds at the epoch that it names"
    MISREAD = "a read shows the metadata of its epoch"
    FAULT = "a crash is no excuse for any answer but unknown or unavailable"


class Violation(msgspec.Struct, frozen=True):
    rule: Rule
    what: str


def violations(history: History, log: Sequence[SealedEntry]) -> list[Violation]:
    """Everything that is wrong; `log` is what the store holds in the end."""
    return [
        *_faults(history.calls),
        *_repeated(log),
        *_missing(history.calls, log),
        *_uninvited(history.calls, log),
        *_unlike(history.calls),
        *_out_of_order(history, log),
        *_replayed(history, log),
    ]


def _faults(calls: Iterable[Call]) -> Iterator[Violation]:
    for call in calls:
        if isinstance(call.answer, Fault):
            yield Violation(Rule.FAULT, f"{_named(call)}: {call.answer.what}")


def _repeated(log: Iterable[SealedEntry]) -> Iterator[Violation]:
    seen: dict[EntryId, int] = {}
    for sealed in log:
        if sealed.entry_id in seen:
            what = f"{sealed.entry_id} at {seen[sealed.entry_id]} and {sealed.epoch}"
            yield Violation(Rule.TWICE, what)
        seen[sealed.entry_id] = sealed.epoch


def _missing(calls: Iterable[Call], log: Iterable[SealedEntry]) -> Iterator[Violation]:
    held = {sealed.entry_id: sealed for sealed in log}
    for call in calls:
        sealed = held.get(call.entry_id)
        if isinstance(call.answer, Refused) and sealed is not None:
            yield Violation(Rule.REFUSED_IN_LOG, f"{_named(call)}: at {sealed.epoch}")
        elif isinstance(call.answer, Committed) and _told(sealed) != call.answer:
            yield Violation(Rule.NOT_IN_LOG, f"{_named(call)}: {call.answer}, not {_told(sealed)}")


def _uninvited(calls: Iterable[Call], log: Iterable[SealedEntry]) -> Iterator[Violation]:
    asked = {call.entry_id: call.transformation for call in calls}
    for sealed in log:
        wanted = asked.get(sealed.entry_id)
        if wanted is None or _founding(sealed.entry_id, wanted) != sealed.entry.transformation:
            yield Violation(Rule.NOT_ASKED_FOR, f"{sealed.kind} {sealed.entry_id}")


def _unlike(calls: Iterable[Call]) -> Iterator[Violation]:
    first: dict[EntryId, Answer] = {}
    for call in calls:
        if isinstance(call.answer, Decided):
            earlier = first.setdefault(call.entry_id, call.answer)
            if earlier != call.answer:
                what = f"{_named(call)}: {earlier}, then {call.answer}"
                yield Violation(Rule.ANSWERED_UNLIKE, what)


class _Operation(msgspec.Struct, frozen=True):
    """Something that took effect once between `start_s` and `end_s`, at an epoch."""

    start_s: float
    end_s: float
    epoch: int
    makes_epoch: bool
    what: str


def _out_of_order(history: History, log: Iterable[SealedEntry]) -> Iterator[Violation]:
    """One pass through time. `newest` is the highest epoch that anybody had been told of."""
    operations = [*_operations(history.calls, log), *map(_looked, history.reads)]
    # What ends at the moment at which another begins may be beside it: beginnings go first.
    moments = [(item.start_s, 0, number) for number, item in enumerate(operations)]
    moments += [(item.end_s, 1, number) for number, item in enumerate(operations)]
    newest, by = 0, "nothing"
    for _, is_end, number in sorted(moments):
        item = operations[number]
        if is_end and item.end_s < inf and item.epoch > newest:
            newest, by = item.epoch, item.what
        elif not is_end and item.epoch < newest + item.makes_epoch:
            what = f"{item.what} at {item.epoch} began after {by} had ended at {newest}"
            yield Violation(Rule.OUT_OF_ORDER, what)


def _operations(calls: Iterable[Call], log: Iterable[SealedEntry]) -> Iterator[_Operation]:
    """One for each entry id: from its first attempt to its first answer, if it has one.

    What was never answered and is in the log took effect some time after it was first sent.
    """
    epochs = {sealed.entry_id: sealed.epoch for sealed in log}
    attempts: dict[EntryId, list[Call]] = {}
    for call in calls:
        attempts.setdefault(call.entry_id, []).append(call)
    for entry_id, tries in attempts.items():
        start_s = min(call.start_s for call in tries)
        answered = [call for call in tries if isinstance(call.answer, Decided)]
        if answered:
            first = min(answered, key=lambda call: call.end_s)
            assert isinstance(first.answer, Decided)
            makes = isinstance(first.answer, Committed)
            yield _Operation(start_s, first.end_s, first.answer.epoch, makes, _named(first))
        elif entry_id in epochs:
            yield _Operation(start_s, inf, epochs[entry_id], True, _named(tries[0]))


def _looked(read: Read) -> _Operation:
    return _Operation(read.start_s, read.end_s, read.epoch, False, f"read by {read.cms}")


def _replayed(history: History, log: Sequence[SealedEntry]) -> Iterator[Violation]:
    """Walk through the versions once, and look at each with those who spoke of it."""
    refused = _by_epoch(
        (call.answer.epoch, call) for call in history.calls if isinstance(call.answer, Refused)
    )
    read = _by_epoch((read.epoch, read) for read in history.reads)
    try:
        for applied in chain([NOTHING_APPLIED], replayed(log)):
            metadata = applied.metadata
            for call in refused.pop(metadata.epoch, ()):
                yield from _unfounded(call, metadata)
            yield from _misread(read.pop(metadata.epoch, []), metadata)
    except ReplayError as error:
        yield Violation(Rule.BROKEN_LOG, str(error))
    for epoch, calls in refused.items():
        yield Violation(Rule.UNFOUNDED, f"{_named(calls[0])}: epoch {epoch} never was")
    for epoch in read:
        yield Violation(Rule.MISREAD, f"epoch {epoch} never was")


def _unfounded(call: Call, metadata: ClusterMetadata) -> Iterator[Violation]:
    assert isinstance(call.answer, Refused)
    outcome = attempted(_founding(call.entry_id, call.transformation), metadata)
    if isinstance(outcome, Accepted):
        yield Violation(Rule.UNFOUNDED, f"{_named(call)}: is acceptable at {metadata.epoch}")
    elif (outcome.reason.value, outcome.detail) != (call.answer.code, call.answer.detail):
        what = f"{_named(call)}: {call.answer}, not {outcome.reason}: {outcome.detail}"
        yield Violation(Rule.UNFOUNDED, what)


def _misread(reads: Iterable[Read], metadata: ClusterMetadata) -> Iterator[Violation]:
    wanted = [read for read in reads if read.component is not None]
    for component, same in groupby(wanted, key=lambda read: read.component):
        assert component is not None
        true = component_view(metadata, component)
        for read in same:
            if read.view != true:
                yield Violation(Rule.MISREAD, f"{component} at {metadata.epoch} by {read.cms}")


def _by_epoch(pairs: Iterable[tuple[int, Any]]) -> dict[Epoch, list[Any]]:
    found: dict[Epoch, list[Any]] = {}
    for epoch, item in pairs:
        found.setdefault(Epoch(epoch), []).append(item)
    return found


def _told(sealed: SealedEntry | None) -> Committed | None:
    if sealed is None:
        return None
    return Committed(sealed.epoch, sealed.hash.hex(), result_json(sealed.entry.result))


def _founding(entry_id: EntryId, transformation: AnyTransformation) -> AnyTransformation:
    return founding(Proposal(entry_id=entry_id, transformation=transformation))


def _named(call: Call) -> str:
    return f"{kind_of(call.transformation)} {call.entry_id} by {call.cms}"
