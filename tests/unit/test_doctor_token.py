"""`ringlog doctor` shows the token that every other verb would show."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from ringlog.main import app

SHOWN: set[str | None] = set()


class Door(BaseHTTPRequestHandler):
    """Lets nobody in, and notes what they showed."""

    def do_GET(self):
        SHOWN.add(self.headers.get("Authorization"))
        self.send_error(401)

    def log_message(self, *_):
        pass


@pytest.fixture
def door():
    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        SHOWN.clear()
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_the_token_comes_from_the_file_of_the_cluster(door, tmp_path):
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"viewer": "look", "operator": "work"}))
    url = f"http://127.0.0.1:{door.server_port}"
    clean = {"RINGLOG_TOKEN": None, "RINGLOG_POSTGRES_DSN": None}
    CliRunner().invoke(
        app, ["doctor", "--url", url], env={**clean, "RINGLOG_TOKENS_FILE": str(tokens)}
    )

    assert list(SHOWN) == ["Bearer work"]
