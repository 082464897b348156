"""Reports of nodes over HTTP and a real Postgres. Others use its `cms` and `tell`."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import aiohttp
import asyncpg
import pytest

from log.batch import Stamp
from log.postgres import PostgresLog
from log.postgres_sessions import Sessions
from services.cms.engine import running
from services.cms.http import serve
from services.cms.reports.intake import LINGER_S
from services.cms.reports.liveness import DOWN_AFTER_S, LATE_AFTER_S
from services.cms.reports.postgres import postgres_stores
from services.http.reports import MARKS_MAX, REPORT_BYTES_MAX, REPORTS_PATH
from services.http.roles import Role, Tokens
from services.http.serving import Address
from snapshots.postgres import PostgresSnapshots
from tests.integration.test_cms_serving import FOUNDING, QUICK, SECRETS, Client, bearer

NODE = {"datacenter": "d", "rack": "r", "version": "1"}
DEADLINE_S = 10.0
POLL_INTERVAL_S = 0.02


def now_us():
    return int(time.time() * 1_000_000)


@asynccontextmanager
async def cms(dsn, name="cms-1", *, tokens=None):
    """One process, as far as the database can tell."""
    sessions = Sessions(dsn)
    try:
        async with (
            running(
                name,
                PostgresLog(sessions),
                PostgresSnapshots(sessions),
                lambda: Stamp(name, now_us()),
                stores=postgres_stores(sessions),
            ) as engine,
            serve(engine, tokens=tokens, where=Address(), limits=QUICK) as url,
            aiohttp.ClientSession(url) as session,
        ):
            yield Client(session, engine, None)
    finally:
        await sessions.close()


async def populated(client, nodes=3):
    """Founded, with so many nodes that have joined; ends at epoch 1 + 2 * nodes."""
    assert (await client.commit(**FOUNDING))[0] == 200
    for number in range(1, nodes + 1):
        addresses = {"native": f"10.0.0.{number}:1"}
        await client.commit("Register", host_id=f"h{number}", addresses=addresses, **NODE)
    for number in range(1, nodes + 1):
        status, _ = await client.commit("UnsafeJoin", node=number, tokens=[str(number)])
        assert status == 200


async def hash_at(client, epoch):
    _, entry = await client.get(f"/v1/log/{epoch}")
    return entry["hash"]


async def tell(client, node, epoch=None, **more):
    """A report as a node sends it; it has the log's own hash unless another is given."""
    applied = client.engine.applied
    epoch = applied.metadata.epoch if epoch is None else epoch
    found = more.pop("hash", None) or await hash_at(client, epoch)
    headers = more.pop("headers", {})
    body = {
        "node": node,
        "epoch": epoch,
        "hash": found,
        "digest": "00" * 32,
        "sent_at_us": now_us(),
        "version": "1",
        **more,
    }
    own = {"Ringlog-Cluster": applied.metadata.cluster.id}
    return await client.post(REPORTS_PATH, body, **{**own, **headers})


async def until(holds):
    """Wait for a condition, which may be asked over HTTP."""
    for _ in range(int(DEADLINE_S / POLL_INTERVAL_S)):
        if await holds():
            return
        await asyncio.sleep(POLL_INTERVAL_S)
    raise TimeoutError


@pytest.fixture
async def client(database):
    async with cms(database) as found:
        await populated(found)
        yield found


async def nodes_of(client):
    _, answer = await client.get("/v1/nodes")
    return {node["id"]: node for node in answer["nodes"]}


async def test_a_report_is_answered_with_the_tip(client):
    before = now_us()
    status, answer = await tell(client, 1, 3)
    assert status == 200
    assert answer["tip"] == 7
    assert before <= answer["now_us"] <= now_us()
    assert answer["reported"] is None
    _, answer = await tell(client, 1, 2)
    assert answer["reported"] == 3


async def test_nodes_show_what_they_reported(client):
    await tell(client, 1, data={"k.t": {"rows": 5, "bytes": 70}}, drained=6)
    await tell(client, 2, 4)
    nodes = await nodes_of(client)
    one, two, three = nodes[1], nodes[2], nodes[3]
    assert (one["liveness"], one["watermark"], one["lag"]) == ("up", 7, 0)
    assert (one["hash"], one["diverged"]) == (await hash_at(client, 7), False)
    assert (one["digest"], one["drained"]) == ("00" * 32, 6)
    assert one["data"] == {"k.t": {"rows": 5, "bytes": 70}}
    assert 0 <= one["age_s"] < DEADLINE_S
    assert (two["watermark"], two["lag"]) == (4, 3)
    assert (three["liveness"], three["watermark"], three["lag"]) == ("unknown", None, None)
    assert one["addresses"] == {"native": "10.0.0.1:1"}
    assert one["tokens"] == 1


async def test_a_past_epoch_knows_nothing_of_liveness(client):
    await tell(client, 1)
    response, answer = await client.get("/v1/nodes?at=7")
    assert answer["nodes"][0]["liveness"] is None
    assert answer["nodes"][0]["watermark"] is None
    assert "immutable" in response.headers["Cache-Control"]
    response, _ = await client.get("/v1/nodes")
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(("age_s", "expected"), [(LATE_AFTER_S, "late"), (DOWN_AFTER_S, "down")])
async def test_a_node_that_is_silent_is_late_and_then_down(client, database, age_s, expected):
    await tell(client, 1)
    connection = await asyncpg.connect(database)
    await connection.execute(
        "UPDATE reports SET received_at = received_at - make_interval(secs => $1)", float(age_s)
    )
    await connection.close()
    assert (await nodes_of(client))[1]["liveness"] == expected


async def test_any_process_takes_and_any_tells(client, database):
    async with cms(database, "cms-2") as other:
        await tell(other, 1)
        await tell(client, 2)
        for asked in (client, other):
            nodes = await nodes_of(asked)
            assert (nodes[1]["liveness"], nodes[2]["liveness"]) == ("up", "up")


async def test_reports_of_one_moment_share_a_statement(client, monkeypatch):
    """A thousand nodes once a second must not be a thousand statements."""
    store = client.engine.reporting.stores.reports
    sizes = []
    keep = store.keep

    async def counted(reports):
        sizes.append(len(reports))
        return await keep(reports)

    monkeypatch.setattr(store, "keep", counted)
    found = await hash_at(client, 7)

    async def later(number):
        await asyncio.sleep(number / 400)
        return await tell(client, 1 + number % 3, 7, hash=found)

    started_s = time.monotonic()
    answers = await asyncio.gather(*map(later, range(80)))
    elapsed_s = time.monotonic() - started_s
    assert {status for status, _ in answers} == {200}
    assert max(sizes) <= 3
    assert len(sizes) <= elapsed_s / LINGER_S + 1


async def test_an_unknown_node_is_told_so_and_leaves_nothing(client):
    status, problem = await tell(client, 99)
    assert (status, problem["code"], problem["field"]) == (404, "not_found", "node")
    assert await client.engine.reporting.stores.reports.heard() == []


async def test_a_node_that_registered_elsewhere_a_moment_ago_is_known(client, database):
    async with cms(database, "cms-2") as other:
        addresses = {"native": "10.0.0.9:1"}
        _, answer = await other.commit("Register", host_id="h9", addresses=addresses, **NODE)
        # It has not looked since, and nothing but the report makes it.
        assert client.engine.applied.metadata.epoch == 7
        status, _ = await tell(client, answer["result"]["node"], 7, hash=await hash_at(other, 7))
        assert status == 200


async def test_nodes_that_were_unregistered_are_forgotten(client):
    await tell(client, 1)
    addresses = {"native": "10.0.0.4:1"}
    await client.commit("Register", host_id="h4", addresses=addresses, **NODE)
    await tell(client, 4)
    await client.commit("Unregister", node=4)
    reporting = client.engine.reporting
    reporting.observer._round = 0
    await reporting.observer.observe()
    assert [item.node for item in await reporting.stores.reports.heard()] == [1]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"node": 0}, "node"),
        ({"node": "x"}, "node"),
        ({"epoch": -1, "hash": "ab" * 32}, "epoch"),
        ({"epoch": 2**53 - 1, "hash": "ab" * 32}, "epoch"),
        ({"hash": "ab"}, "hash"),
        ({"hash": 7}, "hash"),
        ({"digest": None}, "digest"),
        ({"sent_at_us": 1.5}, "sent_at_us"),
        ({"applied": [[1, 2, 3]]}, "applied"),
        ({"applied": [[9, 1]]}, "applied"),
        ({"applied": [[1, 1]] * (MARKS_MAX + 1)}, "applied"),
        ({"drained": 8}, "drained"),
        ({"data": {"k": "v"}}, "data"),
        ({"version": "\x00"}, "version"),
        ({"more": 1}, "more"),
    ],
)
async def test_a_report_that_is_none_is_a_problem(client, changed, field):
    more = {"epoch": 7, "node": 1, **changed}
    status, problem = await tell(client, more.pop("node"), more.pop("epoch"), **more)
    assert (status, problem["code"]) == (400, "malformed")
    assert problem["field"].startswith(field)
    assert await client.engine.reporting.stores.reports.heard() == []


@pytest.mark.parametrize(
    ("data", "status"),
    [(b"{", 400), (b"\xff", 400), (b"[" * 10_000, 400), (b" " * (REPORT_BYTES_MAX + 1), 413)],
)
async def test_what_is_not_even_json_is_a_problem(client, data, status):
    headers = {
        "Ringlog-Cluster": client.engine.applied.metadata.cluster.id,
        "Content-Type": "application/json",
    }
    async with client.session.post(REPORTS_PATH, data=data, headers=headers) as response:
        assert response.status == status


async def test_a_report_names_its_cluster_and_has_the_role(database):
    async with cms(database, tokens=Tokens(SECRETS)) as client:
        client.session.headers.update(bearer(Role.ADMIN))
        await populated(client)
        status, problem = await tell(client, 1, headers={"Ringlog-Cluster": "another"})
        assert (status, problem["code"]) == (409, "wrong_cluster")
        status, problem = await tell(client, 1, headers=bearer(Role.VIEWER))
        assert (status, problem["code"]) == (403, "forbidden")
        status, _ = await tell(client, 1, headers=bearer(Role.NODE))
        assert status == 200


async def test_metrics_tell_of_nodes(client):
    await tell(client, 1)
    await tell(client, 2, 4)
    _, text = await client.get("/metrics")
    lines = text.decode().splitlines()
    assert 'ringlog_nodes{liveness="up"} 2.0' in lines
    assert 'ringlog_nodes{liveness="unknown"} 1.0' in lines
    assert 'ringlog_node_lag_epochs{node="2"} 3.0' in lines
    assert "ringlog_diverged 0.0" in lines
