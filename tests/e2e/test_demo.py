"""`make demo` runs on a bare machine, keeps every promise and leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from metadata.directory import NodeId
from ringlog.demo_proof import Findings, Held, Moved
from ringlog.demo_rows import Book
from services.local.marked import MARK
from tests.e2e.place import eventually

DEMO_TIMEOUT_S = 400.0
STOP_TIMEOUT_S = 90.0
PROCESSES = Path("/proc")
COMMAND = (sys.executable, "-m", "ringlog.demo")

pytestmark = pytest.mark.timeout(DEMO_TIMEOUT_S + STOP_TIMEOUT_S)


def of_demo(folder):
    """Processes whose environment names a state directory in `folder`."""
    wanted = f"{MARK}={folder}".encode()
    found = []
    for entry in PROCESSES.iterdir():
        try:
            variables = (
                (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
            )
        except OSError:
            continue
        if any(variable.startswith(wanted) for variable in variables):
            found.append(entry.name)
    return found


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="ringlog-demo-") as name:
        # As root, Postgres runs under a user of its own, who has to pass through.
        Path(name).chmod(0o711)
        yield Path(name)


def environment(**more):
    kept = {name: text for name, text in os.environ.items() if not name.startswith("RINGLOG_")}
    return {**kept, **more}


def left_nothing(folder):
    return list((folder / ".state").iterdir()) == [] and of_demo(folder) == []


def test_a_cluster_changes_under_load_and_keeps_every_promise(folder):
    """A join with kills in the middle, a replace and a leave; then everything is checked."""
    finished = subprocess.run(
        (*COMMAND, "--quick"),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEMO_TIMEOUT_S,
        check=False,
    )

    said = finished.stdout
    print(said)
    assert finished.returncode == 0, (said, finished.stderr)
    assert "entries spread by kafka" in said
    roles = Counter(
        re.findall(r"^│ \S+ +│ (\w+) +│ \d+ +│ \S*127\.0\.0\.1:\d+", said, re.MULTILINE)
    )
    assert roles == {"postgres": 1, "kafka": 1, "cms": 2, "node": 4, "driver": 1}
    assert re.search(r"kill -9 while the rows move: node-[1-4] \(\d+\) and driver-1 \(\d+\)", said)
    assert re.search(r"kill -9 \d+: node-5 is gone", said)
    for kind in ("join", "replace", "leave"):
        assert re.search(rf"│ {kind} \d+ .*│ equal +│", said), kind
    assert len(re.findall(r"│ node-\d .*│ 0 +│ yes +│", said)) == 4
    assert "3 of 3 movements are proved" in said
    assert "4 of 4 nodes hold exactly the rows that they own" in said
    assert re.search(r"5,\d{3} acknowledged rows was read at quorum", said)
    assert "0 times something else was read than acknowledged" in said
    assert "Every promise was kept." in said
    assert left_nothing(folder)


def test_interrupted_it_stops_everything(folder):
    running = subprocess.Popen(
        (*COMMAND, "--quick", "--no-kafka"),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        eventually(lambda: of_demo(folder), timeout_s=60.0)
        running.send_signal(signal.SIGINT)
        said, _ = running.communicate(timeout=STOP_TIMEOUT_S)
    finally:
        running.kill()

    assert running.returncode == 130
    assert "Stopping everything" in said
    assert left_nothing(folder)


def test_without_java_it_says_what_is_missing(folder):
    finished = subprocess.run(
        COMMAND,
        cwd=folder,
        env=environment(JAVA_HOME="/nowhere"),
        capture_output=True,
        text=True,
        timeout=DEMO_TIMEOUT_S,
        check=False,
    )

    assert finished.returncode == 1
    assert "Spark, which moves the rows, needs a Java runtime: install Java" in finished.stderr
    assert not (folder / ".state").exists()


def test_a_read_may_find_what_was_acknowledged_or_tried_since_and_nothing_else():
    book = Book()
    for _ in range(3):
        book.try_next("a")
    book.acknowledge("a", 2)

    assert [found for found in range(5) if book.allows("a", book.promised("a"), found)] == [2, 3]
    assert book.unsettled == ["a"]


PROVED = Moved(
    sequence=1,
    kind="join",
    rows=1,
    ranges=1,
    sources=frozenset({NodeId(1)}),
    targets=frozenset({NodeId(5)}),
    is_proved=True,
)
EXACT = Held(name="node-1", ranges=1, owned=10, found=10, outside=0)
KEPT = Findings(names={}, rows=1, entries=1, moved=(PROVED,), held=(EXACT,), violations=())


@pytest.mark.parametrize(
    "broken",
    [
        {"violations": ("order-1",)},
        {"held": (EXACT, replace(EXACT, outside=1))},
        {"held": (replace(EXACT, found=9),)},
        {"held": (replace(EXACT, found=11),)},
        {"held": ()},
        {"moved": (replace(PROVED, is_proved=False),)},
        {"moved": ()},
    ],
)
def test_one_broken_promise_is_enough(broken):
    assert KEPT.have_held
    assert not replace(KEPT, **broken).have_held
