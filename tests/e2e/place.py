"""A cluster as a person runs it: the command, in a state directory."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from services.local.kafka_process import brokers
from services.local.marked import marked
from services.local.postmaster import processes
from services.local.supervision import supervisor_of

COMMAND = (sys.executable, "-c", "from ringlog.main import main; main()")
COMMAND_TIMEOUT_S = 100.0
BACK_TIMEOUT_S = 20.0


class Place:
    """A state directory, and the command run against it."""

    def __init__(self, folder):
        self.path = folder / "state"
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("RINGLOG_")
        }

    def run(self, *words, code=0):
        finished = subprocess.run(
            (*COMMAND, *words, "--state-dir", str(self.path)),
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            env=self.environment,
            check=False,
        )
        assert finished.returncode == code, (words, finished.stdout, finished.stderr)
        return finished

    def json(self, *words, code=0):
        return json.loads(self.run(*words, "--json", code=code).stdout)

    def start(self, *words, state_dir=None):
        """The command in the foreground."""
        return subprocess.Popen(
            (*COMMAND, *words, "--state-dir", str(state_dir or self.path)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )

    def listed(self):
        return json.loads((self.path / "processes.json").read_text())

    def living(self):
        """Whatever of this cluster runs, found without asking its lists."""
        supervisor = supervisor_of(self.path / "supervisor.pid")
        alone = [] if supervisor is None else [supervisor]
        kafka = [broker.pid for broker in brokers(self.path / "kafka")]
        return alone + marked(self.path) + processes(self.path / "postgres" / "data") + kafka

    def process(self, name):
        return next(item for item in self.listed() if item["name"] == name)

    def killed(self, name):
        """Kill it with -9 and wait until it is there again; what it was before, and is now."""
        before = self.process(name)
        os.kill(before["pid"], signal.SIGKILL)
        eventually(lambda: self.process(name)["pid"] != before["pid"])
        return before, self.process(name)


@contextmanager
def a_place():
    with tempfile.TemporaryDirectory(prefix="ringlog-up-") as folder:
        # As root, Postgres runs under a user of its own, who has to pass through.
        Path(folder).chmod(0o711)
        found = Place(Path(folder))
        try:
            yield found
        finally:
            found.run("down")


def eventually(look, timeout_s=BACK_TIMEOUT_S):
    deadline_s = time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.05)
    return found
