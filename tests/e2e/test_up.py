"""`ringlog up` and the verbs around it, as a person types them: real processes, a real log."""

import asyncio
import importlib.util
import os
import signal

import pytest

from client.client import Client
from client.errors import RequestError
from services.local.marked import marked
from services.local.supervision import supervisor_of
from tests.e2e.place import COMMAND_TIMEOUT_S, a_place, eventually

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("services.cms.__main__") is None,
    reason="services/cms/__main__.py is missing: there is no CMS process to run",
)


@pytest.fixture
def place():
    with a_place() as found:
        yield found


def test_a_cluster_from_its_start_to_its_end(place):
    url = place.json("up", "--detach", "--port", "0", "--cms", "2")["url"]
    assert {item["role"] for item in place.listed()} == {"postgres", "cms"}

    status = place.json("status")
    begin = status["epoch"]
    assert status["url"] == url
    assert status["cluster"]["partitioner"] == "xxhash64"
    assert [item["state"] for item in status["processes"]] == ["running", "ready", "ready"]

    committed = place.json(
        "commit", "SetExtension", "name=motd", "value=hello", "--actor", "ada", "--reason", "test"
    )
    assert committed["epoch"] == begin + 1
    refused = place.json("commit", "ClearExtension", "name=nothing", code=1)
    assert refused["code"] == "unknown_extension"

    entries = place.json("log")
    assert [entries[index]["kind"] for index in (0, -1)] == ["Initialize", "SetExtension"]
    assert entries[-1]["actor"] == "ada"
    assert entries[-1]["hash"] == committed["hash"]
    assert entries[-1]["previous_hash"] == entries[-2]["hash"]

    members = place.json("show", "cms")["members"]
    assert [(item["name"], item["state"]) for item in members] == [
        ("cms_1", "active"),
        ("cms_2", "active"),
    ]
    assert [item["url"] for item in members] == [
        item["url"] for item in place.listed() if item["role"] == "cms"
    ]

    assert place.json("show", "extensions")["epoch"] == begin + 1
    assert place.json("show", "extensions", "--at", "1")["epoch"] == 1
    assert "motd" in place.run("show", "extensions").stdout
    assert place.run("show", "nonsense", code=2).stderr.startswith("There is no component")
    assert place.run("show", "ring", "--at", "99", code=2).stderr

    assert place.json("up", "--detach")["status"] == "running already"
    assert place.run("up", "--cms", "3", code=1).stderr.endswith("`ringlog down` first.\n")

    assert place.run("down").stdout.startswith("stopped: everything")
    assert place.living() == []
    assert place.listed() == []
    assert place.run("down").stdout.startswith("Nothing ran in")
    assert place.run("status", code=3).stderr.startswith("No cluster runs in")


def test_a_killed_cms_and_a_killed_postgres_are_back_where_they_were(place):
    place.json("up", "--detach", "--port", "0", "--cms", "2")
    for name in ("cms-1", "postgres"):
        before, after = place.killed(name)

        assert after["url"] == before["url"]
        assert place.json("commit", "TriggerSnapshot")["epoch"] > 1

    def all_ready():
        states = [item["state"] for item in place.json("status")["processes"]]
        return states == ["running", "ready", "ready"]

    eventually(all_ready)


async def test_any_postgres_will_do_and_tokens_are_asked_for(place, blank_database):
    place.environment["RINGLOG_POSTGRES_DSN"] = blank_database
    place.path.mkdir()
    (place.path / "tokens.json").write_text('{"admin": "a-secret", "viewer": "another"}')
    url = (await asyncio.to_thread(place.json, "up", "--detach", "--port", "0"))["url"]

    assert [item["role"] for item in place.listed()] == ["cms"]
    assert not (place.path / "postgres").exists()
    async with Client(url, "another") as client:
        begin = (await client.status()).epoch
        with pytest.raises(RequestError, match="viewer") as caught:
            await client.commit({"kind": "TriggerSnapshot"})
        assert caught.value.problem.code == "forbidden"
    async with Client(url, "a-secret") as client:
        assert (await client.commit({"kind": "TriggerSnapshot"})).epoch == begin + 1

    del place.environment["RINGLOG_POSTGRES_DSN"]
    await asyncio.to_thread(place.run, "down")
    finished = await asyncio.to_thread(place.run, "up", code=1)
    assert finished.stderr.startswith("The cluster's log is in the RINGLOG_POSTGRES_DSN")


def test_a_second_start_goes_on_also_after_kill_9_of_the_supervisor(place):
    url = place.json("up", "--detach", "--port", "0")["url"]
    place.json("commit", "SetExtension", "name=motd", "value=hello")
    before = place.json("status")
    supervisor = supervisor_of(place.path / "supervisor.pid")
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: supervisor_of(place.path / "supervisor.pid") is None)

    assert place.json("up", "--detach")["url"] == url
    after = place.json("status")
    assert (after["cluster"], after["epoch"]) == (before["cluster"], before["epoch"])
    assert len(marked(place.path)) == 1

    again = supervisor_of(place.path / "supervisor.pid")
    assert again is not None
    os.kill(again, signal.SIGKILL)
    place.run("down")
    assert place.living() == []


def test_ctrl_c_in_the_foreground_is_clean(place):
    process = place.start("up", "--port", "0", "--partitioner", "murmur3")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("ready: http://127.0.0.1:")
    assert place.json("status")["cluster"]["partitioner"] == "murmur3"

    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=COMMAND_TIMEOUT_S)

    assert process.returncode == 0
    assert errors == ""
    assert place.living() == []
