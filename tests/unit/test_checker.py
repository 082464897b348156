"""The history checker passes what is right and names whatever is wrong."""

from __future__ import annotations

from uuid import UUID

import msgspec
import pytest

from encoding.entries import EntryId
from encoding.json import result_json
from encoding.views import component_view
from log.batch import Proposal, Request, Stamp, drafted
from log.chain import seal
from log.replay import NOTHING_APPLIED, replay
from tests.builders import registration
from tests.e2e.checker import (
    Call,
    Committed,
    Fault,
    History,
    Read,
    Refused,
    Rule,
    Unknown,
    violations,
)
from transformations.extensions import ClearExtension, SetExtension
from transformations.initialize import Initialize
from transformations.kinds import AnyTransformation

FOUNDED = Initialize(name="test")
LOST_IS = 3
"""The call that nobody answered; it is in the log all the same."""


def made():
    """Eight calls one after the other, two of them refused, one unanswered and later repeated."""
    asked: list[AnyTransformation] = [
        FOUNDED,
        SetExtension(name="a", value="1"),
        ClearExtension(name="b"),
        SetExtension(name="b", value="2"),
        ClearExtension(name="b"),
        registration(1),
        registration(1),
        SetExtension(name="c", value="3"),
    ]
    proposals = tuple(
        Proposal(entry_id=EntryId(UUID(int=number + 1)), transformation=item)
        for number, item in enumerate(asked)
    )
    draft = drafted([Request(proposals)], NOTHING_APPLIED, {}, Stamp("cms-1", 1))
    calls = [
        called(proposal, _answer(answer), at_s=10.0 * number)
        for number, (proposal, answer) in enumerate(zip(proposals, draft.answers[0], strict=True))
    ]
    again = msgspec.structs.replace(calls[1], start_s=100.0, end_s=101.0, cms="cms-2")
    refused_again = msgspec.structs.replace(calls[2], start_s=102.0, end_s=103.0)
    calls[LOST_IS] = msgspec.structs.replace(calls[LOST_IS], answer=Unknown("no answer"))
    metadata = replay(draft.entries[:3]).metadata
    view = component_view(metadata, "extensions")
    read = Read(start_s=31.0, end_s=32.0, cms="cms-3", epoch=3, component="extensions", view=view)
    return History([*calls, again, refused_again], [read]), draft.entries


def called(proposal, answer, *, at_s):
    return Call(
        start_s=at_s,
        end_s=at_s + 1,
        entry_id=proposal.entry_id,
        transformation=proposal.transformation,
        answer=answer,
        cms="cms-1",
    )


def _answer(answer):
    if hasattr(answer, "rejected"):
        return Refused(answer.epoch, answer.rejected.reason.value, answer.rejected.detail)
    return Committed(answer.epoch, answer.hash.hex(), result_json(answer.result))


HISTORY, LOG = made()
CALLS = HISTORY.calls


def rules(history, log=LOG):
    return {found.rule for found in violations(history, log)}


def with_call(number, **changes):
    """The history with one call changed."""
    calls = list(CALLS)
    calls[number] = msgspec.structs.replace(calls[number], **changes)
    return History(calls, HISTORY.reads)


def with_answer(number, **changes):
    return with_call(number, answer=msgspec.structs.replace(CALLS[number].answer, **changes))


def with_read(**changes):
    return History(CALLS, [msgspec.structs.replace(HISTORY.reads[0], **changes)])


def test_a_good_history_passes():
    assert [sealed.epoch for sealed in LOG] == [1, 2, 3, 4, 5, 6]
    assert violations(HISTORY, LOG) == []
    assert violations(History([]), []) == []


def test_what_overlaps_may_go_in_either_order():
    calls = [msgspec.structs.replace(call, start_s=0.0, end_s=200.0) for call in CALLS]
    reads = [msgspec.structs.replace(HISTORY.reads[0], start_s=0.0, end_s=200.0)]
    assert violations(History(calls, reads), LOG) == []


def test_what_began_when_another_ended_was_beside_it():
    calls = [msgspec.structs.replace(call, end_s=300.0 - call.start_s) for call in CALLS]
    assert violations(History(calls), LOG) == []


def test_unanswered_calls_may_come_to_nothing():
    lost = msgspec.structs.replace(CALLS[LOST_IS], entry_id=EntryId(UUID(int=99)))
    assert violations(History([*CALLS, lost], HISTORY.reads), LOG) == []


def test_a_lost_commit_is_found():
    assert Rule.NOT_IN_LOG in rules(HISTORY, LOG[:-1])


@pytest.mark.parametrize("change", [{"epoch": 5}, {"hash": "00"}, {"result": {"node": 7}}])
def test_a_commit_that_is_told_wrongly_is_found(change):
    assert Rule.NOT_IN_LOG in rules(with_answer(1, **change))


def test_a_gap_is_found():
    assert Rule.BROKEN_LOG in rules(HISTORY, LOG[:3] + LOG[4:])


def test_a_changed_entry_is_found():
    """By the chain; and where a forger chained everything anew, by the digest."""
    entry = msgspec.structs.replace(LOG[-1].entry, digest=b"\x00" * 32)
    assert Rule.BROKEN_LOG in rules(HISTORY, [*LOG[:-1], seal(entry, LOG[-2].hash)])
    broken = msgspec.structs.replace(LOG[2], hash=b"\x00" * 32)
    assert Rule.BROKEN_LOG in rules(HISTORY, [*LOG[:2], broken, *LOG[3:]])


def test_an_entry_id_that_is_there_twice_is_found():
    twice = msgspec.structs.replace(LOG[-1].entry, epoch=7)
    assert Rule.TWICE in rules(HISTORY, [*LOG, seal(twice, LOG[-1].hash)])


def test_an_entry_that_nobody_asked_for_is_found():
    assert rules(History(CALLS[:-3] + CALLS[-2:], HISTORY.reads)) == {Rule.NOT_ASKED_FOR}


def test_an_entry_that_says_something_else_is_found():
    other = SetExtension(name="c", value="4")
    assert rules(with_call(7, transformation=other)) == {Rule.NOT_ASKED_FOR}


def test_a_refused_id_in_the_log_is_found():
    changed = with_call(7, answer=Refused(5, "unknown_extension", ""))
    assert Rule.REFUSED_IN_LOG in rules(changed)


def test_two_answers_to_one_id_are_found():
    assert Rule.ANSWERED_UNLIKE in rules(with_answer(9, detail="something else"))
    assert Rule.ANSWERED_UNLIKE in rules(with_call(8, answer=CALLS[2].answer))


def test_two_commits_against_real_time_are_found():
    """The last one claims to have ended before another, of a lower epoch, began."""
    assert rules(with_call(7, start_s=41.0, end_s=42.0)) == {Rule.OUT_OF_ORDER}


def test_an_unanswered_entry_that_overtook_is_found():
    """It was sent first after something newer had been acknowledged."""
    late = with_call(LOST_IS, start_s=78.0, end_s=79.0)
    assert rules(History(late.calls)) == {Rule.OUT_OF_ORDER}


@pytest.mark.parametrize("moved", [{"start_s": 12.0, "end_s": 13.0}, {"start_s": 45.0}])
def test_a_read_from_the_future_or_the_past_is_found(moved):
    """It shows epoch 3: asked for at 30 s, and no longer the newest from 41 s on."""
    assert rules(with_read(**{"end_s": 46.0, **moved})) == {Rule.OUT_OF_ORDER}


def test_a_read_of_something_else_is_found():
    assert rules(with_read(view={"epoch": 3, "extensions": []})) == {Rule.MISREAD}
    assert Rule.MISREAD in rules(with_read(epoch=77))


def test_a_refusal_from_the_past_is_found():
    """It would have been refused at epoch 1, but epoch 2 had been acknowledged before."""
    stale = with_answer(2, epoch=1)
    assert rules(History(stale.calls[:9], HISTORY.reads)) == {Rule.OUT_OF_ORDER}


def test_a_refusal_from_the_future_is_found():
    """It names an epoch that was proposed only after it had been answered."""
    early = with_answer(2, epoch=4)
    assert Rule.OUT_OF_ORDER in rules(History(early.calls[:9], HISTORY.reads))


@pytest.mark.parametrize("change", [{"epoch": 3}, {"epoch": 77}, {"code": "x"}, {"detail": "x"}])
def test_a_refusal_that_does_not_hold_is_found(change):
    assert Rule.UNFOUNDED in rules(with_answer(2, **change))


def test_a_fault_is_found():
    assert Rule.FAULT in rules(with_call(LOST_IS, answer=Fault("500 internal")))
