"""Where nobody knows whether something was done, the command says so, and how to learn it."""

import json
import shlex
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ringlog.commands import asking
from ringlog.commands.finding import Found
from tests.command import run

UNKNOWN = {"status": 503, "code": "unknown", "detail": "the log does not answer"}
WRITE_UNKNOWN = {"status": 503, "code": "write_unknown", "detail": "Some may have the write."}
CLEAN = {"RINGLOG_TOKEN": None, "RINGLOG_TOKENS_FILE": None}


class Doubtful(ThreadingHTTPServer):
    """A CMS and a node in one, which say how often they do not know."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answering)
        self.commits = []
        self.is_in_doubt = True

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, method, path, body):
        if path == "/v1/commit":
            self.commits.append(body)
            return UNKNOWN if self.is_in_doubt else committed(body)
        if method != "GET":
            return WRITE_UNKNOWN
        if path == "/v1/metadata/schema":
            columns = [{"name": "id", "type": "bigint"}]
            key = {"partition_key": ["id"], "columns": columns}
            table = {"keyspace": "shop", "name": "orders", **key}
            return {"keyspaces": [{"name": "shop", "tables": [table]}]}
        place = {"datacenter": "dc1", "rack": "r1", "state": "joined", "liveness": "up"}
        addresses = {"http": f"127.0.0.1:{self.server_port}"}
        return {"nodes": [{"id": 4, "host_id": "h", "addresses": addresses, **place}]}


class Answering(BaseHTTPRequestHandler):
    server: Doubtful

    def answer(self):
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, given = self.path.partition("?")[0], json.loads(sent or "null")
        found = self.server.answer(self.command, path, given)
        body = json.dumps(found).encode()
        self.send_response(found.get("status", 200))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 by whom it is called

    def log_message(self, *_):
        pass


def committed(body):
    said = {"entry_id": body["entry_id"], "hash": "ab" * 32, "entries": []}
    return {"epoch": 42, "result": {"sequence": 42}, **said}


@pytest.fixture
def doubtful(monkeypatch):
    monkeypatch.setattr(asking, "COMMIT_DEADLINE_S", 0.3)
    monkeypatch.setitem(Found.maker.__kwdefaults__, "deadline_s", 0.3)
    with Doubtful() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "words",
    [
        ("join", "4", "--tokens", "7,", "--reason", "more room"),
        ("leave", "4", "--actor", "ada"),
        ("commit", "SetExtension", "name=motd", "value=it's late"),
    ],
)
def test_an_unknown_commit_comes_with_the_command_that_makes_it_once(doubtful, words):
    result = run(*words, "--url", doubtful.url, **CLEAN)

    assert result.exit_code == 3
    assert "not known whether the commit was made" in result.output
    assert "the log does not answer" in result.output
    assert "`ringlog log`" in result.output
    assert "ringlog up" not in result.output

    first = doubtful.commits[0]
    doubtful.is_in_doubt = False
    again = shlex.split(result.output.strip().splitlines()[-1])
    assert again[0] == "ringlog"
    repeated = run(*again[1:], "--url", doubtful.url, **CLEAN)

    assert repeated.exit_code == 0, repeated.output
    assert doubtful.commits[-1] == first


@pytest.mark.parametrize(("verb", "done"), [("put", "written"), ("delete", "deleted")])
def test_a_write_that_some_may_have_is_not_said_to_be_refused(doubtful, verb, done):
    result = run(verb, "shop.orders", "1", "--url", doubtful.url, **CLEAN)

    assert result.exit_code == 3
    assert f"not known whether the row was {done}: Some may have" in result.output
    assert "refused" not in result.output
