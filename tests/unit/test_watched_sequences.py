"""Waiting for a sequence, by number: how it ends is the exit code."""

import json

import pytest

from ringlog.commands import asking, watching
from tests.command import run
from tests.scripted import JOINING, NOT_FOUND, nodes, scripted

CLEAN = {"RINGLOG_TOKEN": None, "RINGLOG_TOKENS_FILE": None}
PREPARED = {"step": "prepare", "epoch": 42}
VIEW = {
    **JOINING,
    "due": "retire",
    "taken": [PREPARED, {"step": "cancel", "epoch": 43}],
    "cancelled": True,
}


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(watching, "POLL_S", 0.01)
    with scripted() as server:
        server.answers["GET /v1/nodes"] = nodes(server, 4)
        yield server


def seen_once(cluster, view):
    """The sequence is there when it is first looked for, and then it has turned back."""
    answers = iter([view])
    cluster.answers["GET /v1/sequences/42"] = lambda _: next(answers, NOT_FOUND)
    entries = [
        {"epoch": epoch, "transformation": {"kind": kind, "sequence": 42}}
        for epoch, kind in ((43, "CancelSequence"), (44, "RetireSequence"))
    ]
    cluster.answers["GET /v1/log"] = lambda _: {"entries": entries}


def test_who_waits_for_a_sequence_that_turns_back_has_waited_for_that(cluster):
    seen_once(cluster, VIEW)

    result = run("resume", "42", "--url", cluster.url, "--json", **CLEAN)

    assert result.exit_code == 0, result.output
    ending = json.loads(result.output)
    assert (ending["outcome"], ending["epoch"]) == ("cancelled", 44)


def test_who_waits_for_a_sequence_that_is_then_cancelled_has_waited_in_vain(cluster):
    going = {**VIEW, "cancelled": False, "due": "mid", "taken": [PREPARED]}
    seen_once(cluster, going)

    result = run("resume", "42", "--url", cluster.url, **CLEAN)

    assert result.exit_code == 1
    assert "Sequence 42 was cancelled: `ringlog log` says by whom." in result.output


def test_only_a_sequence_that_is_there_can_be_watched(cluster):
    cluster.answers["GET /v1/sequences"] = lambda _: {"epoch": 50, "sequences": []}

    result = run("sequences", "99999", "--watch", "--url", cluster.url, **CLEAN)

    assert result.exit_code == 2
    assert "There is nothing at this path." in result.output


def test_a_watched_sequence_is_shown_until_it_is_gone(cluster):
    answers = iter([[{**VIEW, "cancelled": False}]])
    cluster.answers["GET /v1/sequences/42"] = lambda _: VIEW
    cluster.answers["GET /v1/sequences"] = lambda _: {
        "epoch": 50,
        "sequences": next(answers, []),
    }

    result = run("sequences", "42", "--watch", "--url", cluster.url, **CLEAN)

    assert result.exit_code == 0
    assert "sequence 42: join of node 4" in result.output


def test_a_watch_outlasts_a_cms_that_is_away_for_a_while(cluster, monkeypatch):
    monkeypatch.setattr(asking, "DEADLINE_S", 0.1)
    cluster.answers["GET /v1/sequences/42"] = lambda _: VIEW
    away = {"status": 503, "code": "unavailable", "detail": "The log cannot be reached."}
    said = iter([{"epoch": 43, "sequences": [VIEW]}, *[away] * 20])
    cluster.answers["GET /v1/sequences"] = lambda _: next(said, {"epoch": 44, "sequences": []})

    result = run("sequences", "42", "--watch", "--url", cluster.url, **CLEAN)

    assert result.exit_code == 0, result.output
    assert next(said, None) is None


def test_a_past_epoch_cannot_be_watched(cluster):
    result = run("sequences", "--watch", "--at", "7", "--url", cluster.url, **CLEAN)

    assert result.exit_code == 2
    assert "--at shows a past epoch" in result.output


def over(cluster, *kinds):
    """A sequence of the past: what the log has of it."""
    cluster.answers["GET /v1/log/42"] = lambda _: {
        "epoch": 42,
        "transformation": {"kind": "PrepareJoin", "node": 4},
    }
    entries = [
        {"epoch": epoch, "transformation": {"kind": kind, "sequence": 42}}
        for epoch, kind in enumerate(kinds, 43)
    ]
    cluster.answers["GET /v1/log"] = lambda _: {"entries": entries}


def test_who_waits_for_a_sequence_that_was_quicker_has_waited_for_it(cluster):
    over(cluster, "StartJoin", "MidJoin", "FinishJoin", "RetireSequence")

    said = run("resume", "42", "--url", cluster.url, **CLEAN)
    result = run("resume", "42", "--url", cluster.url, "--json", **CLEAN)

    assert (said.exit_code, result.exit_code) == (0, 0), said.output
    assert said.output.startswith("finished: join of node 4 at epoch 46 (prepare 42, start 43")
    ending = json.loads(result.output)
    assert (ending["outcome"], ending["kind"], ending["epoch"]) == ("finished", "join", 46)
    assert ending["taken"][0] == PREPARED


@pytest.mark.parametrize(
    ("verb", "kinds", "fate"),
    [
        ("resume", ("CancelSequence", "RetireSequence"), "it was cancelled at epoch 44."),
        ("cancel", ("CancelSequence", "RetireSequence"), "it was cancelled at epoch 44."),
        ("cancel", ("FinishJoin", "RetireSequence"), "it finished at epoch 44."),
    ],
)
def test_of_a_sequence_that_is_over_it_is_said_how_it_ended(cluster, verb, kinds, fate):
    over(cluster, *kinds)

    result = run(verb, "42", "--url", cluster.url, **CLEAN)

    assert (result.exit_code, result.output) == (1, f"No sequence 42 is in progress: {fate}\n")


@pytest.mark.parametrize("verb", ["resume", "cancel"])
@pytest.mark.parametrize("kind", [None, "CreateKeyspace", "PrepareCmsReconfiguration"])
def test_of_an_epoch_that_began_no_sequence_nothing_is_told(cluster, verb, kind):
    if kind is not None:
        cluster.answers["GET /v1/log/42"] = lambda _: {"transformation": {"kind": kind}}

    result = run(verb, "42", "--url", cluster.url, **CLEAN)

    assert result.exit_code == 1
    assert "`ringlog sequences` lists those that are." in result.output
