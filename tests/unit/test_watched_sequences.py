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
