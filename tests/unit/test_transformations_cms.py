"""The address book of the metadata service changes one member at a time."""

from __future__ import annotations

import pytest

from metadata.cms import MemberState
from tests.builders import accepted, commit, founded, rejected
from transformations.cms import (
    AdvanceCmsReconfiguration,
    CancelCmsReconfiguration,
    NewMember,
    PrepareCmsReconfiguration,
)
from transformations.kinds import execute
from transformations.outcome import Reason


def prepare(add=(), remove=()):
    members = tuple(NewMember(name, f"http://{name}:1") for name in add)
    return PrepareCmsReconfiguration(add=members, remove=remove)


def running(metadata):
    return metadata.cms.reconfiguration


def advance(metadata, steps=1):
    for _ in range(steps):
        metadata = commit(metadata, AdvanceCmsReconfiguration(sequence=running(metadata).id))
    return metadata


def service(*names):
    """These are members, by a reconfiguration of two steps each."""
    return advance(commit(founded(), prepare(add=names)), 2 * len(names))


def states(metadata):
    return {name: member.state for name, member in metadata.cms.members.items()}


JOINING, ACTIVE = MemberState.JOINING, MemberState.ACTIVE


def test_preparing_changes_no_member():
    before = service("a")

    outcome = accepted(execute(prepare(add=["b"], remove=("a",)), before))

    planned = running(outcome.after)
    assert outcome.result.sequence == planned.id == planned.epoch == outcome.after.epoch
    assert states(outcome.after) == {"a": ACTIVE}
    assert planned.index == 0


def test_a_member_is_joining_before_it_is_active():
    before = commit(founded(), prepare(add=["a"]))

    joining = advance(before)
    active = advance(joining)

    assert states(joining) == {"a": JOINING}
    assert states(active) == {"a": ACTIVE}
    assert active.cms.members["a"].url == "http://a:1"
    assert running(active) is None


def test_adds_first_and_one_at_a_time():
    """The service never shrinks below what it needs to grow."""
    before = commit(service("a", "b"), prepare(add=["c", "d"], remove=("a", "b")))

    seen = []
    while running(before) is not None:
        before = advance(before)
        seen.append(states(before))

    both = {"a": ACTIVE, "b": ACTIVE}
    assert seen == [
        both | {"c": JOINING},
        both | {"c": ACTIVE},
        both | {"c": ACTIVE, "d": JOINING},
        both | {"c": ACTIVE, "d": ACTIVE},
        {"b": ACTIVE, "c": ACTIVE, "d": ACTIVE},
        {"c": ACTIVE, "d": ACTIVE},
    ]


def test_counts_the_steps_taken():
    before = commit(service("a"), prepare(add=["b"], remove=("a",)))

    indexes = [running(before).index]
    for _ in range(2):
        before = advance(before)
        indexes.append(running(before).index)

    assert indexes == [0, 1, 2]


def test_two_drivers_do_not_take_two_steps():
    before = commit(founded(), prepare(add=["a"]))
    step = AdvanceCmsReconfiguration(sequence=running(before).id, step=0)

    once = commit(before, step)
    refused = rejected(execute(step, once), Reason.WRONG_STEP)

    assert refused.sequence == running(once).id
    assert refused.remedy == "advance step 1"
    commit(once, AdvanceCmsReconfiguration(sequence=running(once).id, step=1))


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_cancel_drops_the_half_added_and_keeps_the_rest(steps):
    before = advance(commit(service("a"), prepare(add=["b", "c"], remove=("a",))), steps)

    after = commit(before, CancelCmsReconfiguration(sequence=running(before).id))

    assert running(after) is None
    expected = {"a": ACTIVE} | ({"b": ACTIVE} if steps >= 2 else {})
    assert states(after) == expected


def test_cancel_brings_nobody_back():
    before = advance(commit(service("a", "b", "c"), prepare(remove=("a", "b"))))

    after = commit(before, CancelCmsReconfiguration(sequence=running(before).id))

    assert states(after) == {"b": ACTIVE, "c": ACTIVE}


@pytest.mark.parametrize(
    ("transformation", "reason"),
    [
        (prepare(), Reason.NOTHING_TO_DO),
        (prepare(add=["a"]), Reason.MEMBER_EXISTS),
        (prepare(add=["b", "b"]), Reason.MEMBER_EXISTS),
        (prepare(remove=("b",)), Reason.UNKNOWN_MEMBER),
        (prepare(add=["b"], remove=("a", "a")), Reason.UNKNOWN_MEMBER),
        (prepare(add=["b"], remove=("b",)), Reason.UNKNOWN_MEMBER),
        (prepare(remove=("a",)), Reason.LAST_MEMBER),
    ],
)
def test_refuses(transformation, reason):
    rejected(execute(transformation, service("a")), reason)


def test_one_reconfiguration_at_a_time():
    before = commit(service("a"), prepare(add=["b"]))

    refused = rejected(execute(prepare(add=["c"]), before), Reason.SEQUENCE_IN_PROGRESS)

    assert refused.sequence == running(before).id
    assert refused.remedy == f"advance or cancel reconfiguration {refused.sequence}"


@pytest.mark.parametrize("kind", [AdvanceCmsReconfiguration, CancelCmsReconfiguration])
def test_refuses_a_reconfiguration_that_is_not_in_progress(kind):
    idle = service("a")
    busy = commit(idle, prepare(add=["b"]))

    rejected(execute(kind(sequence=1), idle), Reason.UNKNOWN_SEQUENCE)
    rejected(execute(kind(sequence=1), busy), Reason.UNKNOWN_SEQUENCE)


def test_touches_the_address_book_alone():
    before = commit(founded(), prepare(add=["a"]))

    after = advance(before)

    changed = {name for name, item in after.components() if item.epoch == after.epoch}
    assert changed == {"cms"}
