"""One cluster by Docker Compose, from the first start to the last, in the order of the tests."""

import json
import re

import pytest

from tests.compose.monitored import alerted, alerts, documented, drawn
from tests.compose.stack import DOWN_TIMEOUT_S, MARK, PROFILES, docker, until
from tests.e2e.guides import ANYTHING, block_with, blocks
from tests.tidy.source import ROOT

# Building and starting take minutes where nothing is cached.
pytestmark = pytest.mark.timeout(1500)

GUIDE = ROOT / "docs/guides/compose.md"
ROWS = 1000
ONCE = {"secrets", "migrate", "found"}
CMS = ("cms-1", "cms-2")
NODES = ("node-1", "node-2", "node-3")
LONG_RUNNING = {*CMS, *NODES, "postgres", "kafka", "driver", "spark-master", "spark-worker"}
JOIN_TIMEOUT_S = 420.0
BACK_TIMEOUT_S = 120.0
TERMINATED = 143
"""How Java ends when it is asked to."""


def test_everything_is_up_and_healthy(stack):
    found = stack.containers()

    assert stack.healthy() == LONG_RUNNING
    assert {name: found[name]["ExitCode"] for name in ONCE} == dict.fromkeys(ONCE, 0)
    assert found.keys() == LONG_RUNNING | ONCE


def test_the_cluster_is_founded_and_nodes_own_it(stack):
    nodes = stack.ringlog("nodes")["nodes"]
    members = stack.ringlog("show", "cms")["members"]

    assert {item["addresses"]["http"] for item in nodes} == {f"{name}:7500" for name in NODES}
    assert {item["state"] for item in nodes} == {"joined"}
    assert {item["url"] for item in members} == {f"http://{name}:7401" for name in CMS}


def test_only_what_is_needed_is_published_and_only_here(stack):
    bound = {
        (service, entry["HostIp"])
        for service, item in stack.inspected().items()
        for entries in item["NetworkSettings"]["Ports"].values()
        for entry in entries or ()
    }

    assert bound == {(name, "127.0.0.1") for name in CMS}


def test_published_ports_are_on_this_machine_whatever_the_profile(stack):
    shown = stack.run(*PROFILES, "config", "--format", "json", defaults=True)
    services = json.loads(shown)["services"]
    ports = {
        (name, port["host_ip"], port["published"])
        for name, service in services.items()
        for port in service.get("ports", ())
    }

    assert ports == {
        ("cms-1", "127.0.0.1", "7480"),
        ("cms-2", "127.0.0.1", "7481"),
        ("prometheus", "127.0.0.1", "9090"),
        ("grafana", "127.0.0.1", "3000"),
    }
    for name, service in services.items():
        assert service["deploy"]["resources"]["limits"].keys() >= {"cpus", "memory"}, name
        is_ours = service["image"].startswith("ringlog:")
        assert not is_ours or service["cap_drop"] == ["ALL"], name
        assert (name in ONCE | {"load"}) == ("restart" not in service), name


@pytest.mark.parametrize("service", CMS)
def test_without_a_token_nothing_is_told(stack, service):
    assert stack.get(service, "/v1/metadata")[0] == 401
    status, text = stack.get(service, "/v1/metadata/cluster", stack.token())
    assert (status, json.loads(text)["name"]) == (200, "ringlog")


def test_processes_are_nobody_special(stack):
    for service in (*CMS, *NODES, "driver", "spark-worker"):
        assert stack.run("exec", "-T", service, "id", "-u").strip() == "7400", service
    mode = stack.run("exec", "-T", "cms-1", "stat", "-c", "%a", "/run/ringlog/tokens.json")
    assert mode.strip() == "600"


def test_the_doctor_finds_nothing_wrong(stack):
    """In a container, with no more than its environment and the files it is given."""
    found = stack.ringlog("doctor")

    assert found["healthy"], found["findings"]
    checked = {item["name"]: item["state"] for item in found["checks"]}
    # Whoever names a cluster by its address alone knows of processes and disks what they tell.
    asked = ("connection", "postgres", "processes", "versions", "lag", "disk")
    assert {checked[name] for name in asked} == {"well"}


def test_the_guide_does_what_it_says(stack):
    """From the first look to the rows, and the fourth node that joins by Spark."""
    for block, expected in blocks(GUIDE):
        printed = " ".join(stack.typed(block, timeout_s=JOIN_TIMEOUT_S).split())
        for line in expected:
            parts = (re.escape(" ".join(part.split())) for part in line.split(ANYTHING))
            assert re.search(".*?".join(parts), printed), f"{line!r} is not in\n{printed}"

    nodes = stack.ringlog("nodes")["nodes"]
    assert [item["state"] for item in nodes] == ["joined"] * 4
    # The rows were moved there, not in the driver.
    assert "ringlog-movement" in stack.run("logs", "--no-log-prefix", "spark-master")


def test_what_is_drawn_and_alerted_is_told(stack):
    """Every figure of the dashboard, the alerts and the guide is in /metrics of some process."""
    token = stack.token()
    # Nothing is told of snapshots before there is one.
    stack.ringlog("snapshot", "take")
    text = "".join(stack.get(name, "/metrics", token)[1] for name in CMS)
    ask = (
        "import sys, urllib.request as u; print(u.urlopen(u.Request(sys.argv[1],"
        " headers={'Authorization': 'Bearer ' + sys.argv[2]})).read().decode())"
    )
    for url in ("http://node-1:7500/metrics", "http://driver:7600/metrics"):
        text += stack.run("exec", "-T", "driver", "python", "-c", ask, url, token)
    told = set(re.findall(r"^# TYPE (ringlog_\w+)", text, re.MULTILINE))

    assert drawn() | alerted() <= told
    assert documented() == told


def test_prometheus_takes_the_rules_and_hears_everybody(stack):
    stack.up("prometheus", profiles=("monitoring",))
    folder = "/etc/prometheus/prometheus.yml"
    stack.run(
        "--profile", "monitoring", "exec", "-T", "prometheus", "promtool", "check", "config", folder
    )

    def heard():
        targets = json.loads(stack.get("prometheus", "/api/v1/targets")[1])["data"]["activeTargets"]
        return {item["labels"]["instance"]: item["health"] for item in targets}

    def evaluated():
        groups = json.loads(stack.get("prometheus", "/api/v1/rules")[1])["data"]["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    everybody = {*(f"{name}:7401" for name in CMS), *NODES, "node-4", "driver:7600"}
    all_up = dict.fromkeys(everybody, "up")
    until(lambda: heard() == all_up, BACK_TIMEOUT_S, "every target answers", heard)
    # Before a rule was evaluated once, nobody knows.
    all_ok = dict.fromkeys(alerts(), "ok")
    until(lambda: evaluated() == all_ok, BACK_TIMEOUT_S, "every rule is evaluated", evaluated)
    stack.run("--profile", "monitoring", "rm", "--stop", "--force", "prometheus")


@pytest.mark.parametrize("service", ["cms-1", "node-2", "driver"])
def test_a_process_that_dies_comes_back_by_itself(stack, service):
    before = stack.inspected()[service]["RestartCount"]
    stack.run("exec", "-T", service, "sh", "-c", "kill -9 -1", check=False)

    until(
        lambda: stack.inspected()[service]["RestartCount"] > before,
        BACK_TIMEOUT_S,
        f"{service} is started again",
    )
    until(lambda: service in stack.healthy(), BACK_TIMEOUT_S, f"{service} is healthy")


def test_containers_that_are_killed_lose_nothing(stack):
    """Postgres and a node at once, by the engine; nobody starts them again but the operator."""
    found = stack.inspected()
    docker("kill", found["postgres"]["Id"], found["node-1"]["Id"])
    stack.up(profiles=("node-4",))

    assert stack.healthy() == LONG_RUNNING | {"node-4"}
    said = stack.load("check", "--rows", str(ROWS))
    assert f"{ROWS} of {ROWS} rows are there" in said


def test_a_second_start_goes_on_with_the_same_cluster(stack):
    """And everybody had ended in good order before."""
    before = (stack.ringlog("show", "cluster")["id"], stack.token("admin"))
    epoch = stack.ringlog("status")["epoch"]
    stop, down, _ = block_with(GUIDE, "down --volumes").splitlines()
    stack.typed(stop, timeout_s=DOWN_TIMEOUT_S)
    codes = {name: item["ExitCode"] for name, item in stack.containers().items()}
    assert set(codes.values()) <= {0, TERMINATED}, codes
    stack.typed(down, timeout_s=DOWN_TIMEOUT_S)

    stack.up(profiles=("node-4",))

    assert (stack.ringlog("show", "cluster")["id"], stack.token("admin")) == before
    assert stack.ringlog("status")["epoch"] >= epoch
    assert f"{ROWS} of {ROWS} rows are there" in stack.load("check", "--rows", str(ROWS))


def test_a_node_leaves_as_the_guide_says(stack):
    stack.typed(block_with(GUIDE, "ringlog leave node-4"), timeout_s=JOIN_TIMEOUT_S)

    states = {item["addresses"]["http"]: item["state"] for item in stack.ringlog("nodes")["nodes"]}
    assert states.pop("node-4:7500", "left") == "left"
    assert states == {f"{name}:7500": "joined" for name in NODES}
    assert stack.healthy() == LONG_RUNNING


def test_down_leaves_nothing(stack):
    stack.typed(block_with(GUIDE, "down --volumes").splitlines()[2], timeout_s=DOWN_TIMEOUT_S)
    assert not stack.containers()
    # And what only profiles have that were not named.
    stack.run(*PROFILES, "down", "--volumes", timeout_s=DOWN_TIMEOUT_S)

    assert not stack.containers()
    assert not docker("volume", "ls", "--quiet", "--filter", MARK)
