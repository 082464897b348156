"""Commits, batches and plans over HTTP."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from uuid import uuid4

import pytest

from tests.integration.test_cms_serving import commit_body, served

NODE = {"addresses": {"native": "10.0.0.1:1"}, "datacenter": "d", "rack": "r", "version": "1"}


async def test_a_commit_tells_epoch_hash_and_result():
    async with served() as client:
        entry_id = str(uuid4())
        status, answer = await client.commit("Register", entry_id=entry_id, host_id="a", **NODE)
        assert status == 200
        assert answer == {
            "epoch": 2,
            "entry_id": entry_id,
            "result": {"node": 1},
            "hash": client.engine.applied.hash.hex(),
            "entries": [],
        }


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (b"HTTP/1.1\r\n", True),
        (b"HTTP/1.1\r\nConnection: close\r\n", False),
        (b"HTTP/1.0\r\n", False),
    ],
)
async def test_a_connection_stays_open_or_not_as_the_client_wants(line, kept):
    async with served() as client:
        url = client.session._base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        data = json.dumps(commit_body("TriggerSnapshot")).encode()
        writer.write(
            b"POST /v1/commit %bHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (line, len(data), data)
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert " 200 OK" in head.splitlines()[0]
        headers = dict(item.split(": ", 1) for item in head.splitlines()[1:] if item)
        assert abs(parsedate_to_datetime(headers["Date"]) - datetime.now(UTC)).total_seconds() < 60
        length = int(headers["Content-Length"])
        assert json.loads(await reader.readexactly(length))["epoch"] == 2
        if kept:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" in await reader.readline()
        else:
            assert await reader.read() == b""
        writer.close()


async def test_a_retry_gets_the_first_answer():
    async with served() as client:
        entry_id = str(uuid4())
        first = await client.commit("SetExtension", entry_id=entry_id, name="a", value="b")
        await client.set(1)
        assert await client.commit("SetExtension", entry_id=entry_id, name="a", value="b") == first
        refused = await client.commit("StartJoin", entry_id=str(uuid4()), sequence=7)
        assert refused[0] == 409


async def test_a_refusal_says_why_and_stays():
    async with served() as client:
        entry_id = str(uuid4())
        status, problem = await client.commit(
            "PrepareJoin", entry_id=entry_id, node=4, tokens=["1"]
        )
        assert (status, problem["code"], problem["epoch"]) == (409, "unknown_node", 1)
        assert "node 4" in problem["detail"]
        await client.set(1)
        again = await client.commit("PrepareJoin", entry_id=entry_id, node=4, tokens=["1"])
        assert again == (status, problem)


async def test_an_entry_id_serves_one_transformation():
    async with served() as client:
        entry_id = str(uuid4())
        await client.commit("SetExtension", entry_id=entry_id, name="a", value="b")
        status, problem = await client.commit(
            "SetExtension", entry_id=entry_id, name="a", value="c"
        )
        assert (status, problem["code"], problem["field"]) == (409, "entry_id_reused", "entry_id")


async def test_entries_since_last_known_come_along():
    async with served() as client:
        await client.set(3)
        _, answer = await client.commit("SetExtension", name="z", value="z", last_known=2)
        assert [entry["epoch"] for entry in answer["entries"]] == [3, 4, 5]
        assert answer["entries"][-1]["hash"] == answer["hash"]
        assert answer["entries"][-1]["transformation"]["name"] == "z"


async def test_whoever_knows_a_later_epoch_is_not_answered():
    async with served() as client:
        status, problem = await client.commit("TriggerSnapshot", last_known=5)
        assert (status, problem["code"], problem["field"]) == (409, "diverged", "last_known")
        assert client.engine.applied.metadata.epoch == 1


async def test_a_batch_has_an_outcome_for_each():
    async with served() as client:
        good = commit_body("SetExtension", name="a", value="b")
        bad = commit_body("StartJoin", sequence=7)
        other = {**good, "transformation": {"kind": "TriggerSnapshot"}}
        body = {"commits": [good, bad, good, other]}
        status, answer = await client.post("/v1/commit/batch", body)
        first, second, third, fourth = answer["outcomes"]
        assert status == 200
        assert first["epoch"] == 2
        assert (second["status"], second["code"]) == (409, "unknown_sequence")
        assert third == first
        assert fourth["code"] == "entry_id_reused"


async def test_an_atomic_batch_is_all_or_nothing():
    async with served() as client:
        good = commit_body("SetExtension", name="a", value="b")
        bad = commit_body("StartJoin", sequence=7)
        last = commit_body("SetExtension", name="c", value="d")
        body = {"atomic": True, "commits": [good, bad, last]}
        status, problem = await client.post("/v1/commit/batch", body)
        assert (status, problem["code"], problem["index"]) == (409, "unknown_sequence", 1)
        assert client.engine.applied.metadata.epoch == 1
        status, answer = await client.post(
            "/v1/commit/batch", {"atomic": True, "commits": [good, last]}
        )
        assert status == 200
        assert [item["epoch"] for item in answer["outcomes"]] == [2, 3]


@pytest.mark.parametrize("count", [0, 1000])
async def test_batches_of_every_allowed_size(count):
    async with served() as client:
        commits = [commit_body("TriggerSnapshot") for _ in range(count)]
        status, answer = await client.post("/v1/commit/batch", {"commits": commits})
        assert (status, len(answer["outcomes"])) == (200, count)


async def test_a_plan_commits_nothing():
    async with served() as client:
        for number in (1, 2):
            fields = {**NODE, "addresses": {"native": f"10.0.0.{number}:1"}}
            await client.commit("Register", host_id=f"h{number}", **fields)
        await client.commit(
            "CreateKeyspace", name="k", replication={"strategy": "simple", "factor": 1}
        )
        await client.commit("UnsafeJoin", node=1, tokens=["0"])
        wanted = {"transformation": {"kind": "PrepareJoin", "node": 2, "tokens": ["100"]}}
        status, plan = await client.post("/v1/plan", wanted)
        assert (status, plan["outcome"], plan["epoch"]) == (200, "accepted", 5)
        assert plan["result"] == {"sequence": 6}
        (delta,) = plan["deltas"]
        assert (delta["left"], delta["right"]) == ("0", "100")
        assert (delta["before"], delta["after"]) == ([1], [2])
        assert plan["locks"][0]["sequence"] == 6
        assert (plan["rows"], plan["bytes"], plan["barrier"]["groups"]) == (None, None, [])
        assert client.engine.applied.metadata.epoch == 5
        wanted["transformation"]["node"] = 3
        _, plan = await client.post("/v1/plan", wanted)
        assert (plan["outcome"], plan["problem"]["code"]) == ("rejected", "unknown_node")
