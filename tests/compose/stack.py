"""The compose file as a person runs it, under a project name of its own."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request

from tests.tidy.source import ROOT

PROJECT = "ringlog-test"
MARK = f"label=com.docker.compose.project={PROJECT}"
PROFILES = ("--profile", "load", "--profile", "monitoring")
TAG = "test"
# Any free ports of 127.0.0.1, an image of this tree, and no .env of whoever runs the test.
PORTS = {"RINGLOG_PORT_1": "0", "RINGLOG_PORT_2": "0", "PROMETHEUS_PORT": "0", "GRAFANA_PORT": "0"}
VARIABLES = {**PORTS, "RINGLOG_VERSION": TAG}
BASE = ("docker", "compose", "--project-name", PROJECT, "--env-file", os.devnull)

BUILD_TIMEOUT_S = 900.0
UP_TIMEOUT_S = 300
COMMAND_TIMEOUT_S = 120.0
DOWN_TIMEOUT_S = 300.0
ANSWER_TIMEOUT_S = 30.0
LOOK_EVERY_S = 0.5
LOG_LINES = 25
SAID_CHARS_MAX = 4000


class Stack:
    def run(self, *words, timeout_s=COMMAND_TIMEOUT_S, check=True, defaults=False):
        """Standard output of `docker compose …`; what it says besides, if it fails."""
        finished = _finished((*BASE, *words), {} if defaults else VARIABLES, timeout_s)
        if check and finished.returncode != 0:
            raise AssertionError(f"docker compose {' '.join(words)} failed:\n{_said(finished)}")
        return finished.stdout

    def typed(self, script, timeout_s):
        """What a person types, about the same cluster."""
        here = {"COMPOSE_PROJECT_NAME": PROJECT, "COMPOSE_ENV_FILES": os.devnull, **VARIABLES}
        finished = _finished(("bash", "-euo", "pipefail", "-c", script), here, timeout_s)
        assert finished.returncode == 0, f"{script} failed:\n{_said(finished)}"
        return finished.stdout

    def up(self, *services, profiles=(), build_timeout_s=0.0):
        chosen = [word for profile in profiles for word in ("--profile", profile)]
        wait = ("--wait", "--wait-timeout", str(UP_TIMEOUT_S))
        timeout_s = UP_TIMEOUT_S + 60 + build_timeout_s
        self.run(*chosen, "up", "-d", *wait, *services, timeout_s=timeout_s)

    def clear(self):
        """As if nobody had ever started it here; what a build has cached stays."""
        words = ("down", "--volumes", "--remove-orphans", "--timeout", "10")
        self.run(*PROFILES, *words, timeout_s=DOWN_TIMEOUT_S, check=False)
        for image in docker("image", "ls", "--quiet", f"ringlog:{TAG}").split():
            docker("image", "rm", "--force", "--no-prune", image)

    def load(self, *words, timeout_s=COMMAND_TIMEOUT_S):
        return self.run(
            "--profile", "load", "run", "--rm", "-T", "load", *words, timeout_s=timeout_s
        )

    def ringlog(self, *words):
        """A verb, inside a container of the cluster; its JSON."""
        return json.loads(self.run("exec", "-T", "cms-1", "ringlog", *words, "--json"))

    def containers(self):
        """By service, whatever their state."""
        listed = self.run(*PROFILES, "ps", "--all", "--format", "json")
        found = [json.loads(line) for line in listed.splitlines()]
        return {item["Service"]: item for item in found}

    def inspected(self):
        """All that the engine knows of each container, by service."""
        names = docker("ps", "--all", "--quiet", "--filter", MARK).split()
        found = json.loads(docker("inspect", *names)) if names else []
        return {item["Config"]["Labels"]["com.docker.compose.service"]: item for item in found}

    def healthy(self):
        return {name for name, item in self.containers().items() if item["Health"] == "healthy"}

    def secret(self, path, service="cms-1"):
        return self.run("exec", "-T", service, "cat", path)

    def token(self, role="viewer"):
        return json.loads(self.secret("/run/ringlog/tokens.json"))[role]

    def get(self, service, path, token=None):
        """Through the published port of a service, from this machine: status and text."""
        port = {"prometheus": "9090"}.get(service, "7480")
        address = self.run(*PROFILES, "port", service, port).strip()
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"http://{address}{path}", headers=headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=ANSWER_TIMEOUT_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def described(self):
        """For whoever wants to know why."""
        shown = self.run(*PROFILES, "ps", "--all", check=False)
        return shown + self.run(*PROFILES, "logs", "--tail", str(LOG_LINES), check=False)


def docker(*words):
    """Standard output of a command that must succeed."""
    return subprocess.run(
        ("docker", *words), capture_output=True, text=True, check=True, timeout=COMMAND_TIMEOUT_S
    ).stdout


def _finished(command, variables, timeout_s):
    """Run where the compose file is, with nothing of ours from outside."""
    outside = {name: text for name, text in os.environ.items() if not name.startswith("RINGLOG_")}
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**outside, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def _said(finished):
    return f"{finished.stdout}\n{finished.stderr}"[-SAID_CHARS_MAX:]


def until(condition, timeout_s, what, seen=lambda: None):
    """Wait for it; the message says for what, and what there was instead."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} within {timeout_s:.0f} s: {seen()}"
        time.sleep(LOOK_EVERY_S)
    return found
