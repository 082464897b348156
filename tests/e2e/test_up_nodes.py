"""`ringlog up` with nodes and with Kafka: real processes that die and come back."""

import asyncio
import json
import os
import shutil
import signal
import stat
import urllib.request

import pytest
from aiokafka import AIOKafkaConsumer

from log.messages import TOPIC
from tests.e2e.place import COMMAND_TIMEOUT_S, a_place, eventually

APPLY_WAIT_S = 15
READ_TIMEOUT_S = 15.0


@pytest.fixture
def place():
    with a_place() as found:
        yield found


def answer(place, url):
    """As somebody asks who has the cluster's token, where it wants one."""
    tokens = place.path / "tokens.json"
    headers = {}
    if tokens.exists():
        headers["Authorization"] = f"Bearer {json.loads(tokens.read_text())['viewer']}"
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=APPLY_WAIT_S + 5) as response:
        return json.load(response)


def committed(place, value):
    return place.json("commit", "SetExtension", "name=motd", f"value={value}")["epoch"]


def nodes_at(place, epoch):
    """Epoch and digest of each node once it has applied `epoch`; they must be the same."""
    urls = [item["url"] for item in place.listed() if item["role"] == "node"]
    found = [answer(place, f"{url}/v1/epoch?at_least={epoch}&wait={APPLY_WAIT_S}") for url in urls]
    assert {item["epoch"] for item in found} == {epoch}, found
    assert len({item["digest"] for item in found}) == 1, found
    return found


def test_nodes_take_tokens_follow_die_and_come_back(place):
    said = place.json(
        *("up", "--detach", "--port", "0", "--cms", "2"),
        *("--nodes", "3", "--tokens", "--name", "shop", "--no-driver"),
    )
    assert said["waiting"] == []
    assert stat.S_IMODE((place.path / "tokens.json").stat().st_mode) == 0o600
    status = place.json("status")
    assert status["cluster"]["name"] == "shop"
    assert [item["state"] for item in status["processes"]] == ["running", *["ready"] * 5]

    watermarks = nodes_at(place, committed(place, "first"))
    assert [item["node"] for item in watermarks] == [1, 2, 3]

    before, after = place.killed("node-2")
    assert after["url"] == before["url"]
    tip = committed(place, "second")
    eventually(lambda: place.json("status")["processes"][-2]["state"] == "ready")
    nodes_at(place, tip)

    def nodes_up():
        found = place.json("nodes")["nodes"]
        seen = [(node["liveness"], node["watermark"], node["lag"]) for node in found]
        return found if seen == [("up", tip, 0)] * 3 else None

    found = eventually(nodes_up)
    assert [(node["id"], node["name"], node["rack"]) for node in found] == [
        (1, "node-1", "r1"),
        (2, "node-2", "r2"),
        (3, "node-3", "r3"),
    ]
    assert [(node["state"], node["tokens"]) for node in found] == [("joined", 16)] * 3
    assert "node-3" in place.run("nodes").stdout

    assert place.json("up", "--detach", "--nodes", "3")["status"] == "running already"
    assert "another --nodes" in place.run("up", "--nodes", "4", code=1).stderr
    place.run("down")
    assert place.living() == []


def test_a_cluster_starts_with_a_node_that_was_set_back(place):
    """Only a running cluster can repair it."""
    place.json("up", "--detach", "--port", "0", "--nodes", "2", "--no-driver")
    place.run("down")
    state, copy = place.path / "node-2", place.path / "copy"
    shutil.copytree(state, copy)
    place.json("up", "--detach")
    tip = committed(place, "forgotten")
    eventually(lambda: {node["watermark"] for node in place.json("nodes")["nodes"]} == {tip})
    place.run("down")
    shutil.rmtree(state)
    copy.rename(state)
    place.json("up", "--detach")
    eventually(lambda: place.json("status")["processes"][-1]["state"] != "ready")
    place.run("down")

    said = place.json("up", "--detach")

    assert (said["status"], said["unrepaired"]) == ("ready", ["node-2"])
    assert place.json("status")["processes"][-1]["state"] != "ready"
    place.run("down")
    assert "node-2: was set back" in place.run("up", "--detach").stdout


def test_a_second_start_keeps_addresses_and_without_a_driver_more_nodes_stay_registered(place):
    place.json("up", "--detach", "--port", "0", "--cms", "2", "--nodes", "1", "--no-driver")
    before = {item["name"]: item["url"] for item in place.listed()}
    place.run("down")
    assert place.living() == []
    assert "has to leave" in place.run("up", "--nodes", "0", code=1).stderr

    said = place.json("up", "--detach", "--cms", "1", "--nodes", "2")

    assert said["waiting"] == ["node-2"]
    assert "No driver" in place.run("status").stdout
    after = {item["name"]: item["url"] for item in place.listed()}
    assert after.keys() == {"postgres", "cms-1", "node-1", "node-2"}
    assert before.items() - after.items() == {("cms-2", before["cms-2"])}
    assert [item["name"] for item in place.json("show", "cms")["members"]] == ["cms_1"]
    nodes = place.json("nodes")["nodes"]
    assert [(node["state"], node["tokens"]) for node in nodes] == [
        ("joined", 16),
        ("registered", 0),
    ]
    nodes_at(place, committed(place, "more"))


async def published(bootstrap, tip):
    """The epochs in the topic, from its beginning, once `tip` is among them."""
    found = []
    async with (
        asyncio.timeout(READ_TIMEOUT_S),
        AIOKafkaConsumer(TOPIC, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as topic,
    ):
        while tip not in found:
            found.append(int((await topic.getone()).key))
    return found


def test_a_broker_that_dies_delays_and_loses_nothing(place):
    place.json(
        *("up", "--detach", "--port", "0", "--nodes", "2", "--fanout", "kafka", "--no-driver")
    )
    roles = [item["role"] for item in place.listed()]
    assert roles == ["postgres", "kafka", "cms", "node", "node"]
    nodes_at(place, committed(place, "before"))

    os.kill(place.process("kafka")["pid"], signal.SIGKILL)
    before = place.process("kafka")
    tip = committed(place, "meanwhile")
    nodes_at(place, tip)
    eventually(lambda: place.process("kafka")["pid"] != before["pid"])
    assert place.process("kafka")["url"] == before["url"]

    tip = committed(place, "after")
    nodes_at(place, tip)
    epochs = asyncio.run(published(before["url"], tip))
    assert sorted(set(epochs)) == list(range(1, tip + 1))

    place.run("down")
    assert place.living() == []


def test_a_node_started_by_hand_is_one_of_them(place):
    url = place.json("up", "--detach", "--port", "0")["url"]
    folder = place.path / "by-hand"
    process = place.start(
        "node",
        "--seeds",
        url,
        "--listen",
        "127.0.0.1:0",
        "--name",
        "nine",
        "--advertise",
        "127.0.0.1:9",
        "--rack",
        "r9",
        state_dir=folder,
    )

    def known():
        return place.json("nodes")["nodes"]

    found = eventually(known)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=COMMAND_TIMEOUT_S)

    assert process.returncode == 0
    assert [(node["address"], node["rack"], node["state"]) for node in found] == [
        ("127.0.0.1:9", "r9", "registered")
    ]
    assert "--seeds" in place.run("node", code=2).stderr
