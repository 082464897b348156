"""Work outside the log is allowed, refused and ended by entries; and values by name."""

from __future__ import annotations

import pytest

from metadata.directory import NodeId
from metadata.plans import Step
from metadata.schema import Simple
from metadata.sequences import SequenceKind
from metadata.sessions import Purpose, SessionId
from metadata.tokens import FULL, MAXIMUM, MINIMUM, Range, Token
from tests.builders import (
    accepted,
    commit,
    founded,
    in_step,
    joined_cluster,
    only_sequence,
    rejected,
)
from transformations.extensions import ClearExtension, SetExtension
from transformations.join import PrepareJoin, UnsafeJoin
from transformations.kinds import execute
from transformations.leave import PrepareLeave
from transformations.outcome import Reason
from transformations.sessions import CloseSession, Errand, OpenSession


def open_session(*nodes, ranges=(FULL,), purpose=Errand.CLEANUP):
    return OpenSession(purpose=purpose, nodes=tuple(map(NodeId, nodes)), ranges=tuple(ranges))


def close(metadata):
    (session,) = metadata.sessions.open
    return CloseSession(session=session)


@pytest.mark.parametrize("purpose", Errand)
def test_opens_a_session_named_by_its_epoch(purpose):
    ranges = (Range(Token(5), Token(9)), Range(Token(1), Token(3)), Range(Token(3), Token(5)))

    outcome = accepted(
        execute(open_session(2, 1, 2, ranges=ranges, purpose=purpose), joined_cluster())
    )

    (session,) = outcome.after.sessions.open.values()
    assert session.id == outcome.result.session == outcome.after.epoch
    assert session.purpose is Purpose(purpose)
    assert session.nodes == (1, 2)
    assert session.ranges == (Range(Token(1), Token(9)),)
    assert session.sequence is None


def test_closes_a_session():
    before = commit(joined_cluster(), open_session(1))

    after = commit(before, close(before))

    assert len(after.sessions.open) == 0
    rejected(execute(close(before), after), Reason.UNKNOWN_SESSION)


@pytest.mark.parametrize(
    ("transformation", "reason"),
    [
        (open_session(9), Reason.UNKNOWN_NODE),
        (open_session(), Reason.NOTHING_TO_DO),
        (open_session(1, ranges=()), Reason.NOTHING_TO_DO),
        (CloseSession(session=SessionId(3)), Reason.UNKNOWN_SESSION),
    ],
)
def test_refuses(transformation, reason):
    rejected(execute(transformation, joined_cluster()), reason)


def test_the_session_of_a_sequence_is_closed_by_the_sequence():
    before = in_step(joined_cluster(nodes=4, spare=1), SequenceKind.JOIN, Step.START)

    refused = rejected(execute(close(before), before), Reason.SESSION_HELD)

    assert refused.sequence == only_sequence(before).id
    assert refused.remedy == f"cancel sequence {refused.sequence}, or let it go on"


def join(*tokens):
    return PrepareJoin(node=NodeId(4), tokens=tuple(map(Token, tokens)))


def cleaning(*ranges, node=4, purpose=Errand.CLEANUP):
    """Node 4 once owned these and is deleting what it has of them."""
    before = joined_cluster(nodes=3, replication=Simple(1), spare=1, tables=0)
    return commit(before, open_session(node, ranges=ranges, purpose=purpose))


def test_no_range_comes_back_while_it_is_cleaned_up():
    before = cleaning(Range(Token(120), Token(130)))
    (session,) = before.sessions.open

    refused = rejected(execute(join(150), before), Reason.CLEANUP_OPEN)

    assert refused.detail == "node 4 is cleaning up (100, 150], which it would get back"
    assert [str(span) for span in refused.ranges] == ["(100, 150]"]
    assert refused.remedy == (
        f"wait until session {session} is closed; if node 4 is gone, remove or replace it first"
    )
    commit(before, close(before), join(150))


def test_no_range_comes_back_in_one_epoch_either():
    before = cleaning(Range(Token(120), Token(130)))

    rejected(execute(UnsafeJoin(node=NodeId(4), tokens=(Token(150),)), before), Reason.CLEANUP_OPEN)


@pytest.mark.parametrize(
    "metadata",
    [
        cleaning(Range(Token(150), Token(300))),
        cleaning(Range(Token(120), Token(130)), node=3),
        cleaning(Range(Token(120), Token(130)), purpose=Errand.REPAIR),
        cleaning(Range(Token(MINIMUM), Token(100)), Range(Token(400), Token(MAXIMUM))),
    ],
    ids=["another range", "another node", "a repair", "ranges around it"],
)
def test_other_sessions_are_in_nobodys_way(metadata):
    commit(metadata, join(150))


def test_a_successor_that_cleans_up_is_in_the_way_of_a_leave():
    before = commit(joined_cluster(nodes=5), open_session(4, ranges=[Range(Token(90), Token(95))]))

    refused = rejected(execute(PrepareLeave(node=NodeId(1)), before), Reason.CLEANUP_OPEN)

    assert "node 4" in refused.detail


def test_a_session_may_open_while_a_sequence_moves():
    before = in_step(joined_cluster(nodes=4, spare=1), SequenceKind.JOIN, Step.START)

    after = commit(before, open_session(1, purpose=Errand.REPAIR))

    assert len(after.sessions.open) == 2


def test_keeps_a_value_by_name():
    outcome = accepted(execute(SetExtension(name="team/limit", value="3"), founded()))

    kept = outcome.after.extensions.by_name["team/limit"]
    assert (kept.value, kept.epoch) == ("3", outcome.after.epoch)


def test_the_last_value_counts():
    before = commit(founded(), SetExtension(name="a", value="1"), SetExtension(name="b", value="2"))

    after = commit(before, SetExtension(name="a", value="3"))

    values = {name: item.value for name, item in after.extensions.by_name.items()}
    assert values == {"a": "3", "b": "2"}


def test_forgets_a_value():
    before = commit(founded(), SetExtension(name="a", value="1"))

    after = commit(before, ClearExtension(name="a"))

    assert "a" not in after.extensions.by_name


def test_refuses_to_forget_what_is_not_there():
    rejected(execute(ClearExtension(name="a"), founded()), Reason.UNKNOWN_EXTENSION)
