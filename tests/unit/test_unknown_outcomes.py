"""Where nobody knows whether something was done, the command says so, and how to learn it."""

import shlex

import pytest

from ringlog.commands import asking
from ringlog.commands.finding import Found
from tests.command import run
from tests.scripted import nodes, scripted

UNKNOWN = {"status": 503, "code": "unknown", "detail": "the log does not answer"}
WRITE_UNKNOWN = {"status": 503, "code": "write_unknown", "detail": "Some may have the write."}
ROW = "/v1/tables/shop/orders/rows/1"
TABLE = {
    "keyspace": "shop",
    "name": "orders",
    "partition_key": ["id"],
    "columns": [{"name": "id", "type": "bigint"}],
}
CLEAN = {"RINGLOG_TOKEN": None, "RINGLOG_TOKENS_FILE": None}


def committed(body):
    said = {"entry_id": body["entry_id"], "hash": "ab" * 32, "entries": []}
    return {"epoch": 42, "result": {"sequence": 42}, **said}


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(asking, "COMMIT_DEADLINE_S", 0.3)
    monkeypatch.setitem(Found.maker.__kwdefaults__, "deadline_s", 0.3)
    with scripted() as server:
        schema = {"keyspaces": [{"name": "shop", "tables": [TABLE]}]}
        server.answers["GET /v1/metadata/schema"] = lambda _: schema
        server.answers["GET /v1/nodes"] = nodes(server, 4)
        yield server


@pytest.mark.parametrize(
    "words",
    [
        ("join", "4", "--tokens", "7,", "--reason", "more room"),
        ("leave", "4", "--actor", "ada"),
        ("commit", "SetExtension", "name=motd", "value=it's late"),
    ],
)
def test_an_unknown_commit_comes_with_the_command_that_makes_it_once(cluster, words):
    sent = []

    def doubt(body):
        sent.append(body)
        return UNKNOWN

    def decision(body):
        sent.append(body)
        return committed(body)

    cluster.answers["POST /v1/commit"] = doubt
    result = run(*words, "--url", cluster.url, **CLEAN)

    assert result.exit_code == 3
    assert "not known whether the commit was made" in result.output
    assert "the log does not answer" in result.output
    assert "`ringlog log`" in result.output
    assert "ringlog up" not in result.output

    cluster.answers["POST /v1/commit"] = decision
    again = shlex.split(result.output.strip().splitlines()[-1])
    assert again[0] == "ringlog"
    repeated = run(*again[1:], "--url", cluster.url, **CLEAN)

    assert repeated.exit_code == 0, repeated.output
    assert sent[-1] == sent[0]


@pytest.mark.parametrize(
    ("verb", "method", "done"), [("put", "PUT", "written"), ("delete", "DELETE", "deleted")]
)
def test_a_write_that_some_may_have_is_not_said_to_be_refused(cluster, verb, method, done):
    cluster.answers[f"{method} {ROW}"] = lambda _: WRITE_UNKNOWN

    result = run(verb, "shop.orders", "1", "--url", cluster.url, **CLEAN)

    assert result.exit_code == 3
    assert f"not known whether the row was {done}: Some may have" in result.output
    assert "refused" not in result.output
