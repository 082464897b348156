"""The verbs that change ownership, and those around them, as a person types them."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import urllib.error
import urllib.request
from uuid import uuid4

import jsonschema
import pytest

from tests.e2e.place import COMMAND, COMMAND_TIMEOUT_S, a_place, eventually

SEQUENCE_TIMEOUT_S = 90.0
INTEGER = {"type": "integer"}
TEXT = {"type": "string"}
MAYBE = {"type": ["integer", "null"]}


def an_object(**properties):
    return {"type": "object", "required": list(properties), "properties": properties}


def a_list(item):
    return {"type": "array", "items": item}


STEP = an_object(step=TEXT, epoch=INTEGER)
ENDED = an_object(
    sequence=INTEGER,
    kind={"enum": ["join", "leave", "move", "replace"]},
    node=INTEGER,
    replaced=MAYBE,
    warnings=a_list(TEXT),
    outcome={"enum": ["finished", "cancelled", "started", "cancelling"]},
    epoch=INTEGER,
    taken=a_list(STEP),
)
GROUP = an_object(
    group=a_list(INTEGER),
    needed=INTEGER,
    applied=a_list(INTEGER),
    missing=a_list(an_object(node=INTEGER, liveness=TEXT, watermark=MAYBE, behind=MAYBE)),
)
BARRIER = an_object(epoch=INTEGER, level=TEXT, groups=a_list(GROUP), passed={"type": "boolean"})
SEQUENCE = an_object(
    id=INTEGER, due=TEXT, taken=a_list(STEP), barrier=BARRIER, laggards=a_list({}), driver={}
)
SEQUENCES = an_object(epoch=INTEGER, sequences=a_list(SEQUENCE))
PLAN = an_object(
    outcome=TEXT,
    transformation=an_object(kind=TEXT, node=INTEGER),
    transfers=a_list(an_object(source=INTEGER, target=INTEGER, rows=MAYBE, bytes=MAYBE)),
    rows=MAYBE,
    bytes=MAYBE,
    seconds={},
    weakest=MAYBE,
    locks=a_list(an_object(sequence=INTEGER)),
    voters=a_list(a_list(INTEGER)),
    barrier=BARRIER,
)
ROW = an_object(columns={"type": "object"}, timestamp=INTEGER, epoch=INTEGER)


@pytest.fixture
def place():
    with a_place() as found:
        yield found


@pytest.fixture(scope="module")
def quiet():
    """One node that owns everything, no table and nobody who drives."""
    with a_place() as found:
        found.run("up", "--detach", "--port", "0", "--nodes", "1", "--no-driver")
        yield found


@pytest.fixture(scope="module")
def driven():
    """Two nodes that both own every row, and a driver."""
    with a_place() as found:
        found.run("up", "--detach", "--port", "0", "--nodes", "2", "--driver")
        found.run("schema", "create-keyspace", "shop", "--factor", "2")
        found.run("schema", "create-table", "shop.orders", "id:string", "n:int", "--key", "id")
        yield found


def valid(answer, schema):
    jsonschema.validate(answer, schema)
    return answer


def register(place):
    """A node that is in the directory, and nowhere else; gives its number."""
    name = uuid4().hex
    addresses = json.dumps({"http": f"{name}:80"})
    outcome = place.json(
        *("commit", "Register", f"host_id={name}", f"addresses:={addresses}"),
        *("datacenter=dc1", "rack=r9", "version=1"),
    )
    return str(outcome["result"]["node"])


def interrupt(process):
    """Press Ctrl-C until it helps: the first may come before the command has begun to wait."""

    def ended():
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2.0)
        return process.poll() is not None

    eventually(ended)


def test_rows_plans_and_sequences_of_a_cluster_that_drives_itself(place):
    place.run("up", "--detach", "--port", "0", "--nodes", "4", "--driver")
    place.run("schema", "create-keyspace", "shop", "--factor", "3", "--reason", "a test")
    place.run(
        *("schema", "create-table", "shop.orders", "id:string", "n:int", "--key", "id"),
    )
    assert "id:string, n:int" in place.run("schema").stdout
    valid(place.json("put", "shop.orders", "a+b/ü", "n=7"), ROW)
    read = valid(place.json("get", "shop.orders", "a+b/ü", "--consistency", "all"), ROW)
    assert read["columns"] == {"id": "a+b/ü", "n": 7}
    assert "no_row" in place.run("get", "shop.orders", "a b/ü", code=1).stderr
    assert len(place.json("owners", "shop.orders", "a+b/ü")["readers"]) == 3

    plan = valid(place.json("plan", "leave", "node-4"), PLAN)
    assert plan["weakest"] == 3
    assert "must vote" in place.run("plan", "leave", "node-4").stdout

    left = valid(place.json("leave", "node-4", "--timeout", str(SEQUENCE_TIMEOUT_S)), ENDED)
    assert (left["outcome"], left["kind"], left["node"]) == ("finished", "leave", 4)
    taken = [item["step"] for item in left["taken"]]
    assert taken == ["prepare", "start", "mid", "finish", "retire"]
    moved = place.run("move", "node-2", "--tokens", "3", "--timeout", str(SEQUENCE_TIMEOUT_S))
    assert moved.stdout.startswith("finished: move of node-2 at epoch")
    assert "\x1b" not in moved.stdout + moved.stderr
    assert place.json("get", "shop.orders", "a+b/ü")["columns"]["n"] == 7

    assert register(place) == "5"
    started = place.run("join", "5", "--no-wait")
    assert "node 5 is unknown" in started.stderr
    (found,) = place.json("sequences")["sequences"]

    def stuck():
        (view,) = valid(place.json("sequences"), SEQUENCES)["sequences"]
        driver = view["driver"] or {}
        return view if driver.get("doing") == "stuck" and view["due"] == "mid" else None

    assert eventually(stuck)["driver"]["name"] == "driver-1"
    number = str(found["id"])
    resumed = place.run("resume", number, "--timeout", "1", code=1)
    assert resumed.stdout.startswith("join of node 5: prepare at epoch")
    assert "mid is due" in resumed.stdout
    assert resumed.stderr.endswith(f"`ringlog cancel {number}` turns back.\n")
    cancelled = place.json("cancel", number, "--dead", "5", "--timeout", str(SEQUENCE_TIMEOUT_S))
    assert valid(cancelled, ENDED)["outcome"] == "cancelled"
    assert place.json("sequences")["sequences"] == []
    assert f"No sequence {number} is in progress" in place.run("resume", number, code=1).stderr


def at_one(place, name, key, columns=None):
    """Read a row as this node alone has it, or write it with columns: status and answer."""
    url = f"{place.process(name)['url']}/v1/tables/shop/orders/rows/{key}?consistency=one"
    body = None if columns is None else json.dumps({"columns": columns}).encode()
    method, headers = "GET" if body is None else "PUT", {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=COMMAND_TIMEOUT_S) as answer:
            return 200, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def serves(place, name, key):
    with contextlib.suppress(OSError):
        return at_one(place, name, key)[0] == 200


@pytest.mark.timeout(300)
def test_a_repair_brings_an_owner_what_it_missed(driven):
    """It was written while that owner was not there; before the repair it does not know of it."""
    driven.json("put", "shop.orders", "a", "n=7", "--consistency", "all")
    os.kill(driven.process("node-2")["pid"], signal.SIGSTOP)
    assert at_one(driven, "node-1", "missed", {"n": 8})[0] == 200
    driven.killed("node-2")
    eventually(lambda: serves(driven, "node-2", "a"))
    status, problem = at_one(driven, "node-2", "missed")
    assert (status, problem["code"]) == (404, "no_row")

    repaired = driven.json("repair", "node-2")

    assert (repaired["outcome"], repaired["actor"]) == ("repaired", "driver-1")
    assert (repaired["node"], repaired["nodes"]) == (2, [1, 2])
    assert driven.json("sequences")["sessions"] == []
    for key, number in (("missed", 8), ("a", 7)):
        assert at_one(driven, "node-2", key)[1]["columns"] == {"id": key, "n": number}


def test_a_driver_takes_a_reconfiguration_of_the_cms_to_its_end(driven):
    """Somebody prepared it and went away."""
    away = json.dumps([{"name": "away", "url": "http://127.0.0.1:1"}])

    prepared = driven.json("commit", "PrepareCmsReconfiguration", f"add:={away}")

    def ended():
        book = driven.json("show", "cms")
        return book if book["reconfiguration"] is None else None

    members = {item["name"]: item["state"] for item in eventually(ended)["members"]}
    assert members["away"] == "active"
    taken = driven.json("log", "--after", str(prepared["epoch"]))
    assert {(item["kind"], item["actor"]) for item in taken} == {
        ("AdvanceCmsReconfiguration", "driver-1")
    }


def drive(place, sequence, *kinds):
    """By hand; without tables nobody is waited for."""
    for kind in kinds:
        place.run("commit", kind, f"sequence:={sequence}")


def the_sequence(place):
    return eventually(lambda: place.json("sequences")["sequences"])[0]["id"]


def test_a_join_is_waited_for_left_alone_and_turned_back(quiet):
    place, joins = quiet, register(quiet)
    waiting = place.start("join", joins, "--tokens", "3", "--reason", "more room")
    first = the_sequence(place)
    place.killed("cms-1")
    drive(place, first, "StartJoin", "MidJoin", "FinishJoin", "RetireSequence")
    out, err = waiting.communicate(timeout=COMMAND_TIMEOUT_S)
    assert waiting.returncode == 0, err
    assert out.startswith(f"finished: join of node {joins} at epoch")
    assert f"sequence {first}: join of node {joins}" in err
    entry = next(item for item in place.json("log") if item["epoch"] == first)
    assert (entry["reason"], len(entry["transformation"]["tokens"])) == ("more room", 3)

    replaces = register(place)
    waiting = place.start("replace", joins, "--with", replaces, "--json")
    second = the_sequence(place)
    interrupt(waiting)
    out, err = waiting.communicate(timeout=COMMAND_TIMEOUT_S)
    assert (waiting.returncode, out) == (1, "")
    assert f"`ringlog resume {second}` waits for it" in err
    assert f"replace of node {joins} by node {replaces}" in place.run("sequences").stdout

    drive(place, second, "StartReplace")
    before = place.start("resume", str(second))
    # It has seen what it waits for, and that is not the way back.
    assert before.stdout.readline().startswith(f"replace of node {joins}")
    left = place.run("cancel", str(second), "--yes", "--timeout", "0", code=1)
    assert f"`ringlog resume {second}` waits for it." in left.stderr
    after = place.start("resume", str(second))
    assert after.stdout.readline().startswith(f"replace of node {joins}")
    drive(place, second, "RetireSequence")
    for waiting, code in ((before, 1), (after, 0)):
        out, err = waiting.communicate(timeout=COMMAND_TIMEOUT_S)
        assert (waiting.returncode, f"cancelled: replace of node {joins}" in out) == (code, True)

    components = place.json("diff", "0", str(first))["components"]
    assert {"directory", "ring"} <= set(components)
    assert "+ " in place.run("diff", "0").stdout
    assert place.json("snapshot", "take")["epoch"] > second
    assert len(place.json("snapshot")["snapshots"]) >= 1


def test_what_is_wrong_is_said_in_a_sentence_with_its_exit_code(quiet):
    place = quiet
    for words, code, said in [
        (("join", "nope"), 2, "There is no node 'nope'"),
        (("join", "1"), 1, "refused (wrong_state)"),
        (("join", "1", "--tokens", "many"), 2, "neither a number of tokens"),
        (("plan", "join", "1"), 1, "refused (wrong_state)"),
        (("leave", "1", "--dead", "x"), 2, "There is no node 'x'"),
        (("cancel", "1"), 1, "`ringlog sequences` lists"),
        (("sequences", "1"), 2, "No sequence 1"),
        (("put", "orders", "1"), 2, "write KEYSPACE.TABLE"),
        (("get", "a.b", "1"), 2, "There is no table a.b"),
        (("delete", "a.b", "1"), 2, "There is no table a.b"),
        (("get", "a.b", "1", "-c", "some"), 2, "one, quorum, all"),
        (("owners", "a", "1"), 2, "There is no keyspace a"),
        (("diff", "0", "999"), 2, "There is no epoch 999"),
        (("schema", "create-keyspace", "a"), 2, "Give either --factor or"),
        (("schema", "create-table", "a", "x:int"), 2, "write KEYSPACE.TABLE"),
        (("schema", "drop-table", "a.b"), 1, "refused (unknown_table)"),
        (("schema", "--at", "999"), 2, "There is no epoch 999"),
    ]:
        finished = place.run(*words, code=code)
        assert said in finished.stderr, (words, finished.stderr)
        assert (finished.stdout, finished.stderr.count("\n")) == ("", 1), words
    assert place.json("join", "1", code=1)["code"] == "wrong_state"
    assert place.json("plan", "join", "1", code=1)["problem"]["code"] == "wrong_state"


def on_a_terminal(place, *words, typed=b"", columns=100):
    """Exit code and everything that a terminal would show."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        (*COMMAND, *words, "--state-dir", str(place.path)),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**place.environment, "TERM": "xterm", "COLUMNS": str(columns)},
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, typed)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:
        # The other end is closed.
        pass
    os.close(ours)
    return process.wait(timeout=COMMAND_TIMEOUT_S), shown.decode()


def test_on_a_terminal_there_are_bars_and_questions(quiet):
    place, joins = quiet, register(quiet)
    code, shown = on_a_terminal(place, "join", joins, "--timeout", "1")
    assert code == 1
    assert "\x1b[" in shown
    assert "━" in shown
    number = str(the_sequence(place))
    for words, doing, said in (
        (("shell", "-c", "pwd"), "reading the metadata", "/"),
        (("up",), "starting the cluster", "running already"),
    ):
        code, shown = on_a_terminal(place, *words)
        assert (code, doing in shown, said in shown) == (0, True, True), shown

    code, shown = on_a_terminal(place, "cancel", number, typed=b"n\n")
    assert code == 1
    assert "Nothing has moved yet" in shown
    assert "Nothing was changed." in shown
    assert not place.json("sequences", number)["cancelled"]
    code, shown = on_a_terminal(place, "cancel", number, "--no-wait", typed=b"y\n")
    assert code == 0, shown
    assert place.json("sequences", number)["cancelled"]
    drive(place, number, "RetireSequence")
