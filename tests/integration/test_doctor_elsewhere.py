"""`ringlog doctor` of a cluster on other machines: processes tell of themselves what it asks."""

import json

import pytest

from tests.command import run
from tests.scripted import nodes, scripted

CLEAN = {
    "RINGLOG_TOKEN": None,
    "RINGLOG_TOKENS_FILE": None,
    "RINGLOG_POSTGRES_DSN": None,
    "RINGLOG_DRIVER_URL": None,
    "RINGLOG_START_COMMAND": None,
}


@pytest.fixture
def cluster():
    """A CMS, a node and a driver in one, whose disk is nearly full."""
    with scripted() as server:
        disk = {"free_bytes": 3, "total_bytes": 100}
        server.answers["GET /healthz"] = lambda _: {"cluster": "c", "disk": disk}
        server.answers["GET /readyz"] = lambda _: {}
        server.answers["GET /v1/nodes"] = nodes(server, 4)
        yield server


def findings(cluster, *words):
    result = run("doctor", "--url", cluster.url, "--json", *words, **CLEAN)
    assert result.exit_code == 1, result.output
    return {(item["code"], item["subject"]) for item in json.loads(result.output)["findings"]}


def test_nodes_and_drivers_tell_how_much_room_they_have(cluster):
    found = findings(cluster, "--driver-url", cluster.url)
    assert {("disk_full", "node 4"), ("disk_full", cluster.url)} <= found
    assert not {code for code, _ in findings(cluster, "--free", "3")} & {"disk_full"}


def test_a_driver_that_is_named_is_missed(cluster):
    silent = "http://127.0.0.1:1"
    assert ("driver_down", silent) in findings(cluster, "--driver-url", silent)
    assert "driver_down" not in {code for code, _ in findings(cluster)}


def test_an_address_of_a_driver_that_is_none_is_wrong_use(cluster):
    result = run("doctor", "--url", cluster.url, "--driver-url", "nowhere", **CLEAN)
    assert result.exit_code == 2
    assert "--driver-url: 'nowhere' is no address" in result.output
