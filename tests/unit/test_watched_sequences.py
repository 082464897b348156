"""Waiting for a sequence, by number: how it ends is the exit code."""

import json

import pytest

from ringlog.commands import watching
from tests.command import run
from tests.scripted import NOT_FOUND, nodes, scripted

CLEAN = {"RINGLOG_TOKEN": None, "RINGLOG_TOKENS_FILE": None}
PREPARED = {"step": "prepare", "epoch": 42}
VIEW = {
    "id": 42,
    "kind": "join",
    "node": 4,
    "replaced": None,
    "dead": [],
    "due": "retire",
    "taken": [PREPARED, {"step": "cancel", "epoch": 43}],
    "cancelled": True,
    "plans": [],
    "since_s": 1.0,
    "barrier": None,
    "laggards": [],
    "driver": None,
    "progress": None,
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


def test_a_past_epoch_cannot_be_watched(cluster):
    result = run("sequences", "--watch", "--at", "7", "--url", cluster.url, **CLEAN)

    assert result.exit_code == 2
    assert "--at shows a past epoch" in result.output
