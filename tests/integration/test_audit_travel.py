"""Any epoch of a history: what it was, what differs, who did it, why, and since when."""

from __future__ import annotations

import os

import pytest

from audit import subjects
from audit.bisect import first_true, first_true_monotonic
from audit.blame import blamed
from audit.expressions import parse
from audit.history import UnknownEpochError, metadata_at
from audit.travel import UnknownSubjectError, compared, owners, shown, token_named
from audit.why import Asked, why
from encoding.key_texts import KeyTextError
from encoding.views import component_view, metadata_view
from log.replay import NOTHING_APPLIED, replayed
from metadata.cluster import COMPONENTS
from metadata.directory import NodeId
from metadata.epoch import EMPTY, Epoch
from metadata.tokens import MAXIMUM, MINIMUM, Range, Token
from tests.golden.history import history as golden
from tests.histories import MemoryHistory, kept, simulated

DRAWN = int(os.environ["SIMULATION_SEED"])
ENTRIES = golden().entries
LENGTH = len(ENTRIES)
VERSIONS = [NOTHING_APPLIED.metadata, *(item.metadata for item in replayed(ENTRIES))]
GOLDEN = kept(ENTRIES, every=10)


@pytest.mark.parametrize("at", [0, 1, 9, 10, 11, 37, LENGTH])
def test_any_epoch_is_shown_as_it_was(at):
    assert shown(GOLDEN, None, Epoch(at)) == metadata_view(VERSIONS[at])
    for name in COMPONENTS:
        assert shown(GOLDEN, name, Epoch(at)) == component_view(VERSIONS[at], name)


def test_an_unusable_snapshot_is_stepped_over():
    damaged = kept(ENTRIES, every=10)
    damaged.images[Epoch(40)] = b"\x00"

    assert metadata_at(damaged, Epoch(45)).metadata == VERSIONS[45]


@pytest.mark.parametrize("at", [-1, LENGTH + 1])
def test_an_epoch_that_is_not_there_is_refused(at):
    with pytest.raises(UnknownEpochError, match=f"it ends at {LENGTH}"):
        shown(GOLDEN, "cluster", Epoch(at))


def test_differences_go_both_ways():
    there = compared(GOLDEN, Epoch(25), Epoch(26))
    back = compared(GOLDEN, Epoch(26), Epoch(25))

    assert there["sequences"].removed == back["sequences"].added
    assert there["locks"].removed == back["locks"].added
    assert compared(GOLDEN, Epoch(9), Epoch(9)) == {}


def test_owners_of_a_key_and_of_a_token():
    metadata = VERSIONS[LENGTH]
    token = token_named(metadata, "shop", key="5")

    view = owners(metadata, "shop", token)

    assert view["token"] == str(token)
    assert view["readers"][0] == metadata.ring.primary_of(token)
    assert owners(metadata, "shop", token_named(metadata, "shop", token=int(token))) == view


@pytest.mark.parametrize(
    ("ask", "error", "said"),
    [
        (lambda: token_named(VERSIONS[9], "shop", token=1), UnknownSubjectError, "no keyspace"),
        (lambda: token_named(VERSIONS[-1], "shop", token=2**63), UnknownSubjectError, "64 bits"),
        (lambda: token_named(VERSIONS[-1], "shop", key="x"), KeyTextError, "not valid"),
        (
            lambda: token_named(VERSIONS[-1], "shop", key="1", table="t"),
            KeyTextError,
            "There is no table t.",
        ),
    ],
)
def test_what_cannot_be_asked_is_a_sentence(ask, error, said):
    with pytest.raises(error, match=said):
        ask()


def brute_force(entries, subject, at):
    """The last change, by looking at every version."""
    before, last = subject.shown(NOTHING_APPLIED.metadata), None
    for applied in replayed(entries[:at]):
        after = subject.shown(applied.metadata)
        if after != before:
            last = applied.metadata.epoch
        before = after
    return last


SUBJECTS = [
    *(subjects.node(number) for number in (1, 2, 3, 4, 5, 9)),
    *(subjects.token("shop", Token(place)) for place in (42, -2999, MINIMUM, MAXIMUM)),
    subjects.token("logs", Token(42)),
    subjects.token("nowhere", Token(42)),
    subjects.span("shop", Range(Token(-500), Token(2600))),
    subjects.span("nowhere", Range(Token(-500), Token(2600))),
    subjects.keyspace("shop"),
    subjects.keyspace("logs"),
    subjects.table("shop", "orders"),
    subjects.table("logs", "clicks"),
    subjects.extension("note"),
    subjects.extension("owner/team"),
    subjects.member("cms1"),
    subjects.member("cms2"),
    subjects.tokens_of(2),
]


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
@pytest.mark.parametrize("every", [0, 7])
@pytest.mark.parametrize("at", [20, 45, LENGTH])
def test_blame_finds_what_looking_everywhere_finds(subject, every, at):
    found = blamed(kept(ENTRIES, every=every), subject, Epoch(at))

    assert (found and found.entry.epoch) == brute_force(ENTRIES, subject, at)


@pytest.mark.parametrize("seed", [4, 19, DRAWN])
def test_blame_is_right_in_simulated_histories(seed):
    print(f"seed {seed}")
    entries = simulated(seed, steps=120).entries
    history = kept(entries, every=25)
    keyspaces = list(metadata_at(history, history.tip.epoch).metadata.schema.keyspaces)
    asked = [subjects.node(1), subjects.node(3)]
    asked += [subjects.token(name, Token(place)) for name in keyspaces for place in (0, 2**62)]
    for subject in asked:
        found = blamed(history, subject, history.tip.epoch)
        assert (found and found.entry.epoch) == brute_force(entries, subject, len(entries))


def test_blame_tells_both_sides_and_who():
    found = blamed(GOLDEN, subjects.extension("note"), Epoch(LENGTH))

    assert found is not None
    assert found.before is None
    assert found.after == {"value": "", "epoch": found.entry.epoch}


def test_snapshots_spare_blame_the_way_from_the_beginning():
    asked = []

    class Watched(MemoryHistory):
        def entries(self, after, up_to):
            asked.append((after, up_to))
            return super().entries(after, up_to)

    watched = Watched(ENTRIES, GOLDEN.images)
    blamed(watched, subjects.token("shop", Token(42)), Epoch(LENGTH))

    assert all(after >= 60 for after, _ in asked), asked


def test_why_tells_the_whole_way_to_an_owner():
    """Node 5 replaced node 3, and so came to own token 42."""
    links = why(GOLDEN, Asked(keyspace="shop", token=Token(42), node=NodeId(5), at=Epoch(LENGTH)))

    kinds = [link.entry.kind for link in links]
    assert [link.entry.epoch for link in links] == sorted(link.entry.epoch for link in links)
    assert kinds[0] == "Register"
    assert {"CreateKeyspace", "PrepareReplace", "StartReplace", "FinishReplace"} <= set(kinds)
    parts = " ".join(link.part for link in links)
    assert "node 5 reads token 42 of shop" in parts
    assert "node 5 writes token 42 of shop" in parts


def test_why_asks_only_about_owners():
    with pytest.raises(UnknownSubjectError, match="its owners are"):
        why(GOLDEN, Asked(keyspace="shop", token=Token(42), node=NodeId(7), at=Epoch(LENGTH)))


EXPRESSIONS = [
    'count(n for n in nodes if n.state == "joined") >= 4',
    'node(1).state == "left"',
    "len(sequences) > 0",
    "len(sequences) == 0",
    "epoch >= 33",
    'extensions["note"] == ""',
    'extension("owner/team") is not None',
    '5 in readers("shop", 42)',
    'len(writers("shop", 42)) > len(readers("shop", 42))',
    'keyspace("logs") is None and len(keyspaces) > 0',
    'any(m.name == "cms2" for m in cms)',
    "len(nodes) > 100",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
@pytest.mark.parametrize("every", [0, 3, 10])
@pytest.mark.parametrize("after", [0, 10, 26])
def test_bisect_finds_the_first_epoch_at_which_it_is_true(text, every, after):
    expression = parse(text)
    wanted = next(
        (epoch for epoch in range(after + 1, LENGTH + 1) if expression.holds(VERSIONS[epoch])),
        None,
    )
    history = kept(ENTRIES, every=every)

    found = first_true(history, expression, after=Epoch(after), up_to=Epoch(LENGTH))

    assert found == wanted


@pytest.mark.parametrize("text", ["epoch >= 33", "len(nodes) >= 7", "len(nodes) > 100"])
@pytest.mark.parametrize("every", [0, 10])
def test_what_stays_true_is_found_by_halving(text, every):
    expression, history = parse(text), kept(ENTRIES, every=every)
    looked: list[Epoch] = []

    found = first_true_monotonic(
        history, expression, up_to=Epoch(LENGTH - 20), progress=looked.append
    )

    assert found == first_true(history, expression, up_to=Epoch(LENGTH - 20))
    assert len(looked) <= 8


def test_stretches_in_which_nothing_asked_about_changed_are_not_replayed():
    asked = []

    class Watched(MemoryHistory):
        def entries(self, after, up_to):
            asked.append((after, up_to))
            return super().entries(after, up_to)

    watched = Watched(ENTRIES, GOLDEN.images)
    found = first_true(watched, parse('extensions["note"] == ""'), up_to=Epoch(LENGTH))

    assert found is not None
    assert asked == [(EMPTY, EMPTY), (Epoch(50), Epoch(60))]
