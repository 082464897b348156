"""A server on a free port that answers each path as a test wants, for verbs that are run whole."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[Any], dict[str, Any]]
"""From the body that came; what has a `status` is a problem."""

NOT_FOUND = {"status": 404, "code": "not_found", "detail": "There is nothing at this path."}

JOINING = {
    "id": 42,
    "kind": "join",
    "node": 4,
    "replaced": None,
    "dead": [],
    "due": "mid",
    "taken": [{"step": "prepare", "epoch": 42}, {"step": "start", "epoch": 43}],
    "cancelled": False,
    "plans": [],
    "since_s": 1.0,
    "barrier": None,
    "laggards": [],
    "driver": None,
    "progress": None,
}
"""A sequence as a CMS tells of it: the join of node 4, of which nobody says anything yet."""


class Scripted(ThreadingHTTPServer):
    """`answers` are by method and path; `headers` are those of the last request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, Answer] = {}
        self.headers: dict[str, str] = {}

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.authority}"

    def answer(self, what: str, body: Any) -> dict[str, Any]:
        found = self.answers.get(what)
        return NOT_FOUND if found is None else found(body)


class _Handler(BaseHTTPRequestHandler):
    server: Scripted

    def answer(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.headers = dict(self.headers)
        what = f"{self.command} {self.path.partition('?')[0]}"
        found = self.server.answer(what, json.loads(sent or "null"))
        body = json.dumps(found).encode()
        self.send_response(found.get("status", 200))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 by whom it is called

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def scripted() -> Iterator[Scripted]:
    with Scripted() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def nodes(server: Scripted, *numbers: int) -> Answer:
    """Of a cluster whose nodes all answer at this server."""
    alike = {
        "addresses": {"http": server.authority},
        "datacenter": "dc1",
        "rack": "r1",
        "version": "1.0",
        "state": "joined",
        "liveness": "up",
        "lag": 0,
    }
    listed = [{"id": number, "host_id": f"host-{number}", **alike} for number in numbers]
    return lambda _: {"nodes": listed}
