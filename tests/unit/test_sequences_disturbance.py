"""What counts as having come in the way of work on the owners of some ranges."""

from __future__ import annotations

import msgspec
import pytest

from metadata.plans import Step
from metadata.sequences import SequenceKind
from metadata.sessions import Purpose
from metadata.tokens import FULL, MINIMUM, Range, Token
from sequences.disturbance import disturbance, holder, rival
from store.ranges import without
from tests.builders import (
    advanced,
    cancelled,
    commit,
    in_step,
    joined_cluster,
    keyspace,
    only_sequence,
    preparation,
)
from transformations.extensions import SetExtension
from transformations.schema import DropTable
from transformations.sessions import CloseSession, Errand, OpenSession

WHOLE = (FULL,)


def before():
    return joined_cluster(4, spare=1)


@pytest.mark.parametrize("kind", [SequenceKind.JOIN, SequenceKind.LEAVE, SequenceKind.MOVE])
def test_a_sequence_disturbs_from_its_beginning_and_after_its_end(kind):
    earlier = before()
    now = commit(earlier, preparation(earlier, kind))
    sequence = only_sequence(now).id
    while now.sequences.in_progress:
        assert holder(now, WHOLE) == sequence
        assert disturbance(earlier, now, WHOLE) == (
            f"sequence {sequence} has begun to move these ranges"
        )
        now = advanced(now, sequence)
    assert holder(now, WHOLE) is None
    assert "the owners of shop.t1 have changed" in (disturbance(earlier, now, WHOLE) or "")
    assert disturbance(now, commit(now, SetExtension(name="x", value="y")), WHOLE) is None


@pytest.mark.parametrize("step", [Step.START, Step.MID])
def test_owners_that_changed_and_came_back_have_changed(step):
    earlier = before()
    now = cancelled(in_step(earlier, SequenceKind.JOIN, step))

    assert "the owners of shop.t1 have changed" in (disturbance(earlier, now, WHOLE) or "")


def test_a_sequence_that_nobody_started_has_copied_nothing():
    earlier = before()
    prepared = in_step(earlier, SequenceKind.JOIN, Step.PREPARE)

    assert disturbance(prepared, cancelled(prepared), WHOLE) is None
    assert disturbance(earlier, cancelled(prepared), WHOLE) is None


def test_what_happens_elsewhere_is_no_disturbance():
    earlier = joined_cluster(7, spare=1)
    now = in_step(earlier, SequenceKind.JOIN, Step.START)
    (lock,) = now.locks.held.values()
    held = lock.by_placement[0].ranges
    clear = without(WHOLE, held)

    assert clear
    assert disturbance(earlier, now, clear) is None
    assert disturbance(earlier, cancelled(now), clear) is None
    assert disturbance(earlier, now, (*clear, held[-1])) is not None


def test_tables_may_come_and_go():
    earlier = before()
    more = commit(earlier, *keyspace(earlier.schema.keyspaces["shop"].replication, name="more"))

    assert disturbance(earlier, more, WHOLE) is None
    assert disturbance(more, commit(more, DropTable(keyspace="more", name="t1")), WHOLE) is None


def test_another_repair_of_the_same_ranges_is_a_rival():
    low, high = Range(MINIMUM, Token(0)), Range(Token(0), MINIMUM)

    def opened(metadata, *ranges, purpose=Errand.REPAIR):
        nodes = tuple(metadata.directory.nodes)
        return commit(metadata, OpenSession(purpose=purpose, nodes=nodes, ranges=ranges))

    one = opened(before(), low)
    (session,) = one.sessions.open.values()
    assert session.purpose is Purpose.REPAIR
    assert rival(one, session) is None
    assert rival(opened(one, low, purpose=Errand.CLEANUP), session) is None
    assert rival(opened(one, high), session) is None
    two = opened(one, *WHOLE)
    other = rival(two, session)
    assert other is not None
    assert other.id == two.epoch
    assert rival(commit(two, CloseSession(session=other.id)), session) is None
    assert rival(two, msgspec.structs.replace(other, ranges=(high,))) is None
