"""Rows over HTTP on several nodes: what was acknowledged at a quorum is read at a quorum."""

from __future__ import annotations

import asyncio
import base64
import time
from typing import Any

import msgspec
import pytest

from metadata.directory import NodeId
from metadata.limits import ID_MAX
from metadata.schema import Simple
from metadata.tokens import FULL, Token
from services.http.data_messages import REPLICA_WRITE_PATH, ReplicaWrite, WriteAnswer
from services.local.waiting import until
from services.node.data.messaging import MESSAGE_TIMEOUT_S
from services.node.data.timestamps import Timestamps
from store.rows import row_of
from tests.integration.data_cluster import data_cluster, held_back, in_path, stuck
from tests.integration.nodes import TIMEOUT_S
from transformations.join import UnsafeJoin
from transformations.leave import Assassinate
from transformations.schema import AlterKeyspace, CreateTable

LOSS = "a test"
KEYS = [f"k{number}" for number in range(200)]


@pytest.fixture
async def three(database, tmp_path):
    async with data_cluster(database, tmp_path) as made:
        yield made


@pytest.fixture
async def four(database, tmp_path):
    """Three nodes that own everything, and one that owns nothing yet."""
    async with data_cluster(database, tmp_path, spare=1) as made:
        yield made


def now_us():
    return int(time.time() * 1_000_000)


async def got(three, wanted, level):
    """A row, or that there is none. One that has acknowledged it need not be the one that is
    asked, so at `one` a while may pass."""
    status, found = 0, dict[str, Any]()
    async with asyncio.timeout(10):
        while status != wanted:
            assert status == 0 or level == "one", found
            query = f"?consistency={level}"
            status, found = await three.get("k", number=1 if level == "one" else 2, query=query)
    return found


async def test_what_is_put_is_got_until_it_is_deleted(three):
    for level in ("one", "quorum", "all"):
        query = f"?consistency={level}"
        status, written = await three.put("k", {"a_string": "x"}, number=1, query=query)
        assert status == 200, written
        found = await got(three, 200, level)
        assert found["columns"]["a_string"] == "x"
        assert found["timestamp"] == written["timestamp"]
        assert found["epoch"] == three.home.applied.metadata.epoch
        status, deleted = await three.delete("k", number=1, query=query)
        assert status == 200
        assert deleted["timestamp"] > written["timestamp"]
        assert (await got(three, 404, level))["code"] == "no_row"


async def test_a_quorum_goes_on_without_one_node_and_says_whom_all_would_need(three):
    await three.put("k", {"a_int": 1})
    await three.stop(3)
    status, _ = await three.put("k", {"a_int": 2})
    assert status == 200
    assert (await three.get("k", number=2))[1]["columns"]["a_int"] == 2
    status, problem = await three.put("k", {"a_int": 3}, query="?consistency=all")
    assert (status, problem["code"]) == (503, "write_unknown")
    assert "node 3" in problem["detail"]
    status, problem = await three.get("k", query="?consistency=all")
    assert (status, problem["code"]) == (503, "unavailable_replicas")
    assert "node 3" in problem["detail"]

    await three.stop(2)
    status, problem = await three.get("k")
    assert (status, problem["code"]) == (503, "unavailable_replicas")
    assert "node 2" in problem["detail"]
    assert (await three.get("k", query="?consistency=one"))[0] == 200


async def test_a_write_that_reached_nobody_was_not_made(four):
    """A node that owns nothing coordinates all the same."""
    for number in (2, 3):
        await four.stop(number)
    await four.stop(1)
    status, problem = await four.put("k", {"a_int": 1}, number=4)
    assert (status, problem["code"]) == (503, "unavailable_replicas")


async def test_a_row_that_is_written_is_not_denied_because_an_old_segment_is_damaged(three):
    """Whether something beats it is looked for in segments, after it is on disk."""
    await three.put("k", {"a_int": 1}, timestamp=2000, query="?consistency=all")
    store = three.nodes[1].plane.store
    (segment,) = await store.flush(three.table(), (FULL,))
    (three.settings(1).state_dir / "data" / segment.path).unlink()
    for number in (2, 3):
        await three.stop(number)

    status, problem = await three.put("k", {"a_int": 2}, timestamp=1000)

    assert (status, problem["code"]) == (503, "write_unknown")
    assert "node 1: unusable_segment" in problem["detail"]


async def test_a_read_brings_the_newest_version_to_a_quorum(three):
    """Otherwise the next read, by others, could see the older one again."""
    await three.put("k", {"a_int": 1}, query="?consistency=all")
    table = three.table()
    partitioner = three.home.applied.metadata.cluster.partitioner
    newer = row_of(table, partitioner, "k", columns={"a_int": 2}, timestamp=now_us())
    await three.nodes[1].plane.store.put(table, [newer])

    status, found = await three.get("k", number=1)
    assert (status, found["columns"]["a_int"], found["timestamp"]) == (200, 2, newer.timestamp)
    having = [number for number in three.nodes if await three.held(number, "k") == newer]
    assert len(having) >= 2
    for number in three.nodes:
        assert (await three.get("k", number=number))[1]["columns"]["a_int"] == 2


async def test_a_node_that_is_stuck_holds_nobody_up(three, monkeypatch):
    monkeypatch.setattr("services.node.data.rounds.STRAGGLERS_MAX", 5)
    clock = asyncio.get_running_loop().time
    async with stuck(three.nodes[2], "get"), stuck(three.nodes[2], "put"):
        for number in range(20):
            assert (await three.put(f"k{number}", {"a_int": number}))[0] == 200
        assert len(three.nodes[1].plane.coordinator._rounds._stragglers) <= 6
        before_s = clock()
        _, found = await three.get("k1", number=1)
        assert found["columns"]["a_int"] == 1
        assert clock() - before_s < MESSAGE_TIMEOUT_S, "another was asked before it gave up"


async def moved_key(cluster, token=0):
    """A key whose owners changed when node 4 came, and one whose owners did not."""
    before = {key: cluster.owners(key) for key in KEYS}
    await cluster.home.commit(
        UnsafeJoin(node=NodeId(4), tokens=(Token(token),), accept_loss=LOSS),
    )
    after = {key: cluster.owners(key) for key in before}
    moved = next(key for key in before if set(before[key]) != set(after[key]))
    still = next((key for key in before if before[key] == after[key]), None)
    return moved, still


async def test_a_stale_coordinator_is_refused_catches_up_and_keeps_the_timestamp(
    database, tmp_path
):
    async with data_cluster(database, tmp_path, nodes=3, factor=2, spare=1) as cluster:
        stale = cluster.nodes[1]
        epoch = stale.engine.applied.metadata.epoch
        async with held_back(stale) as release:
            moved, still = await moved_key(cluster)
            tip = cluster.home.applied.metadata.epoch
            for number in (2, 3, 4):
                assert await cluster.nodes[number].engine.reached(tip, TIMEOUT_S)

            status, written = await cluster.put(still, {"a_int": 1}, number=1)
            assert (status, written["epoch"]) == (200, epoch), "its owners are the same"

            # A clock that stands still would give one more to a second timestamp.
            stale.plane.coordinator._timestamps = Timestamps(lambda: 1000)
            putting = asyncio.ensure_future(
                cluster.put(moved, {"a_int": 2}, number=1, query="?consistency=all")
            )
            await until(lambda: stale.engine._published.is_awaited, timeout_s=5)
            assert not putting.done()
            release()
            status, written = await putting
        assert status == 200, written
        assert written["epoch"] >= tip
        assert written["timestamp"] == 1000
        for owner in cluster.owners(moved):
            assert (await cluster.held(owner, moved)).timestamp == written["timestamp"]


async def test_answers_are_counted_by_the_owners_of_the_moment_they_came(database, tmp_path):
    """A write that the owners of before acknowledged is made again where its range went."""
    async with data_cluster(database, tmp_path, nodes=3, factor=2, spare=1) as cluster:
        candidates = [key for key in KEYS if set(cluster.owners(key)) == {1, 2}]
        async with stuck(cluster.nodes[2], "put") as release:
            putting = {
                key: asyncio.ensure_future(cluster.put(key, {"a_int": 1}, number=1))
                for key in candidates
            }
            await until(lambda: cluster.nodes[2].engine.gate.running > 0, timeout_s=5)
            joining = UnsafeJoin(node=NodeId(4), tokens=(Token(0),), accept_loss=LOSS)
            tip = (await cluster.commit(joining)).epoch
            release()
            answers = {key: await answer for key, answer in putting.items()}
        moved = [key for key in candidates if 4 in cluster.owners(key)]
        assert moved
        for key in moved:
            status, answer = answers[key]
            assert (status, answer["epoch"]) == (200, tip)
            assert await cluster.held(4, key) is not None


async def test_a_coordinator_that_cannot_catch_up_says_so(three, monkeypatch):
    monkeypatch.setattr("services.node.data.coordinator.CATCH_UP_TIMEOUT_S", 0.05)
    async with held_back(three.nodes[1]):
        await three.home.commit(AlterKeyspace(name="shop", replication=Simple(2), accept_loss=LOSS))
        for number in (2, 3):
            tip = three.home.applied.metadata.epoch
            assert await three.nodes[number].engine.reached(tip, TIMEOUT_S)
        status, problem = await three.get("k", number=1)
        assert (status, problem["code"]) == (503, "unavailable_replicas")
        assert "coordinator_behind" in problem["detail"]
    assert (await three.get("k", number=1))[0] == 404


async def test_a_replica_that_is_behind_catches_up_before_it_answers(three):
    old = three.table()
    late = three.nodes[2]
    async with held_back(late) as release:
        await three.home.commit(
            CreateTable(
                keyspace="shop", name="u", columns=old.columns, partition_key=("id", "a_int")
            )
        )
        tip = three.home.applied.metadata.epoch
        assert await three.nodes[1].engine.reached(tip, TIMEOUT_S)
        status, problem = await three.put("k,1", {}, table="u", query="?consistency=all")
        assert (status, problem["code"]) == (503, "write_unknown")
        assert "node 2: replica_behind" in problem["detail"]

        putting = asyncio.ensure_future(three.put("k,1", {}, table="u", query="?consistency=all"))
        await until(lambda: late.engine._published.is_awaited, timeout_s=5)
        release()
        assert (await putting)[0] == 200
    assert await three.held(2, "k,1", "u") is not None


async def test_a_node_that_does_not_own_the_range_refuses(four):
    """And so does a message to another node, or from another cluster."""
    metadata = four.home.applied.metadata
    row = row_of(four.table(), metadata.cluster.partitioner, "k", columns={}, timestamp=1)
    message = ReplicaWrite(epoch=metadata.epoch, table=row.table, rows=(row,))
    headers = {"Ringlog-Cluster": metadata.cluster.id, "Ringlog-To": "4"}

    async def sent(**more):
        url = f"{four.nodes[4].url}{REPLICA_WRITE_PATH}"
        body = msgspec.msgpack.encode(message)
        async with four.session.post(url, data=body, headers={**headers, **more}) as response:
            return response.status, await response.read()

    status, body = await sent()
    assert status == 200
    assert msgspec.msgpack.decode(body, type=WriteAnswer).refused == {0: "not_owner"}
    assert await four.held(4, "k") is None
    assert (await sent(**{"Ringlog-To": "3"}))[0] == 409
    assert (await sent(**{"Ringlog-Cluster": "other"}))[0] == 409


async def test_the_last_write_wins_and_a_write_without_timestamp_is_the_last(three):
    await three.put("k", {"a_int": 1}, timestamp=1000)
    status, older = await three.put("k", {"a_int": 2}, timestamp=500)
    assert (status, older["timestamp"]) == (200, 500)
    assert (await three.get("k"))[1]["columns"]["a_int"] == 1

    ahead = now_us() + 3_600_000_000
    await three.put("k", {"a_int": 3}, timestamp=ahead)
    status, written = await three.put("k", {"a_int": 4}, number=2)
    assert status == 200
    assert written["timestamp"] > ahead
    assert (await three.get("k", number=3))[1]["columns"]["a_int"] == 4
    status, deleted = await three.delete("k", number=3)
    assert deleted["timestamp"] > written["timestamp"]
    assert (await three.get("k"))[0] == 404

    assert (await three.delete("k", query=f"?timestamp={ID_MAX}"))[0] == 200
    status, problem = await three.put("k", {"a_int": 5})
    assert (status, problem["code"]) == (409, "newer_held")
    before_us = now_us()
    for number in (1, 2, 3):
        status, other = await three.put(f"other-{number}", {"a_int": 6}, number=number)
        assert status == 200, other
        assert before_us <= other["timestamp"] <= now_us(), "nobody's clock was moved"


async def test_columns_keep_their_types(three):
    columns = {
        "a_string": "grüße,\n\x00/%",
        "a_bigint": -(2**63),
        "a_int": 2**31 - 1,
        "a_double": 0.1,
        "a_boolean": False,
        "a_binary": base64.b64encode(bytes(range(256))).decode(),
        "a_timestamp": "2026-01-02T03:04:05.000006Z",
    }
    assert (await three.put("k", columns))[0] == 200
    _, found = await three.get("k", number=2)
    assert found["columns"] == {**columns, "id": "k", "a_timestamp": 1767323045000006}
    await three.put("k", {"a_string": None, "a_int": 1, "id": "k"})
    _, found = await three.get("k", number=3)
    nulls = dict.fromkeys(columns)
    assert found["columns"] == {**nulls, "id": "k", "a_int": 1}


async def test_keys_of_several_columns_may_hold_commas(three):
    await three.commit(
        CreateTable(
            keyspace="shop",
            name="u",
            columns=three.table().columns,
            partition_key=("id", "a_string"),
        )
    )
    keys = [("a,b", "c"), ("a", "b,c"), ("ü/?#&", "%2C"), ("", " ")]
    for number, key in enumerate(keys):
        assert (await three.put(in_path(*key), {"a_int": number}, table="u"))[0] == 200
    for number, key in enumerate(keys):
        _, found = await three.get(in_path(*key), table="u", number=2)
        columns = found["columns"]
        assert (columns["id"], columns["a_string"], columns["a_int"]) == (*key, number)


async def test_a_thousand_rows_go_in_a_few_messages_with_an_outcome_each(three):
    rows = [{"key": f"k{number}", "columns": {"a_int": number}} for number in range(1000)]
    rows[7]["columns"] = {"a_int": "seven"}
    rows[8] = {"key": "k9", "columns": {}}
    path = "/v1/tables/shop/t/rows"
    status, answer = await three.ask("POST", f"{path}?consistency=all", 1, {"rows": rows})
    assert status == 200
    outcomes = answer["outcomes"]
    assert len(outcomes) == 1000
    bad = {place for place, outcome in enumerate(outcomes) if "code" in outcome}
    assert bad == {7, 9}
    assert outcomes[7]["field"] == "columns.a_int"
    assert all("timestamp" in outcomes[place] for place in range(1000) if place not in bad)
    for number in (0, 500, 999):
        _, found = await three.get(f"k{number}", number=3)
        assert found["columns"]["a_int"] == number
    _, text = await get_text(three, 2, "/metrics")
    (line,) = [item for item in text.splitlines() if REPLICA_WRITE_PATH in item and "200" in item]
    assert float(line.split()[-1]) == 1

    status, problem = await three.ask("POST", path, 1, {"rows": rows + rows[:1]})
    assert (status, problem["field"]) == (400, "rows")
    assert await three.ask("POST", path, 1, {"rows": []}) == (200, {"outcomes": []})


async def get_text(cluster, number, path):
    async with cluster.session.get(f"{cluster.nodes[number].url}{path}") as response:
        return response.status, await response.text()


T = "/v1/tables/shop/t/rows"
BAD: list[tuple] = [
    ("PUT", "/v1/tables/shop/none/rows/k", {"columns": {}}, 404, "unknown_table", "table"),
    ("GET", "/v1/tables/none/t/rows/k", None, 404, "unknown_table", "keyspace"),
    ("DELETE", "/v1/tables/none/t/rows/k", None, 404, "unknown_table", "keyspace"),
    ("POST", "/v1/tables/shop/none/rows", {"rows": []}, 404, "unknown_table", "table"),
    ("GET", "/v1/tables/sh%20op/t/rows/k", None, 400, "malformed", "keyspace"),
    ("PUT", f"{T}/{'k' * 9000}", {"columns": {}}, 400, "malformed", "key"),
    ("GET", f"{T}/{'k' * 9000}", None, 400, "malformed", "key"),
    ("GET", f"{T}/%ff", None, 400, "malformed", "key"),
    ("GET", f"{T}/", None, 404, "not_found", None),
    ("PUT", f"{T}/k", {}, 400, "malformed", "columns"),
    ("PUT", f"{T}/k", [], 400, "malformed", None),
    ("PUT", f"{T}/k", {"columns": {"a_int": "x"}}, 400, "malformed", "columns.a_int"),
    ("PUT", f"{T}/k", {"columns": {"a_int": 2**31}}, 400, "malformed", "columns.a_int"),
    ("PUT", f"{T}/k", {"columns": {"a_binary": "!"}}, 400, "malformed", "columns.a_binary"),
    ("PUT", f"{T}/k", {"columns": {"a_string": 1}}, 400, "malformed", "columns.a_string"),
    ("PUT", f"{T}/k", {"columns": {"a_string": {}}}, 400, "malformed", "columns.a_string"),
    ("PUT", f"{T}/k", {"columns": {"a_double": True}}, 400, "malformed", "columns.a_double"),
    (
        "PUT",
        f"{T}/k",
        {"columns": {"a_timestamp": "soon"}},
        400,
        "malformed",
        "columns.a_timestamp",
    ),
    ("PUT", f"{T}/k", {"columns": {"none": 1}}, 400, "malformed", "columns.none"),
    ("PUT", f"{T}/k", {"columns": {"id": "other"}}, 400, "malformed", "columns.id"),
    ("PUT", f"{T}/k", {"columns": {}, "timestamp": -1}, 400, "malformed", "timestamp"),
    ("PUT", f"{T}/k", {"columns": {}, "timestamp": ID_MAX + 1}, 400, "malformed", "timestamp"),
    ("PUT", f"{T}/k", {"columns": {}, "more": 1}, 400, "malformed", "more"),
    ("PUT", f"{T}/k", {"columns": {"a_string": "x" * 1_100_000}}, 400, "malformed", "key"),
    ("PUT", f"{T}/k?consistency=two", {"columns": {}}, 400, "malformed", "consistency"),
    ("GET", f"{T}/k?consistency=", None, 400, "malformed", "consistency"),
    ("GET", f"{T}/k?more=1", None, 400, "malformed", "more"),
    ("DELETE", f"{T}/k?timestamp=x", None, 400, "malformed", "timestamp"),
    ("GET", f"{T}/k?epoch=99999", None, 404, "unknown_epoch", "epoch"),
    ("PATCH", f"{T}/k", {}, 405, "method_not_allowed", None),
    ("POST", T, {"rows": [{"columns": {}}]}, 400, "malformed", "rows[0].key"),
    ("POST", T, {"rows": "x"}, 400, "malformed", "rows"),
]


async def test_bad_input_is_answered_by_a_sentence_that_names_the_field(three):
    for method, path, body, *wanted in BAD:
        status, problem = await three.ask(method, path, 1, body)
        found = [status, problem.get("code"), problem.get("field")]
        assert found == wanted, (method, path[:60], body and str(body)[:60], problem)
        assert problem["detail"].endswith("."), problem
    for raw in (b"", b"{", b"\xff", b"[" * 100_000, b'{"columns": {"a_string": "\\ud800"}}'):
        url = f"{three.nodes[1].url}{T}/k"
        headers = {"Content-Type": "application/json"}
        async with three.session.put(url, data=raw, headers=headers) as response:
            assert response.status == 400, (raw[:20], await response.text())
    async with three.session.put(f"{three.nodes[1].url}{T}/k", data=b"{}") as response:
        assert response.status == 415
    assert (await three.get("k"))[0] == 404


async def test_acknowledged_rows_outlive_a_restart_of_all_nodes(three):
    for number in range(20):
        status, _ = await three.put(f"k{number}", {"a_int": number}, query="?consistency=all")
        assert status == 200
    for number in (1, 2, 3):
        await three.stop(number)
    for number in (1, 2, 3):
        await three.start(number)
    await three.fit()
    for number in range(20):
        _, found = await three.get(f"k{number}", number=1 + number % 3)
        assert found["columns"]["a_int"] == number


async def test_a_client_may_ask_for_metadata_that_is_new_enough(three):
    async with held_back(three.nodes[1]) as release:
        outcome = await three.home.commit(
            CreateTable(
                keyspace="shop", name="u", columns=three.table().columns, partition_key=("id",)
            )
        )
        status, problem = await three.put("k", {}, table="u")
        assert (status, problem["code"]) == (404, "unknown_table")
        putting = asyncio.ensure_future(three.put("k", {}, table="u", epoch=outcome.epoch))
        await until(lambda: three.nodes[1].engine._published.is_awaited, timeout_s=5)
        release()
        assert (await putting)[0] == 200


async def test_a_table_that_was_made_a_moment_ago_is_waited_for(three):
    async with held_back(three.nodes[1]) as release:
        await three.home.commit(
            CreateTable(
                keyspace="shop", name="v", columns=three.table().columns, partition_key=("id",)
            )
        )
        putting = asyncio.ensure_future(three.put("k", {}, table="v"))
        await until(lambda: three.nodes[1].engine._published.is_awaited, timeout_s=5)
        release()
        assert (await putting)[0] == 200


async def test_the_node_describes_what_it_serves(three):
    status, document = await three.ask("GET", "/openapi.json")
    assert status == 200
    paths = document["paths"]
    assert set(paths["/v1/tables/{keyspace}/{table}/rows/{key}"]) == {"get", "put", "delete"}
    assert set(paths["/v1/tables/{keyspace}/{table}/rows"]) == {"post"}
    assert not any("internal" in path for path in paths)
    found = paths["/v1/tables/{keyspace}/{table}/rows/{key}"]["put"]
    assert {item["name"] for item in found["parameters"]} >= {"keyspace", "key", "consistency"}
    await three.put("k", {})
    for key, wanted in (("k", 200), ("none", 404)):
        async with three.session.head(f"{three.nodes[1].url}{T}/{key}") as response:
            assert (response.status, await response.read()) == (wanted, b"")


async def test_a_node_that_has_left_serves_no_data(four):
    await four.put("k", {"a_int": 1}, query="?consistency=all")
    await four.commit(Assassinate(node=NodeId(3), accept_loss=LOSS))
    status, problem = await four.get("k", number=3)
    assert (status, problem["code"]) == (503, "unavailable")
    assert "left" in problem["detail"]
    assert (await four.get("k", number=1))[0] == 200
