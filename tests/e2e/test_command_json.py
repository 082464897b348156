"""Every verb as a process: `--json` keeps to its schema, tables fit, completion offers names."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ringlog
from client.answers import Committed
from tests.e2e.command_schema import schema, valid
from tests.e2e.handing_on import handed_on
from tests.e2e.place import COMMAND, COMMAND_TIMEOUT_S, a_place, eventually
from tests.e2e.test_verbs import on_a_terminal

pytestmark = pytest.mark.timeout(600)

ELSEWHERE = {"audit import", "audit trim", "audit witness"}
"""They need a Postgres or a log of their own, and have tests where there is one."""
LONGEST = 80
seen: set[str] = set()


@pytest.fixture(scope="module")
def place():
    with a_place() as found:
        started = found.json("up", "--detach", "--port", "0", "--nodes", "2", "--no-driver")
        checked("up", started)
        yield found


def checked(verb, answer):
    seen.add(verb)
    return valid(verb, answer)


def asked(place, verb, *words, code=0):
    """The verb at the cluster, and its answer if it is what the schema says."""
    return checked(verb, place.json(*verb.split(), *words, code=code))


def offline(place, verb, *words, code=0):
    """A verb that asks files alone."""
    finished = subprocess.run(
        (*COMMAND, *verb.split(), *words, "--json"),
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        env=place.environment,
        check=False,
    )
    assert finished.returncode == code, (verb, finished.stdout, finished.stderr)
    return checked(verb, json.loads(finished.stdout))


def test_verbs_that_look(place):
    asked(place, "status")
    asked(place, "nodes")
    asked(place, "sequences")
    asked(place, "log", "--limit", "3")
    asked(place, "diff", "0")
    asked(place, "shell", "-c", "ls /")
    for component in ("cluster", "ring", "placements", "cms"):
        asked(place, "show", component)
    assert asked(place, "doctor")["healthy"]


def test_the_verb_that_measures_leaves_no_name_behind(place):
    found = asked(place, "bench", "--seconds", "0.5", "--connections", "3")
    assert (found["connections"], found["cleared"]) == (3, 3)
    assert found["last"] - found["first"] + 1 >= found["commits"] >= 3
    left = asked(place, "show", "extensions")
    assert not [item for item in left["extensions"] if item["name"].startswith("bench.")]


def address(place):
    port = json.loads((place.path / "cluster.json").read_text())["port"]
    return f"http://127.0.0.1:{port}"


def drive(place, sequence, *kinds):
    """By hand; without tables nobody is waited for."""
    with ringlog.connect(address(place)) as cluster:
        for kind in kinds:
            outcome = cluster.commit({"kind": kind, "sequence": sequence})
            assert isinstance(outcome, Committed), outcome


def test_verbs_that_change_owners(place):
    asked(place, "plan join", "1", code=1)
    asked(place, "join", "1", code=1)
    asked(place, "plan replace", "node-2", "--with", "node-1", code=1)
    asked(place, "replace", "node-2", "--with", "node-1", code=1)
    asked(place, "plan move", "node-2", "--tokens", "3")
    started = asked(place, "move", "node-2", "--tokens", "3", "--no-wait")
    assert started["outcome"] == "started"
    number = started["sequence"]
    asked(place, "sequences", str(number))
    assert asked(place, "cancel", str(number), "--yes", "--no-wait")["outcome"] == "cancelling"
    drive(place, number, "RetireSequence")


def test_verbs_that_wait_for_a_sequence(place):
    asked(place, "plan leave", "node-2")
    number = asked(place, "leave", "node-2", "--no-wait")["sequence"]
    path = f"/v1/sequences/{number}"
    with handed_on(address(place)) as (url, answered):
        waiting = subprocess.Popen(
            (*COMMAND, "resume", str(number), "--json", "--url", url),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=place.environment,
        )
        # It must have found the sequence before that is over.
        eventually(lambda: path in answered, timeout_s=60.0)
        drive(place, number, "StartLeave", "MidLeave", "FinishLeave", "RetireSequence")
        out, err = waiting.communicate(timeout=COMMAND_TIMEOUT_S)
    assert waiting.returncode == 0, err
    assert checked("resume", json.loads(out))["outcome"] == "finished"


def test_verbs_about_tables_and_snapshots(place):
    asked(place, "commit", "SetExtension", "name=a", "value=b")
    assert asked(place, "commit", "ClearExtension", "name=none", code=1)["code"]
    asked(place, "schema create-keyspace", "shop", "--factor", "1")
    asked(place, "schema create-table", "shop.orders", "id:string", "n:int", "--key", "id")
    asked(place, "schema")
    asked(place, "put", "shop.orders", "k", "n=7")
    assert asked(place, "get", "shop.orders", "k")["columns"] == {"id": "k", "n": 7}
    asked(place, "owners", "shop.orders", "k")
    repair = asked(place, "repair", "node-1", "--keyspace", "shop", "--no-wait")
    assert (repair["outcome"], repair["node"]) == ("started", 1)
    (session,) = asked(place, "sequences")["sessions"]
    assert (session["id"], session["purpose"]) == (repair["session"], "repair")
    asked(place, "commit", "CloseSession", f"session:={repair['session']}")
    asked(place, "put", "shop.orders", "old", "n=1", "--timestamp", "1000")
    assert asked(place, "get", "shop.orders", "old")["timestamp"] == 1000
    asked(place, "delete", "shop.orders", "old", "--timestamp", "999")
    asked(place, "get", "shop.orders", "old")
    asked(place, "delete", "shop.orders", "old")
    assert "no_row" in place.run("get", "shop.orders", "old", code=1).stderr
    asked(place, "snapshot take")
    asked(place, "snapshot")


def test_verbs_about_a_history(place, tmp_path):
    archive, key, proof = (str(tmp_path / name) for name in ("archive", "key", "proof"))
    offline(place, "audit keygen", "ledger.example/log", "--out", key)
    asked(place, "audit export", archive, "--sign", key)
    offline(place, "audit verify", archive, "--key", f"{key}.pub")
    within = ("--archive", archive)
    offline(place, "audit show", "cluster", *within)
    offline(place, "audit diff", "1", "3", *within)
    offline(place, "audit owners", "shop", "--at-token", "42", *within)
    offline(place, "audit blame", "extension", "a", *within)
    offline(place, "audit why", "shop", "--at-token", "42", *within)
    offline(place, "audit bisect", "epoch >= 3", *within)
    offline(place, "audit replay", *within)
    offline(place, "audit reproduce", *within)
    offline(place, "audit report", "--out", str(tmp_path / "report.html"), *within)
    wanted = tmp_path / "wanted.json"
    wanted.write_text('[{"kind": "SetExtension", "name": "a", "value": "c"}]')
    offline(place, "audit whatif", str(wanted), *within)
    offline(place, "audit prove", "3", "--out", proof, *within)
    offline(place, "audit check-proof", proof, "--key", f"{key}.pub")


@pytest.mark.parametrize(
    "words",
    [("nodes",), ("status",), ("log",), ("schema",), ("snapshot",), ("show", "directory")],
)
def test_tables_fit_a_narrow_terminal_and_have_colours_only_there(place, words):
    code, shown = on_a_terminal(place, *words, columns=LONGEST)
    assert code == 0, shown
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert max(map(len, lines)) <= LONGEST, shown
    assert "\x1b" not in place.run(*words).stdout


def completed(place, *words):
    """What bash would offer behind these words, by the machinery that it installs."""
    folder = Path(sys.executable).parent
    environment = {
        **place.environment,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }
    line = " ".join(("ringlog", *words))
    script = f"""
        eval "$(ringlog --show-completion bash)"
        COMP_WORDS=({line}) COMP_CWORD={len(words)}
        _ringlog_completion ringlog
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ("bash", "-c", script),
        env=environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_is_offered_verbs_and_what_the_cluster_knows(place):
    here = ("--state-dir", str(place.path))
    assert completed(place, "st") == ["status"]
    # Asked again, because it does not wait for a cluster that is busy.
    eventually(lambda: "node-1" in completed(place, "leave", *here, "node-"), timeout_s=60.0)
    eventually(lambda: "shop.orders" in completed(place, "get", *here, "sh"), timeout_s=60.0)
    assert completed(place, "show", "loc") == ["locks"]
    assert "PrepareJoin" in completed(place, "commit", "Prepare")


def test_where_no_cluster_answers_nothing_is_offered_and_nothing_said(place, tmp_path):
    assert completed(place, "leave", "--state-dir", str(tmp_path), "n") == []
    assert completed(place, "leave", "--url", "http://127.0.0.1:9", "n") == []


def test_the_last_verbs_and_that_none_was_forgotten(place):
    asked(place, "schema drop-table", "shop.orders")
    asked(place, "schema drop-keyspace", "shop")
    kept = json.loads((place.path / "cluster.json").read_text())
    # As many as there are, since nobody drives.
    asked(place, "scale", "--nodes", str(len(kept["node_ports"])))
    asked(place, "down")
    assert seen == set(schema()["properties"]) - ELSEWHERE
