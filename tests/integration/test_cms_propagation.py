"""How entries spread, asked over HTTP and measured, with a real Postgres."""

from __future__ import annotations

import pytest

from metadata.epoch import Epoch
from services.cms.reports import observing
from tests.integration.test_cms_reports import cms, now_us, populated, tell


@pytest.fixture
async def client(database, monkeypatch):
    """Three members, all at epoch 7. The tests say themselves when to measure."""
    monkeypatch.setattr(observing, "OBSERVE_EVERY_S", 3600.0)
    async with cms(database) as found:
        await populated(found)
        for node in (1, 2, 3):
            await tell(found, node, 7, applied=[[7, now_us()]])
        yield found


async def spread(client, query=""):
    response, answer = await client.get(f"/v1/propagation{query}")
    assert response.status == 200, answer
    return answer


async def test_an_entry_is_followed_from_commit_to_the_last_node(client):
    await client.set(1)
    (found,) = (await spread(client, "?after=7"))["epochs"]
    committed_at = found["committed_at_us"]
    assert abs(committed_at - now_us()) < 60_000_000
    assert (found["epoch"], found["applied"], found["members"]) == (8, 0, 3)
    assert [found[stage] for stage in ("published", "first", "quorum", "all")] == [None] * 4
    assert found["straggler"] == {"node": 1, "address": "10.0.0.1:1"}

    client.engine.reporting.relay.published(Epoch(8))
    await client.engine.reporting.relay.hand_in()
    for node, later_us in ((2, 30_000), (1, 10_000), (3, 50_000)):
        await tell(client, node, 8, applied=[[8, committed_at + later_us]])
    (found,) = (await spread(client, "?after=7"))["epochs"]
    assert found["published"]["at_us"] >= committed_at
    assert found["first"] == {"at_us": committed_at + 10_000, "node": 1}
    assert found["quorum"] == {"at_us": committed_at + 30_000, "node": 2}
    assert found["all"] == {"at_us": committed_at + 50_000, "node": 3}
    assert found["straggler"] == {"node": 3, "address": "10.0.0.3:1"}
    assert found["applied"] == 3


async def test_a_mark_speaks_for_all_epochs_since_the_one_before(client):
    await client.set(4)
    at_us = now_us()
    await tell(client, 1, 11, applied=[[9, at_us], [11, at_us + 5]])
    found = (await spread(client, "?after=7"))["epochs"]
    assert [item["first"]["at_us"] - at_us for item in found] == [0, 0, 5, 5]


async def test_pages_are_bounded_and_end_at_the_tip(client):
    assert [item["epoch"] for item in (await spread(client))["epochs"]] == list(range(1, 8))
    page = await spread(client, "?after=2&limit=3")
    assert (page["tip"], [item["epoch"] for item in page["epochs"]]) == (7, [3, 4, 5])
    assert (await spread(client, "?after=900"))["epochs"] == []
    for query in ("?limit=0", "?limit=1001", "?after=-1", "?after=x", "?more=1"):
        response, problem = await client.get(f"/v1/propagation{query}")
        assert (response.status, problem["code"]) == (400, "malformed")


async def test_what_was_applied_long_ago_has_no_time(client):
    found = (await spread(client, "?after=2&limit=1"))["epochs"][0]
    assert found["all"] == {"at_us": None, "node": None}
    assert found["applied"] == 3


async def test_any_process_tells_the_same(client, database):
    await client.set(1)
    async with cms(database, "cms-2") as other:
        await tell(other, 1, 8, applied=[[8, now_us()]])
        assert await spread(client, "?after=7") == await spread(other, "?after=7")


async def measured(client):
    """How many epochs were measured, by stage."""
    _, text = await client.get("/metrics")
    name = "ringlog_propagation_seconds_count"
    lines = [line for line in text.decode().splitlines() if line.startswith(name)]
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


async def test_stages_are_measured_once(client):
    observer = client.engine.reporting.observer
    await observer.observe()
    before = await measured(client)
    await client.set(3)
    found = (await spread(client, "?after=7"))["epochs"]
    last_us = found[-1]["committed_at_us"]
    for node, later_us in ((1, 3_000), (2, 40_000)):
        await tell(client, node, 10, applied=[[10, last_us + later_us]])
    await observer.observe()
    await observer.observe()
    after = await measured(client)
    assert {stage: after[stage] - before[stage] for stage in after} == {
        "first": 3,
        "quorum": 3,
        "all": 0,
        "published": 0,
    }


async def stragglers(client):
    _, text = await client.get("/metrics")
    name = "ringlog_propagation_straggler_epoch{"
    return [line for line in text.decode().splitlines() if line.startswith(name)]


async def test_the_last_one_is_named_one_at_a_time(client):
    observer = client.engine.reporting.observer
    await client.set(3)
    at_us = now_us()
    for node, epoch in ((1, 10), (2, 9), (3, 10)):
        await tell(client, node, epoch, applied=[[epoch, at_us]])
    await observer.observe()
    assert await stragglers(client) == ['ringlog_propagation_straggler_epoch{node="2"} 10.0']

    await tell(client, 2, 10, applied=[[10, at_us - 5_000]])
    await tell(client, 3, 10, applied=[[10, at_us + 5_000]])
    await observer.observe()
    assert await stragglers(client) == ['ringlog_propagation_straggler_epoch{node="3"} 10.0']
    observer._is_measuring = lambda: False
    await observer.observe()
    assert await stragglers(client) == []


async def test_a_process_that_does_not_sequence_measures_nothing(client):
    observer = client.engine.reporting.observer
    observer._is_measuring = lambda: False
    await observer.observe()
    before = await measured(client)
    await client.set(1)
    await tell(client, 1, 8, applied=[[8, now_us()]])
    await observer.observe()
    assert await measured(client) == before
