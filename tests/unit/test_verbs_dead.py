"""A node that is declared dead is neither waited for nor read from, so it had better be."""

import pytest

from tests.command import run
from tests.scripted import nodes, scripted

CLEAN = {"RINGLOG_TOKEN": None, "RINGLOG_TOKENS_FILE": None}
WARNING = "warning: node 4 reports to the CMS, and nobody waits for it any more: end its process."
VIEW = {
    "id": 42,
    "kind": "leave",
    "node": 4,
    "replaced": None,
    "dead": [],
    "due": "mid",
    "taken": [{"step": "prepare", "epoch": 42}],
    "cancelled": False,
    "plans": [],
}


@pytest.fixture
def cluster():
    with scripted() as server:
        server.answers["GET /v1/nodes"] = nodes(server, 4)
        server.answers["GET /v1/sequences/42"] = lambda _: VIEW
        server.answers["POST /v1/commit"] = lambda body: {
            "epoch": 43,
            "entry_id": body["entry_id"],
            "result": {"sequence": 43},
            "hash": "00" * 32,
            "entries": [],
        }
        yield server


@pytest.mark.parametrize("words", [("leave", "4"), ("cancel", "42")])
def test_of_a_node_that_is_declared_dead_and_reports_the_operator_is_told(cluster, words):
    result = run(*words, "--dead", "4", "--no-wait", "--url", cluster.url, **CLEAN)

    assert result.exit_code == 0, result.output
    assert WARNING in result.output.splitlines()


@pytest.mark.parametrize("words", [("leave", "4"), ("cancel", "42")])
def test_without_it_there_is_nothing_to_tell(cluster, words):
    result = run(*words, "--no-wait", "--url", cluster.url, **CLEAN)

    assert result.exit_code == 0, result.output
    assert "warning" not in result.output
