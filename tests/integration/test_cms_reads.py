"""The metadata over HTTP at any epoch: views, owners, differences, caching."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pytest
from yarl import URL
from zstandard import ZstdDecompressor

from encoding.registry import documents
from encoding.views import component_view, metadata_view
from metadata.cluster import COMPONENTS
from metadata.columns import ColumnType
from metadata.partitioners import Partitioner, token_of
from tests.integration.test_cms_serving import served

NODE = {"datacenter": "d", "rack": "r", "version": "1"}
COLUMNS = [{"name": "id", "type": "bigint"}, {"name": "text", "type": "string"}]


async def populated(client):
    """Two nodes own a keyspace with one table; a third is joining. Ends at epoch 9."""
    for number in (1, 2, 3):
        addresses = {"native": f"10.0.0.{number}:1"}
        await client.commit("Register", host_id=f"h{number}", addresses=addresses, **NODE)
    await client.commit("UnsafeJoin", node=1, tokens=["0"])
    await client.commit("UnsafeJoin", node=2, tokens=["1000"])
    replication = {"strategy": "simple", "factor": 1}
    await client.commit("CreateKeyspace", name="k", replication=replication)
    await client.commit(
        "CreateTable", keyspace="k", name="t", columns=COLUMNS, partition_key=["id"]
    )
    status, answer = await client.commit("PrepareJoin", node=3, tokens=["500"])
    assert (status, answer["epoch"]) == (200, 9), answer


async def test_every_component_is_there_at_every_epoch():
    async with served() as client:
        await populated(client)
        for epoch in (0, 1, 5, 9):
            applied = await client.engine.metadata_at(epoch)
            _, whole = await client.get(f"/v1/metadata?at={epoch}")
            assert whole == metadata_view(applied.metadata)
            for name in COMPONENTS:
                _, view = await client.get(f"/v1/metadata/{name}?at={epoch}")
                assert view == component_view(applied.metadata, name)


async def test_a_past_epoch_is_cached_for_ever_and_the_newest_is_not():
    async with served() as client:
        response, _ = await client.get("/v1/metadata?at=1")
        assert "immutable" in response.headers["Cache-Control"]
        response, _ = await client.get("/v1/metadata")
        assert response.headers["Cache-Control"] == "private, no-cache"
        tag = response.headers["ETag"]
        response, _ = await client.get("/v1/metadata", If_None_Match=tag)
        assert response.status == 304
        await client.set(1)
        response, view = await client.get("/v1/metadata", If_None_Match=tag)
        assert (response.status, view["epoch"]) == (200, 2)


async def test_only_a_stale_read_answers_from_memory():
    async with served() as client:
        asked = []
        latest = client.engine.latest

        async def counted():
            asked.append(1)
            return await latest()

        client.engine.latest = counted
        await client.get("/v1/metadata?stale=1")
        await client.get("/v1/log?stale=1")
        assert asked == []
        await client.get("/v1/metadata")
        await client.get("/v1/log")
        assert len(asked) == 2


async def test_owners_of_a_key_and_of_its_token():
    async with served() as client:
        await populated(client)
        token = token_of(Partitioner.XXHASH64, [(ColumnType.BIGINT, 42)])
        _, by_key = await client.get("/v1/owners?keyspace=k&key=42")
        _, by_token = await client.get(f"/v1/owners?keyspace=k&token={token}")
        assert by_key == by_token
        assert by_key["token"] == str(token)
        _, found = await client.get("/v1/owners?keyspace=k&token=700")
        assert (found["readers"], found["writers"]) == ([2], [2])
        _, found = await client.get("/v1/owners?keyspace=k&token=700&at=7")
        assert found["epoch"] == 7


async def test_tokens_are_proposed_that_a_plan_accepts():
    async with served() as client:
        for number in (1, 2):
            await client.commit(
                "Register", host_id=f"h{number}", addresses={"native": f"h{number}:1"}, **NODE
            )
        await client.commit("UnsafeJoin", node=1, tokens=["0"])
        response, found = await client.get("/v1/tokens?node=2&count=5")
        assert (response.status, found["node"], len(set(found["tokens"]))) == (200, 2, 5)
        wanted = {"kind": "PrepareJoin", "node": 2, "tokens": found["tokens"]}
        _, plan = await client.post("/v1/plan", {"transformation": wanted})
        assert plan["outcome"] == "accepted", plan
        response, problem = await client.get("/v1/tokens?node=99")
        assert (response.status, problem["field"]) == (404, "node")


@pytest.mark.parametrize(
    "query", ["key=x", "key=99999999999999999999", "key=1&token=1", "", "key="]
)
async def test_a_key_that_is_none_is_refused(query):
    async with served() as client:
        await populated(client)
        response, problem = await client.get(f"/v1/owners?keyspace=k&{query}")
        assert (response.status, problem["field"]) == (400, "key")


async def test_commas_between_columns_and_inside_them_differ():
    async with served() as client:
        await populated(client)
        columns = [{"name": "a", "type": "string"}, {"name": "b", "type": "string"}]
        await client.commit(
            "CreateTable", keyspace="k", name="two", columns=columns, partition_key=["a", "b"]
        )
        response, problem = await client.get("/v1/owners?keyspace=k&key=1")
        assert (response.status, problem["field"]) == (400, "table")
        target = f"{client.session._base_url}/v1/owners?keyspace=k&table=two&key=x%2Cy,z"
        async with client.session.get(URL(target, encoded=True)) as response:
            found = await response.json()
        expected = [(ColumnType.STRING, "x,y"), (ColumnType.STRING, "z")]
        assert found["token"] == str(token_of(Partitioner.XXHASH64, expected))


async def test_a_difference_is_told_by_meaning():
    async with served() as client:
        await populated(client)
        _, diff = await client.get("/v1/diff?from=0&to=1")
        assert [item["name"] for item in diff["components"]["cluster"]["added"]] == ["test"]
        _, diff = await client.get("/v1/diff?from=1&to=4")
        assert [item["id"] for item in diff["components"]["directory"]["added"]] == [1, 2, 3]
        _, diff = await client.get("/v1/diff?from=8&to=9")
        assert set(diff["components"]) == {"locks", "sequences"}
        assert [item["id"] for item in diff["components"]["sequences"]["added"]] == [9]
        _, diff = await client.get("/v1/diff?from=9&to=8")
        assert diff["components"]["sequences"]["removed"][0]["id"] == 9
        _, diff = await client.get("/v1/diff?from=9&to=9")
        assert diff["components"] == {}


async def test_a_change_of_owners_is_told_range_by_range():
    async with served() as client:
        await populated(client)
        status, answer = await client.commit("StartJoin", sequence=9, barrier=_everybody())
        assert status == 200, answer
        _, diff = await client.get("/v1/diff?from=9&to=10")
        (changed,) = diff["components"]["directory"]["changed"]
        assert (changed["before"]["state"], changed["after"]["state"]) == (
            "registered",
            "bootstrapping",
        )
        (moved,) = diff["components"]["placements"]["changed"]
        assert (moved["left"], moved["right"]) == ("0", "500")
        assert moved["readers"] == {"before": [2], "after": [2]}
        assert moved["writers"] == {"before": [2], "after": [2, 3]}


def _everybody():
    return {"level": "all", "applied": [1, 2, 3]}


async def test_sequences_say_what_is_due_and_who_votes():
    async with served() as client:
        await populated(client)
        _, listed = await client.get("/v1/sequences")
        (found,) = listed["sequences"]
        assert (found["id"], found["due"], found["driver"]) == (9, "start", None)
        assert found["voters"] == [[2]]
        assert (found["barrier"]["epoch"], found["barrier"]["passed"]) == (9, False)
        _, one = await client.get("/v1/sequences/9")
        assert one == {"epoch": 9, **found, "since_s": one["since_s"]}
        response, _ = await client.get("/v1/sequences/9?at=8")
        assert response.status == 404


async def test_nodes_are_the_directory():
    async with served() as client:
        await populated(client)
        _, found = await client.get("/v1/nodes")
        assert [(node["id"], node["tokens"]) for node in found["nodes"]] == [(1, 1), (2, 1), (3, 0)]
        assert found["nodes"][0]["liveness"] == "unknown"


async def test_schemas_by_fingerprint():
    async with served() as client:
        _, found = await client.get("/v1/schemas")
        assert found == documents()
        name = next(iter(found))
        _, one = await client.get(f"/v1/schemas/{name}")
        assert one == {name: found[name]}


UNPACKED: dict[str | None, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "zstd": ZstdDecompressor().decompress,
    None: bytes,
}


@pytest.mark.parametrize(
    ("wanted", "coding"),
    [("gzip", "gzip"), ("gzip, zstd", "zstd"), ("gzip;q=0", None), ("br", None)],
)
async def test_large_answers_are_compressed_where_wanted(wanted, coding):
    async with served() as client:
        client.session._auto_decompress = False
        async with client.session.get("/v1/schemas", headers={"Accept-Encoding": wanted}) as found:
            assert found.headers.get("Content-Encoding") == coding
            assert len(json.loads(UNPACKED[coding](await found.read()))) == len(documents())
        async with client.session.get("/healthz", headers={"Accept-Encoding": wanted}) as found:
            assert "Content-Encoding" not in found.headers


async def test_head_is_get_without_the_body():
    async with served() as client, client.session.head("/v1/metadata?at=1") as response:
        assert (response.status, await response.read()) == (200, b"")
