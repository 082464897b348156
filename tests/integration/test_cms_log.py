"""Following the log over HTTP: pages, long polls, streams, containers."""

from __future__ import annotations

import asyncio
import json
from io import BytesIO
from typing import Any

import fastavro
import msgspec
import pytest

from encoding.images import encode_image
from log.chain import seal_payload
from log.memory import MemoryLog
from log.replay import replay
from log.store import StoreUnavailableError
from services.http.limits import HttpLimits
from snapshots.store import Snapshot
from tests.integration.test_cms_serving import QUICK, served


async def test_pages_are_dense_and_say_where_the_log_ends():
    async with served() as client:
        await client.set(5)
        _, state = await client.get("/v1/log?after=2&limit=3")
        assert [entry["epoch"] for entry in state["entries"]] == [3, 4, 5]
        assert (state["tip"], state["snapshot"]) == (6, None)
        assert state["entries"][0]["hash"] == state["entries"][1]["previous_hash"]


async def test_a_page_has_no_more_than_allowed():
    async with served(limits=msgspec.structs.replace(QUICK, page_entries_max=2)) as client:
        await client.set(5)
        _, state = await client.get("/v1/log?limit=1000000")
        assert len(state["entries"]) == 2


async def test_a_long_poll_ends_with_the_news():
    async with served() as client:
        waiting = asyncio.create_task(client.get("/v1/log?after=1&wait=30"))
        while not await _followers(client):
            assert not waiting.done()
        await client.set(1)
        async with asyncio.timeout(5):
            _, state = await waiting
        assert [entry["epoch"] for entry in state["entries"]] == [2]
        assert state["tip"] == 2


async def _followers(client):
    _, text = await client.get("/metrics")
    return b"ringlog_followers 1.0" in text


async def test_a_long_poll_ends_when_its_time_is_up():
    async with served() as client:
        _, state = await client.get("/v1/log?after=1&wait=0.1")
        assert state["entries"] == []


async def test_only_so_many_may_wait():
    async with served(limits=HttpLimits(followers_max=0)) as client:
        response, problem = await client.get("/v1/log?after=1&wait=1")
        assert (response.status, problem["code"]) == (429, "overloaded")


@pytest.mark.parametrize("epoch", [0, 1, 2])
async def test_another_hash_is_another_history(epoch):
    async with served() as client:
        await client.set(1)
        hashes = [
            "00" * 32,
            *[item["hash"] for item in (await client.get("/v1/log"))[1]["entries"]],
        ]
        response, _ = await client.get(f"/v1/log?after={epoch}&hash={hashes[epoch]}")
        assert response.status == 200
        response, problem = await client.get(f"/v1/log?after={epoch}&hash={'ab' * 32}")
        assert (response.status, problem["code"], problem["field"]) == (409, "diverged", "hash")


async def test_one_entry_never_changes():
    async with served() as client:
        response, entry = await client.get("/v1/log/1")
        assert entry["kind"] == "Initialize"
        assert "immutable" in response.headers["Cache-Control"]
        tag = response.headers["ETag"]
        response, _ = await client.get("/v1/log/1", If_None_Match=tag)
        assert response.status == 304


async def test_the_stored_bytes_come_in_an_avro_container():
    async with served() as client:
        await client.set(3)
        response, data = await client.get("/v1/log?after=1", Accept="application/avro")
        assert response.content_type == "application/avro"
        records = _records(data)
        assert [record["epoch"] for record in records] == [2, 3, 4]
        _, first = await client.get("/v1/log/1", Accept="application/avro")
        records = [*_records(first), *records]
        entries = [seal_payload(item["payload"], item["previous_hash"]) for item in records]
        assert replay(entries) == client.engine.applied
        _, empty = await client.get("/v1/log?after=4", Accept="application/avro")
        assert _records(empty) == []


def _records(data) -> list[Any]:
    return list(fastavro.reader(BytesIO(data)))


async def test_a_snapshot_stands_for_entries_only_on_request():
    async with served() as client:
        for _ in range(40):
            await client.commit("SetExtension", name="same", value="x" * 100)
        applied = client.engine.applied
        snapshot = Snapshot(
            epoch=applied.metadata.epoch,
            digest=applied.metadata.digest,
            hash=applied.hash,
            image=encode_image(applied.metadata),
        )
        await client.snapshots.save(snapshot, created_by="x")
        await client.set(2)
        _, state = await client.get("/v1/log?after=0")
        assert (state["snapshot"], len(state["entries"])) == (None, 43)
        _, state = await client.get("/v1/log?after=0&snapshot=true")
        assert state["snapshot"]["epoch"] == 41
        assert [entry["epoch"] for entry in state["entries"]] == [42, 43]
        _, image = await client.get(state["snapshot"]["url"], Accept="avro/binary")
        assert image == snapshot.image
        _, view = await client.get(state["snapshot"]["url"])
        assert view["digest"] == snapshot.digest.hex()
        _, state = await client.get("/v1/log?after=40&snapshot=true")
        assert state["snapshot"] is None
        _, listed = await client.get("/v1/snapshots")
        assert [item["epoch"] for item in listed["snapshots"]] == [41]


async def test_trimmed_entries_are_gone_not_skipped():
    async with served() as client:
        await client.set(4)
        kept = client.engine.entries_after

        async def without_first(epoch, **limits):
            return [item for item in await kept(epoch, **limits) if item.epoch > 3]

        client.engine.entries_after = without_first
        response, problem = await client.get("/v1/log?after=1")
        assert (response.status, problem["code"]) == (410, "trimmed")
        response, state = await client.get("/v1/log?after=3")
        assert [entry["epoch"] for entry in state["entries"]] == [4, 5]


async def events(response, count):
    found: list[Any] = []
    while len(found) < count:
        fields = {}
        while line := (await response.content.readline()).decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
        assert fields, "the stream ended"
        found.append((fields["event"], int(fields["id"]), json.loads(fields["data"])))
    return found


async def test_who_begins_a_stream_with_a_hash_never_resumes_into_another_history():
    async with served() as client, asyncio.timeout(10):
        await client.set(3)
        _, page = await client.get("/v1/log?after=0")
        ids = [f"{entry['epoch']}:{entry['hash']}" for entry in page["entries"]]
        first, second = ids[0], ids[1]
        query = f"/v1/log/stream?after=1&hash={page['entries'][0]['hash']}"
        assert await ids_of(client, query, len(ids)) == ids
        assert await ids_of(client, query, 3, second) == ids[1:]
        other = f"2:{first.partition(':')[2]}"
        for wrong, status in ((other, 409), ("2:", 400), ("2:ab", 400), (f"{second}:1", 400)):
            response, _ = await client.get(query, Last_Event_ID=wrong)
            assert response.status == status, wrong


async def ids_of(client, query, count, last=None):
    headers = {} if last is None else {"Last-Event-ID": last}
    async with client.session.get(query, headers=headers) as response:
        blocks = [(await response.content.readuntil(b"\n\n")).decode() for _ in range(count)]
    return [block.splitlines()[1].removeprefix("id: ") for block in blocks]


async def test_a_stream_has_entries_as_they_come_and_bookmarks_between():
    async with served() as client, asyncio.timeout(10):
        await client.set(2)
        async with client.session.get("/v1/log/stream?after=1") as response:
            assert response.content_type == "text/event-stream"
            (first, *entries) = await events(response, 3)
            assert first == ("bookmark", 1, {"epoch": 1})
            assert [(kind, epoch) for kind, epoch, _ in entries] == [("entry", 2), ("entry", 3)]
            assert entries[0][2]["epoch"] == 2
            assert (await events(response, 1))[0] == ("bookmark", 3, {"epoch": 3})
            await client.set(1)
            while (found := (await events(response, 1))[0])[0] == "bookmark":
                pass
            assert found[:2] == ("entry", 4)


async def test_a_stream_resumes_behind_the_last_event():
    async with served() as client, asyncio.timeout(10):
        await client.set(3)
        headers = {"Last-Event-ID": "3"}
        async with client.session.get("/v1/log/stream?after=1", headers=headers) as response:
            found = await events(response, 2)
            assert [(kind, epoch) for kind, epoch, _ in found] == [("bookmark", 3), ("entry", 4)]
        for bad, status in (("x", 400), ("9" * 30, 400), ("9", 409)):
            response, _ = await client.get("/v1/log/stream", Last_Event_ID=bad)
            assert response.status == status


async def test_streams_end_when_the_service_stops():
    async with asyncio.timeout(10):
        async with served() as client:
            response = await client.session.get("/v1/log/stream")
            await events(response, 1)
        response.close()


class Leaving(MemoryLog):
    """Does not answer any more once it is away, as Postgres behind a broken network."""

    is_away = False

    async def tip(self):
        if self.is_away:
            raise StoreUnavailableError("away")
        return await super().tip()


async def test_an_idle_stream_ends_once_nobody_knows_whether_it_has_everything():
    """Others may commit what this CMS cannot see: a bookmark would say that nothing happened."""
    store = Leaving()
    async with served(store=store) as client, asyncio.timeout(10):
        async with client.session.get("/v1/log/stream?after=1") as response:
            assert await events(response, 2) == [("bookmark", 1, {"epoch": 1})] * 2
            store.is_away = True
            while await response.content.readline():
                pass
        response, problem = await client.get("/v1/log/stream", Last_Event_ID="1")
        assert (response.status, problem["code"]) == (503, "unavailable")
        store.is_away = False
        async with client.session.get("/v1/log/stream?after=1") as response:
            assert await events(response, 1) == [("bookmark", 1, {"epoch": 1})]
