"""The address book of the CMS follows the processes that run, whatever was begun before."""

import asyncio

import msgspec
import pytest

from client.answers import Rejected
from encoding.views import component_view
from services.local.failure import LocalServerError
from services.local.membership import COMPONENT, Book, agree, due, member_names
from tests.builders import commit, founded
from transformations.cms import (
    AdvanceCmsReconfiguration,
    CancelCmsReconfiguration,
    NewMember,
    PrepareCmsReconfiguration,
)
from transformations.kinds import execute
from transformations.outcome import Accepted

ONE = {"cms_1": "http://127.0.0.1:1"}
TWO = {**ONE, "cms_2": "http://127.0.0.1:2"}
THREE = {**TWO, "cms_3": "http://127.0.0.1:3"}
STEPS_MAX = 40


def book_of(metadata):
    return msgspec.convert(component_view(metadata, COMPONENT), Book)


def next_step(metadata, wanted):
    return due(book_of(metadata), wanted)


def agree_in(log, wanted):
    asyncio.run(agree(log, wanted, actor="test"))


def members_of(metadata):
    return {name: member.url for name, member in metadata.cms.members.items()}


def agreed(metadata, wanted):
    """All that is due, committed; the book is never empty once it had a member."""
    kinds: list[str] = []
    for _ in range(STEPS_MAX):
        step = next_step(metadata, wanted)
        if step is None:
            return metadata, kinds
        had = bool(metadata.cms.members)
        metadata = commit(metadata, step)
        assert metadata.cms.members or not had
        kinds.append(type(step).__name__)
    raise AssertionError(kinds)


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ({}, ONE),
        ({}, THREE),
        (ONE, THREE),
        (THREE, ONE),
        (ONE, {"cms_1": "http://127.0.0.1:9"}),
        (THREE, {name: f"{url}9" for name, url in THREE.items()}),
        (TWO, {**ONE, "cms_2": "http://127.0.0.1:9"}),
        (TWO, {"cms_2": "http://127.0.0.1:1", "cms_1": "http://127.0.0.1:2"}),
        (THREE, {"other": "http://127.0.0.1:7"}),
    ],
)
def test_the_book_becomes_what_runs(before, wanted):
    metadata = founded()
    if before:
        metadata, _ = agreed(metadata, before)

    metadata, _ = agreed(metadata, wanted)

    assert members_of(metadata) == wanted
    assert metadata.cms.reconfiguration is None


def test_nothing_is_committed_where_nothing_changed():
    metadata, _ = agreed(founded(), TWO)

    assert agreed(metadata, TWO)[1] == []


def prepared(metadata, add, remove=()):
    members = tuple(NewMember(name, url) for name, url in add.items())
    return commit(metadata, PrepareCmsReconfiguration(add=members, remove=remove))


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_an_unfinished_one_is_gone_on_with(steps):
    metadata = prepared(founded(), TWO)
    for _ in range(steps):
        metadata = commit(metadata, next_step(metadata, TWO))

    metadata, kinds = agreed(metadata, TWO)

    assert members_of(metadata) == TWO
    assert kinds == ["AdvanceCmsReconfiguration"] * (4 - steps)


def test_one_that_leads_to_nobody_is_cancelled():
    """As after a start that died and whose port is somebody else's by now."""
    metadata, _ = agreed(founded(), ONE)
    gone = {"cms_2": "http://127.0.0.1:99"}
    metadata = prepared(metadata, gone)
    metadata = commit(metadata, next_step(metadata, {**ONE, **gone}))
    assert "cms_2" in metadata.cms.members

    assert isinstance(next_step(metadata, TWO), CancelCmsReconfiguration)
    metadata, _ = agreed(metadata, TWO)
    assert members_of(metadata) == TWO


def test_one_that_takes_away_who_serves_is_cancelled():
    metadata, _ = agreed(founded(), TWO)
    metadata = prepared(metadata, {}, remove=("cms_2",))

    assert isinstance(next_step(metadata, TWO), CancelCmsReconfiguration)
    assert isinstance(next_step(metadata, ONE), AdvanceCmsReconfiguration)


def test_a_step_is_named_so_that_two_do_not_take_it_twice():
    metadata = prepared(founded(), ONE)

    assert next_step(metadata, ONE).step == 0
    assert next_step(commit(metadata, next_step(metadata, ONE)), ONE).step == 1


def test_process_names_become_member_names():
    assert member_names({"cms-1": "http://127.0.0.1:1"}) == ONE


def nobody(_metadata):
    return None


class Log:
    """What a client shows and commits, without a server; `others` commits before each of ours."""

    def __init__(self, metadata, others=nobody):
        self.metadata = metadata
        self._others = others

    async def component(self, name):
        return component_view(self.metadata, name)

    async def commit(self, transformation, *, actor):
        assert actor == "test"
        theirs = self._others(self.metadata)
        if theirs is not None:
            self.metadata = commit(self.metadata, theirs)
        outcome = execute(transformation, self.metadata)
        if isinstance(outcome, Accepted):
            self.metadata = outcome.after
            return None
        return Rejected(code=outcome.reason.value, detail=outcome.detail)


def test_somebody_who_advances_as_well_is_no_failure():
    def advance(metadata):
        return next_step(metadata, TWO)

    log = Log(founded(), advance)

    agree_in(log, TWO)

    assert members_of(log.metadata) == TWO


class Closed(Log):
    async def commit(self, _transformation, *, actor):
        return Rejected(code="forbidden", detail=f"not {actor}")


def test_a_refusal_that_nobody_can_mend_is_a_sentence():
    with pytest.raises(LocalServerError, match="cannot be listed: not test"):
        agree_in(Closed(founded()), ONE)
