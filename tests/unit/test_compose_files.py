"""What can be said of the compose file without an engine; tests/compose runs it."""

import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from tests.tidy.source import ROOT

HEALTHY = ROOT / "deploy" / "compose" / "healthy.py"


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_what_may_be_set_is_in_the_example():
    settable = set(re.findall(r"\$\{(\w+):-", text_of("docker-compose.yml")))
    shown = set(re.findall(r"^#?(\w+)=", text_of(".env.example"), re.MULTILINE))

    assert shown - {"COMPOSE_PROFILES"} == settable


def test_nothing_has_to_be_set():
    compose = text_of("docker-compose.yml")

    assert len(re.findall(r"\$\{", compose)) == len(re.findall(r"\$\{\w+:-[^}]+\}", compose))


def test_the_example_has_the_defaults():
    defaults = dict(re.findall(r"\$\{(\w+):-([^}]+)\}", text_of("docker-compose.yml")))
    shown = dict(re.findall(r"^#(\w+)=(.*)$", text_of(".env.example"), re.MULTILINE))

    assert {name: text for name, text in shown.items() if name in defaults} == defaults


def test_every_package_gets_into_the_image():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"bench", "tests"}
    let_in = set(re.findall(r"^!([\w/.]+)$", text_of(".dockerignore"), re.MULTILINE))

    assert packages <= let_in


class Answering(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 503)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def port():
    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def healthy(*words, **environment):
    command = (sys.executable, "-I", str(HEALTHY), *map(str, words))
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode


def test_only_a_process_that_is_ready_is_healthy(port):
    assert healthy(RINGLOG_LISTEN=f"0.0.0.0:{port}") == 0
    assert healthy(port, "/json/") == 1
    assert healthy(port, "/readyz") == 0


def test_where_nobody_answers_nobody_is_healthy():
    assert healthy(1, "/readyz") == 1


def run_without_engine(folder, lab):
    """What `make test-compose` runs, where no Docker engine answers."""
    (folder / "bin").mkdir()
    scripted(folder / "bin" / "docker", "exit 1")
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(
        [ROOT / "deploy" / "test-compose.sh", "--version"],
        env={**os.environ, "PATH": path, "DOCKER_LAB": str(lab)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def scripted(path, line):
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(0o755)


def test_a_machine_without_engine_and_lab_is_no_failure(tmp_path):
    finished = run_without_engine(tmp_path, tmp_path / "none")

    assert finished.returncode == 0
    assert "skipped: no Docker engine with Compose v2 answers" in finished.stdout


def test_a_lab_that_does_not_start_is_a_failure(tmp_path):
    scripted(tmp_path / "up", "echo no bridges >&2; exit 3")
    scripted(tmp_path / "down", f"touch {tmp_path / 'stopped'}")

    finished = run_without_engine(tmp_path, tmp_path)

    assert finished.returncode == 1
    assert "no bridges" in finished.stderr
    assert "the lab does not start" in finished.stdout
    assert (tmp_path / "stopped").exists()
