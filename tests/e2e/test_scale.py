"""`ringlog scale`: nodes join and leave a cluster that runs, whatever dies meanwhile."""

import json
import os
import signal
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.place import COMMAND_TIMEOUT_S, a_place, eventually

READ_TIMEOUT_S = 20.0
MOVE_TIMEOUT_S = 240.0
ROWS = 40
KEYSPACE = ("CreateKeyspace", "name=shop", 'replication:={"strategy": "simple", "factor": 3}')
TABLE = (
    "CreateTable",
    *("keyspace=shop", "name=orders", 'partition_key:=["id"]'),
    'columns:=[{"name": "id", "type": "string"}, {"name": "price", "type": "bigint"}]',
)


@pytest.fixture
def place():
    with a_place() as found:
        yield found


def names(place, role="node"):
    return [item["name"] for item in place.listed() if item["role"] == role]


def joined(place):
    """Names of those who own ranges, all of whom must run here."""
    found = place.json("nodes")["nodes"]
    return [node["name"] for node in found if node["state"] == "joined"]


def runs(pid):
    return Path(f"/proc/{pid}").exists()


def scaling(place, nodes):
    """The command, while it waits."""
    return place.start("scale", "--nodes", str(nodes))


def test_nodes_come_and_go_while_the_driver_dies(place):
    place.json("up", "--detach", "--port", "0", "--nodes", "3", "--tokens")
    states = {item["name"]: item["state"] for item in place.json("status")["processes"]}
    assert states["driver-1"] == "ready"

    waiting = scaling(place, 5)
    eventually(lambda: "node-4" in names(place))
    before = place.process("driver-1")
    os.kill(before["pid"], signal.SIGKILL)
    # At once: with the driver back the joins would soon be over.
    waiting.send_signal(signal.SIGINT)
    _, complaints = waiting.communicate(timeout=COMMAND_TIMEOUT_S)
    assert waiting.returncode == 1
    assert "`ringlog scale --nodes 5` waits for them again" in complaints
    eventually(lambda: place.process("driver-1")["pid"] != before["pid"])
    assert place.process("driver-1")["url"] == before["url"]
    place.run("scale", "--nodes", "5")
    assert joined(place) == names(place) == [f"node-{number}" for number in range(1, 6)]

    last = place.process("node-5")
    assert place.json("scale", "--nodes", "4")["left"] == ["node-5"]
    assert not runs(last["pid"])
    assert joined(place) == names(place) == ["node-1", "node-2", "node-3", "node-4"]
    assert (place.path / "node-5.left-5").is_dir()

    place.run("commit", *KEYSPACE)
    refused = place.json("scale", "--nodes", "2", code=1)
    assert "wants 3 replicas and 2 nodes would be left" in refused["detail"]
    assert len(joined(place)) == 4

    place.run("down")
    assert place.living() == []
    assert "No cluster runs" in place.run("scale", "--nodes", "4", code=3).stderr
    assert "`ringlog scale`" in place.run("up", "--nodes", "3", code=1).stderr
    place.run("up", "--detach")
    assert sorted(joined(place)) == ["node-1", "node-2", "node-3", "node-4"]
    assert place.json("scale", "--nodes", "4")["joined"] == []


def test_later_nodes_of_a_start_join_and_who_left_is_stopped(place):
    place.json("up", "--detach", "--port", "0", "--nodes", "1", "--no-driver")
    assert "without a driver" in place.run("scale", "--nodes", "2", code=1).stderr
    place.run("down")

    assert place.json("up", "--detach", "--nodes", "2", "--driver")["waiting"] == ["node-2"]

    eventually(lambda: joined(place) == ["node-1", "node-2"])
    place.run("leave", "node-1")
    eventually(lambda: names(place) == ["node-2"])
    assert json.loads((place.path / "cluster.json").read_text())["nodes_wanted"] == 1


def ended(waiting):
    """What the command says, once rows have moved."""
    said, complaints = waiting.communicate(timeout=MOVE_TIMEOUT_S)
    assert waiting.returncode == 0, complaints
    return said


def row(place, key, price=None):
    """Write a row at quorum, or read it."""
    url = next(item["url"] for item in place.listed() if item["role"] == "node")
    path = f"/v1/tables/shop/orders/rows/{urllib.parse.quote(key)}?consistency=quorum"
    body = None if price is None else json.dumps({"columns": {"price": price}}).encode()
    method, headers = "GET" if price is None else "PUT", {"Content-Type": "application/json"}
    request = urllib.request.Request(url + path, data=body, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=READ_TIMEOUT_S) as response:
        return json.load(response)


def rows(place):
    return [row(place, f"o{number}")["columns"]["price"] for number in range(ROWS)]


def test_rows_move_with_their_ranges(place):
    place.json("up", "--detach", "--port", "0", "--nodes", "3")
    place.run("commit", *KEYSPACE)
    place.run("commit", *TABLE)
    for number in range(ROWS):
        row(place, f"o{number}", number)

    waiting = scaling(place, 4)
    eventually(lambda: place.json("sequences")["sequences"])
    os.kill(place.process("driver-1")["pid"], signal.SIGKILL)
    assert ended(waiting) == "4 nodes: node-4 joined\n"
    assert rows(place) == list(range(ROWS))

    assert ended(scaling(place, 3)) == "3 nodes: node-4 left\n"
    assert rows(place) == list(range(ROWS))
    place.run("down")
    assert place.living() == []
