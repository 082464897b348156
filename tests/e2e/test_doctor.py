"""`ringlog doctor` names what is wrong, and the command that it gives mends it."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from ringlog.main import app
from services.local.supervision import supervisor_of
from tests.e2e.command_schema import valid
from tests.e2e.handing_on import handed_on
from tests.e2e.place import COMMAND_TIMEOUT_S, a_place, eventually

pytestmark = pytest.mark.timeout(300)

AHEAD_S = 3600


@pytest.fixture(scope="module")
def place():
    """Two nodes that own everything, tokens, and nobody who drives."""
    with a_place() as found:
        found.run(
            "up", "--detach", "--port", "0", "--nodes", "2", "--no-driver", "--tokens", "--cms", "2"
        )
        yield found


def run(place, *words):
    """In this process: the way to the cluster is the same, and starting Python is not free."""
    clean = {name: None for name in os.environ if name.startswith("RINGLOG_")}
    return CliRunner().invoke(app, [*words], env=clean)


def do(place, *words):
    """A verb at the cluster, which must succeed."""
    finished = run(place, *words, "--state-dir", str(place.path), "--json")
    assert finished.exit_code == 0, (words, finished.output)
    return json.loads(finished.stdout)


def examined(place, *words, code=1):
    finished = run(place, "doctor", *words, "--state-dir", str(place.path), "--json")
    assert finished.exit_code == code, finished.output
    return valid("doctor", json.loads(finished.stdout))


def findings(place, *words):
    """By code, whatever there is."""
    state = ("--state-dir", str(place.path))
    answer = json.loads(run(place, "doctor", "--json", *words, *state).stdout)
    return {item["code"]: item for item in answer["findings"]}


def found(place, wanted, *words, code=1):
    """The finding with this code, which must be there."""
    answer = examined(place, *words, code=code)
    named = [item for item in answer["findings"] if item["code"] == wanted]
    assert named, answer
    return named[0]


def well(place, *words):
    """Nothing is wrong, at the latest when everybody has reported."""
    state = ("--state-dir", str(place.path))
    eventually(lambda: run(place, "doctor", *words, *state).exit_code == 0, timeout_s=60.0)


def mend(place, finding):
    """Type the command that it gives."""
    folder = Path(sys.executable).parent
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    token = json.loads((place.path / "tokens.json").read_text())["admin"]
    environment = {**place.environment, "PATH": path, "RINGLOG_TOKEN": token}
    done = subprocess.run(
        ("bash", "-c", finding["command"]),
        env=environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, (finding, done.stdout, done.stderr)


def gone(place, finding):
    """Mended by its command."""
    mend(place, finding)
    eventually(lambda: finding["code"] not in findings(place), timeout_s=60.0)


def port(place):
    return json.loads((place.path / "cluster.json").read_text())["port"]


def report(place, node, epoch, hash_):
    """As the node itself would; 409 where the log has lost what it has."""
    tokens = json.loads((place.path / "tokens.json").read_text())
    cluster = do(place, "show", "cluster")["id"]
    body = {
        "node": node,
        "epoch": epoch,
        "hash": hash_,
        "digest": "0" * 64,
        "sent_at_us": time.time_ns() // 1000,
        "version": "0.1.0",
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port(place)}/internal/v1/reports",
        json.dumps(body).encode(),
        {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {tokens['node']}",
            "Ringlog-Cluster": cluster,
            "Ringlog-Node": str(node),
        },
    )
    with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=10):
        pass


def a_ghost(place):
    """A node that is in the directory, and nowhere else; gives its number."""
    name = uuid4().hex
    addresses = json.dumps({"http": f"{name}:80"})
    outcome = do(
        place,
        *("commit", "Register", f"host_id={name}", f"addresses:={addresses}"),
        *("datacenter=dc1", "rack=r9", "version=0.1.0"),
    )
    return outcome["result"]["node"]


def test_a_cluster_that_is_well(place):
    well(place)
    answer = examined(place, code=0)
    assert answer["findings"] == []
    assert {item["name"]: item["state"] for item in answer["checks"]}["fanout"] == "not asked"
    # As a person types it.
    said = place.run("doctor").stdout
    assert said.startswith("  connection: well\n")
    assert "Nothing is wrong at epoch" in said
    assert "\x1b" not in said


def test_tokens_that_others_may_read(place):
    tokens = place.path / "tokens.json"
    tokens.chmod(0o644)
    finding = found(place, "secret_readable")
    assert "0644" in finding["sentence"]
    mend(place, finding)
    assert tokens.stat().st_mode & 0o777 == 0o600
    well(place)


def test_an_old_release_a_full_disk_and_an_old_snapshot(place):
    node = do(place, "nodes")["nodes"][0]
    addresses = json.dumps(node["addresses"])
    startup = ("commit", "Startup", f"node:={node['id']}", f"addresses:={addresses}")
    do(place, *startup, "version=0.0.1")
    finding = found(place, "other_release")
    assert finding["subject"] == node["name"]
    assert "0.0.1" in finding["sentence"]
    do(place, *startup, f"version={node['version']}")
    assert found(place, "disk_full", "--free", "100")["subject"] == str(place.path)
    mend(place, found(place, "snapshot_old", "--snapshot", "0"))
    well(place, "--snapshot", "0")


def test_a_session_that_nobody_closes(place):
    ranges = json.dumps([{"left": "0", "right": "10"}])
    do(place, "commit", "OpenSession", "purpose=repair", "nodes:=[1]", f"ranges:={ranges}")
    finding = found(place, "session_open", "--session", "0")
    assert "repair on node-1" in finding["sentence"]
    mend(place, finding | {"command": finding["command"].rpartition(": ")[2]})
    well(place)


def test_a_keyspace_for_more_nodes_than_there_are(place):
    do(place, "schema", "create-keyspace", "wide", "--factor", "3")
    finding = found(place, "too_few_nodes")
    assert "wants 3 replicas, and 2 nodes" in finding["sentence"]
    do(place, "schema", "drop-keyspace", "wide")
    well(place)


def test_a_node_that_hangs(place):
    pid = place.process("node-2")["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        finding = found(place, "process_silent")
        assert finding["subject"] == "node-2"
    finally:
        mend(place, finding)
    well(place)


def elsewhere(place, url, *words, code):
    """Asked by address, as from another machine."""
    finished = run(place, "doctor", "--url", url, "--json", *words)
    assert finished.exit_code == code, finished.output
    return {item["code"]: item for item in json.loads(finished.stdout)["findings"]}


def test_clocks_that_differ_and_a_token_that_is_refused(place):
    token = json.loads((place.path / "tokens.json").read_text())["viewer"]
    with handed_on(f"http://127.0.0.1:{port(place)}", ahead_s=AHEAD_S) as (url, _):
        findings = elsewhere(place, url, "--token", token, code=1)
    assert list(findings) == ["clock_skew"]
    assert "ahead of this machine's" in findings["clock_skew"]["sentence"]
    refused = elsewhere(place, f"http://127.0.0.1:{port(place)}", code=1)
    assert "unauthorized" in refused["not_answered"]["sentence"]
    nowhere = elsewhere(place, "http://127.0.0.1:9", code=3)
    assert list(nowhere) == ["cms_down"]
    full = elsewhere(
        place, f"http://127.0.0.1:{port(place)}", "--token", token, "--free", "100", code=1
    )
    assert full["disk_full"]["subject"].startswith("node ")


@pytest.fixture(scope="module")
def joining(place):
    """A node that joins and was never there; gives its number and the sequence's."""
    do(place, "schema", "create-keyspace", "shop", "--factor", "2")
    do(place, "schema", "create-table", "shop.orders", "id:string", "--key", "id")
    ghost = a_ghost(place)
    do(place, "join", str(ghost), "--no-wait")
    (sequence,) = do(place, "sequences")["sequences"]
    return ghost, sequence["id"]


def test_a_sequence_that_nobody_drives_and_a_node_that_never_came(place, joining):
    ghost, sequence = joining
    finding = eventually(lambda: findings(place).get("sequence_undriven"), timeout_s=60.0)
    assert finding["subject"] == str(sequence)
    assert f"join of node {ghost}" in finding["sentence"]
    assert "--driver" in finding["command"]
    assert found(place, "node_down")["subject"] == f"node {ghost}"


def test_a_node_that_lags_and_a_log_that_lost_its_tail(place, joining):
    ghost, _ = joining
    (first,) = do(place, "log", "--after", "0", "--limit", "1")

    def behind():
        # It counts as up for a few seconds after each report.
        report(place, ghost, 1, first["hash"])
        return findings(place, "--lag", "1").get("node_behind")

    assert "epochs behind" in eventually(behind, timeout_s=60.0)["sentence"]

    report(place, ghost, 10_000, "ab" * 32)
    finding = found(place, "diverged")
    assert "Postgres has lost entries" in finding["sentence"]
    mend(place, finding)
    # Every CMS hears of the acknowledgement by itself, a moment later.
    eventually(lambda: "diverged" not in findings(place))


def test_a_driver_is_started_and_then_turns_back_what_waits_for_nobody(place, joining):
    ghost, sequence = joining
    gone(place, eventually(lambda: findings(place).get("sequence_undriven"), timeout_s=60.0))
    finding = eventually(lambda: findings(place).get("node_down"), timeout_s=60.0)
    assert f"ringlog cancel {sequence} --dead {ghost}" in finding["command"]
    gone(place, finding)
    assert do(place, "sequences")["sequences"] == []
    well(place)


def without_a_supervisor(place):
    supervisor = supervisor_of(place.path / "supervisor.pid")
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: supervisor_of(place.path / "supervisor.pid") is None)
    return found(place, "supervisor_missing")


def test_processes_that_are_gone_in_the_order_of_their_going(place):
    gone(place, without_a_supervisor(place))
    without_a_supervisor(place)
    os.kill(place.process("node-2")["pid"], signal.SIGKILL)
    assert found(place, "process_missing")["subject"] == "node-2"
    os.kill(place.process("cms-2")["pid"], signal.SIGKILL)
    assert found(place, "cms_down")["subject"] == "cms-2"
    os.kill(place.process("postgres")["pid"], signal.SIGQUIT)
    # Whoever is left says what it remembers.
    assert "nothing can be committed" in found(place, "postgres_down")["sentence"]
    os.kill(place.process("cms-1")["pid"], signal.SIGKILL)
    answer = examined(place, code=3)
    assert answer["reachable"] is False
    assert {item["subject"] for item in answer["findings"] if item["code"] == "cms_down"} == {
        "cms-1",
        "cms-2",
    }
    os.kill(place.process("node-1")["pid"], signal.SIGKILL)
    os.kill(place.process("driver-1")["pid"], signal.SIGKILL)
    finding = found(place, "nothing_runs", code=3)
    assert shlex.split(finding["command"]) == [
        *("ringlog", "up", "--state-dir", str(place.path), "--detach"),
    ]
    gone(place, finding)
    well(place)
