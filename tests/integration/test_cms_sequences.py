"""Sequences over HTTP and a real Postgres: barrier, laggards, drivers and movements."""

from __future__ import annotations

from io import BytesIO

import pytest

from log.store import TrimmedError
from metadata.epoch import Epoch
from services.http.progress import PROGRESS_BYTES_MAX, PROGRESS_PATH
from services.http.roles import Role, Tokens
from tests.integration.test_cms_reports import NODE, cms, tell
from tests.integration.test_cms_serving import FOUNDING, SECRETS, bearer

COLUMNS = [{"name": "id", "type": "bigint"}, {"name": "text", "type": "string"}]
QUARTER = 2**62
PREPARED = 11
"""The epoch of the join that `joining` leaves behind."""


async def committed(client, kind, **fields):
    status, answer = await client.commit(kind, **fields)
    assert status == 200, answer
    return answer["epoch"]


async def joining(client):
    """Three owners of every range, each with a table; a fourth node takes a quarter of the ring."""
    await committed(client, **FOUNDING)
    for number in range(1, 5):
        addresses = {"http": f"10.0.0.{number}:80"}
        await committed(client, "Register", host_id=f"h{number}", addresses=addresses, **NODE)
    for number in range(1, 4):
        token = str((number - 2) * QUARTER)
        await committed(client, "UnsafeJoin", node=number, tokens=[token])
    replication = {"strategy": "simple", "factor": 3}
    await committed(client, "CreateKeyspace", name="k", replication=replication)
    await committed(
        client, "CreateTable", keyspace="k", name="t", columns=COLUMNS, partition_key=["id"]
    )
    assert await committed(client, "PrepareJoin", **JOIN) == PREPARED


JOIN = {"node": 4, "tokens": [str(2 * QUARTER - 1)]}


@pytest.fixture
async def client(database):
    async with cms(database) as found:
        await joining(found)
        yield found


def driven(**more):
    return {"sequence": PREPARED, "step": "start", "doing": "waiting", "for_s": 2.5, **more}


async def drive(client, *sequences, driver="driver-1", **headers):
    own = {"Ringlog-Cluster": client.engine.applied.metadata.cluster.id}
    body = {"driver": driver, "sequences": list(sequences)}
    return await client.post(PROGRESS_PATH, body, **{**own, **headers})


async def shown(client, sequence=PREPARED):
    response, answer = await client.get(f"/v1/sequences/{sequence}")
    assert response.status == 200, answer
    return answer


async def test_the_barrier_is_computed_from_reports_without_any_driver(client):
    found = await shown(client)
    assert (found["barrier"]["epoch"], found["barrier"]["level"]) == (PREPARED, "each-quorum")
    (group,) = found["barrier"]["groups"]
    assert (group["group"], group["needed"], group["applied"]) == ([1, 2, 3], 2, [])
    assert not found["barrier"]["passed"]
    assert found["driver"] is None
    assert found["progress"] is None

    await tell(client, 1, PREPARED)
    await tell(client, 2, PREPARED - 4)
    found = await shown(client)
    assert not found["barrier"]["passed"]
    (group,) = found["barrier"]["groups"]
    assert (group["applied"], [item["node"] for item in group["missing"]]) == ([1], [2, 3])
    three, two = found["laggards"]
    assert (three["node"], three["liveness"], three["watermark"]) == (3, "unknown", None)
    assert (two["node"], two["address"], two["liveness"]) == (2, "10.0.0.2:80", "up")
    assert (two["watermark"], two["behind"], two["blocking"]) == (PREPARED - 4, 4, True)

    await tell(client, 2, PREPARED)
    found = await shown(client)
    assert found["barrier"]["passed"]
    assert [(item["node"], item["blocking"]) for item in found["laggards"]] == [(3, False)]


async def test_a_node_counts_only_once_it_has_drained(client):
    for number in (1, 2):
        await tell(client, number, PREPARED, drained=PREPARED - 1)
    assert not (await shown(client))["barrier"]["passed"]
    for number in (1, 2):
        await tell(client, number, PREPARED, drained=PREPARED)
    assert (await shown(client))["barrier"]["passed"]


async def test_after_a_session_is_closed_every_target_is_waited_for(client):
    evidence = {"level": "all", "applied": [1, 2, 3]}
    await committed(client, "StartJoin", sequence=PREPARED, barrier=evidence)
    epoch = await committed(client, "CancelSequence", sequence=PREPARED)
    for number in (1, 2, 3):
        await tell(client, number, epoch)
    found = await shown(client)
    (closing,) = [item for item in found["barrier"]["groups"] if item["all_of"]]
    assert (closing["group"], closing["needed"]) == ([4], 1)
    assert (found["cancelled"], found["barrier"]["passed"]) == (True, False)
    assert [item["node"] for item in found["laggards"] if item["blocking"]] == [4]
    await tell(client, 4, epoch)
    assert (await shown(client))["barrier"]["passed"]


async def test_the_barrier_is_shown_at_the_level_that_the_driver_asks_for(client):
    for number in (1, 2):
        await tell(client, number, PREPARED)
    assert (await shown(client))["barrier"]["passed"]

    assert await drive(client, driven(level="all")) == (200, {"known": 1})

    found = await shown(client)
    assert (found["barrier"]["level"], found["barrier"]["passed"]) == ("all", False)
    assert [item["node"] for item in found["laggards"] if item["blocking"]] == [3]


async def test_without_a_driver_the_level_is_that_of_the_last_step(client):
    evidence = {"level": "quorum", "applied": [1, 2, 3]}
    await committed(client, "StartJoin", sequence=PREPARED, barrier=evidence)

    found = await shown(client)

    assert found["barrier"]["level"] == "quorum"
    assert [item["level"] for item in found["taken"]] == [None, "quorum"]


async def test_a_session_is_shown_with_what_keeps_it_from_its_end(client):
    ranges = [{"left": "0", "right": "9"}]
    opened = await committed(client, "OpenSession", purpose="cleanup", nodes=[2], ranges=ranges)
    own = {"Ringlog-Cluster": client.engine.applied.metadata.cluster.id}
    said = {"session": opened, "doing": "stuck", "for_s": 2.5, "failures": 3, "nodes": [2]}
    told = {"driver": "d", "sequences": [], "sessions": [{**said, "detail": "node 2 is away"}]}
    (bare,) = (await client.get("/v1/sequences"))[1]["sessions"]
    assert bare["driver"] is None

    assert await client.post(PROGRESS_PATH, told, **own) == (200, {"known": 1})

    (view,) = (await client.get("/v1/sequences"))[1]["sessions"]
    assert (view["id"], view["purpose"], view["nodes"]) == (opened, "cleanup", [2])
    assert (view["driver"]["detail"], view["driver"]["nodes"]) == ("node 2 is away", [2])
    assert view["driver"]["for_s"] >= 2.5
    await committed(client, "CloseSession", session=opened)
    assert await client.post(PROGRESS_PATH, told, **own) == (200, {"known": 0})
    assert (await client.get("/v1/sequences"))[1]["sessions"] == []


async def test_a_change_of_the_cms_is_shown_with_what_keeps_it_from_its_end(client):
    assert (await client.get("/v1/sequences"))[1]["reconfiguration"] is None
    away = [{"name": "away", "url": "http://127.0.0.1:1"}]
    begun = await committed(client, "PrepareCmsReconfiguration", add=away)
    own = {"Ringlog-Cluster": client.engine.applied.metadata.cluster.id}
    said = {"session": begun, "doing": "stuck", "for_s": 2.5, "failures": 3, "detail": "no answer"}
    told = {"driver": "d", "sequences": [], "reconfiguration": said}

    assert await client.post(PROGRESS_PATH, told, **own) == (200, {"known": 1})

    view = (await client.get("/v1/sequences"))[1]["reconfiguration"]
    assert (view["id"], view["adding"], view["removing"], view["taken"]) == (begun, ["away"], [], 0)
    assert (view["driver"]["doing"], view["driver"]["detail"]) == ("stuck", "no answer")
    past = (await client.get(f"/v1/sequences?at={begun}"))[1]["reconfiguration"]
    assert (past["id"], past["driver"]) == (begun, None)
    await committed(client, "CancelCmsReconfiguration", sequence=begun)
    assert await client.post(PROGRESS_PATH, told, **own) == (200, {"known": 0})


async def test_steps_say_who_took_them_and_when(client):
    found = await shown(client)
    (step,) = found["taken"]
    assert 0 <= found["since_s"] < 60
    assert (step["step"], step["epoch"], step["committed_by"]) == ("prepare", PREPARED, "cms-1")
    assert step["committed_at"] > 1_600_000_000_000_000


async def test_what_a_driver_tells_is_joined_in_by_any_process(client, database):
    moved = {"phase": "copying", "rows_done": 100, "rows_total": 400, "rows_per_s": 50.0}
    told = driven(
        doing="stuck",
        detail="Spark does not answer",
        failures=3,
        waiting=[{"group": [1, 2, 3], "needed": 2, "missing": [3, 2]}],
        moved={**moved, "bytes_done": 1, "bytes_total": 9},
    )
    assert await drive(client, told) == (200, {"known": 1})
    async with cms(database, "cms-2") as other:
        for asked in (client, other):
            found = await shown(asked)
            driver = found["driver"]
            assert (driver["name"], driver["doing"], driver["failures"]) == ("driver-1", "stuck", 3)
            assert driver["detail"] == "Spark does not answer"
            assert driver["waiting"] == [2, 3]
            assert driver["for_s"] >= 2.5
            assert (found["rows"], found["bytes"]) == (400, 9)
            assert found["progress"]["rows_done"] == 100
            assert 0 < found["progress"]["eta_s"] <= 6
    _, listed = await client.get("/v1/sequences")
    assert listed["sequences"][0]["driver"]["name"] == "driver-1"


async def test_rows_of_the_step_before_are_not_shown(client):
    moved = dict.fromkeys(("rows_done", "rows_total", "bytes_done", "bytes_total"), 1)
    await drive(client, driven(step="mid", moved={"phase": "copying", **moved}))
    found = await shown(client)
    assert (found["driver"]["step"], found["progress"]) == ("mid", None)


async def test_progress_is_gone_with_its_sequence(client):
    await drive(client, driven())
    store = client.engine.reporting.stores.progress
    assert len(await store.known()) == 1
    epoch = await committed(client, "CancelSequence", sequence=PREPARED)
    evidence = {"level": "each-quorum", "applied": [1, 2, 3]}
    for number in (1, 2, 3):
        await tell(client, number, epoch)
    await committed(client, "RetireSequence", sequence=PREPARED, barrier=evidence)
    assert await drive(client, driven()) == (200, {"known": 0})
    assert await store.known() == []
    response, problem = await client.get(f"/v1/sequences/{PREPARED}")
    assert (response.status, problem["code"]) == (404, "not_found")


async def test_a_past_epoch_has_what_the_metadata_says_alone(client):
    await drive(client, driven())
    await client.set(1)
    response, found = await client.get(f"/v1/sequences/{PREPARED}?at={PREPARED}")
    assert "immutable" in response.headers["Cache-Control"]
    assert (found["voters"], found["due"]) == ([[1, 2, 3]], "start")
    gone = ("since_s", "barrier", "laggards", "driver", "rows", "bytes", "progress")
    assert [found[name] for name in gone] == [None] * 7
    assert found["taken"][0]["committed_at"] is None
    response, _ = await client.get("/v1/sequences")
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"driver": "", "sequences": []},
        {"driver": "d", "sequences": [{"sequence": -1}]},
        {"driver": "d", "sequences": [driven(doing="a\nb")]},
        {"driver": "d", "sequences": [driven(for_s=-1)]},
        {"driver": "d", "sequences": [driven(moved={"phase": "x"})]},
        {"driver": "d", "sequences": [], "more": 1},
        [],
    ],
)
async def test_a_malformed_progress_is_refused(client, body):
    own = {"Ringlog-Cluster": client.engine.applied.metadata.cluster.id}
    status, problem = await client.post(PROGRESS_PATH, body, **own)
    assert (status, problem["code"]) == (400, "malformed")


async def test_a_sequence_told_twice_and_one_that_is_unknown_do_no_harm(client):
    status, answer = await drive(client, driven(), driven(doing="moving"), driven(sequence=10**9))
    assert (status, answer) == (200, {"known": 1})
    assert (await shown(client))["driver"]["doing"] == "moving"
    assert await drive(client, driven(sequence=0)) == (200, {"known": 0})


async def test_progress_needs_the_cluster_and_the_role(database):
    async with cms(database, tokens=Tokens(SECRETS)) as client:
        admin = bearer(Role.ADMIN)
        body = {"entry_id": "8b1d8c7e-0000-4000-8000-000000000001", "transformation": FOUNDING}
        assert (await client.post("/v1/commit", body, **admin))[0] == 200
        assert (await drive(client, **bearer(Role.VIEWER)))[0] == 403
        assert (await drive(client, **bearer(Role.NODE)))[0] == 200
        wrong = {**bearer(Role.NODE), "Ringlog-Cluster": "another"}
        assert (await drive(client, **wrong))[1]["code"] == "wrong_cluster"
        large = BytesIO(b'{"driver": "%s"}' % (b"x" * PROGRESS_BYTES_MAX))
        cluster = client.engine.applied.metadata.cluster.id
        headers = {"Ringlog-Cluster": cluster, "Content-Type": "application/json"}
        headers |= bearer(Role.NODE)
        async with client.session.post(PROGRESS_PATH, data=large, headers=headers) as response:
            assert response.status == 413


async def planned(client, kind, **fields):
    rate = {"rows_per_s": fields.pop("rows_per_s")} if "rows_per_s" in fields else {}
    status, plan = await client.post(
        "/v1/plan", {"transformation": {"kind": kind, **fields}, **rate}
    )
    assert (status, plan["outcome"]) == (200, "accepted"), plan
    return plan


async def without_sequence(client):
    await committed(client, "CancelSequence", sequence=PREPARED)
    evidence = {"level": "each-quorum", "applied": [1, 2, 3]}
    await committed(client, "RetireSequence", sequence=PREPARED, barrier=evidence)


async def test_a_plan_estimates_what_moves_from_where_to_where(client):
    await without_sequence(client)
    plan = await planned(client, "PrepareJoin", **JOIN)
    assert [item["rows"] for item in plan["transfers"]] == [None] * len(plan["transfers"])
    assert (plan["rows"], plan["bytes"], plan["seconds"], plan["weakest"]) == (None, None, None, 3)
    assert (plan["barrier"]["passed"], plan["voters"]) == (False, [[1, 2, 3]])

    for number in (1, 2, 3):
        await tell(client, number, data={"k.t": {"rows": 4000, "bytes": 80000}})
    plan = await planned(client, "PrepareJoin", **JOIN, rows_per_s=100)
    assert {item["target"] for item in plan["transfers"]} == {4}
    assert sum(item["rows"] for item in plan["transfers"]) == pytest.approx(plan["rows"], abs=4)
    # Every node holds everything; the newcomer takes three of the four quarters.
    assert plan["rows"] == pytest.approx(3000, abs=4)
    assert plan["bytes"] == pytest.approx(60000, abs=40)
    assert plan["seconds"] == pytest.approx(30, abs=1)


async def test_a_plan_moves_nothing_where_no_table_is_placed(client):
    await without_sequence(client)
    for number in (1, 2, 3):
        await tell(client, number, data={"k.t": {"rows": 4000, "bytes": 80000}})
    before = await planned(client, "PrepareJoin", **JOIN)
    replication = {"strategy": "simple", "factor": 2}
    await committed(client, "CreateKeyspace", name="bare", replication=replication)
    plan = await planned(client, "PrepareJoin", **JOIN)
    # Its ranges change hands, and that is all.
    assert len(plan["deltas"]) > len(before["deltas"])
    assert plan["transfers"] == before["transfers"]

    await committed(client, "DropTable", keyspace="k", name="t")
    plan = await planned(client, "PrepareJoin", **JOIN)
    assert (plan["transfers"], plan["rows"], plan["bytes"]) == ([], None, None)


async def test_on_the_way_back_new_owners_are_read_no_more(client):
    plan = await planned(client, "CancelSequence", sequence=PREPARED, dead=[4])
    assert plan["weakest"] == 3


async def test_a_plan_knows_how_fast_past_movements_were(client):
    moved = dict.fromkeys(("rows_done", "rows_total", "bytes_done", "bytes_total"), 5000)
    told = {"phase": "copying", "rows_per_s": 250.0, **moved}
    await drive(client, driven(moved=told))
    # So few rows say nothing about the rate, because preparing took most of the time.
    await drive(client, driven(moved={**told, "rows_done": 1, "rows_per_s": 0.1}))
    await without_sequence(client)
    await drive(client)
    await tell(client, 1, data={"k.t": {"rows": 1000, "bytes": 10}})
    plan = await planned(client, "PrepareJoin", **JOIN)
    assert plan["rows_per_s"] == 250.0
    assert plan["seconds"] == pytest.approx(plan["rows"] / 250, abs=0.1)


async def test_the_removal_of_a_dead_node_is_weaker_and_reads_of_others(client):
    await without_sequence(client)
    await committed(client, "UnsafeJoin", node=4, tokens=JOIN["tokens"], accept_loss="a test")
    plan = await planned(client, "PrepareLeave", node=3, dead=[3])
    assert plan["weakest"] == 2
    assert 3 not in {item["source"] for item in plan["transfers"]}
    plan = await planned(client, "PrepareLeave", node=3)
    assert {item["source"] for item in plan["transfers"]} == {3}
    assert plan["weakest"] == 3


@pytest.mark.parametrize("rate", [0, -1, "fast", 1e300])
async def test_a_rate_that_is_none_is_refused(client, rate):
    wanted = {"transformation": {"kind": "TriggerSnapshot"}, "rows_per_s": rate}
    status, problem = await client.post("/v1/plan", wanted)
    assert (status, problem["field"]) == (400, "rows_per_s")


async def test_a_sequence_that_is_older_than_the_log_is_still_shown(client, monkeypatch):
    """Who took its steps, and when, went with their entries."""

    async def gone(_epoch, **_limits):
        raise TrimmedError(Epoch(PREPARED), "backup/")

    monkeypatch.setattr(client.engine, "entries_after", gone)

    response, answer = await client.get("/v1/sequences")

    assert response.status == 200
    (found,) = answer["sequences"]
    assert [(step["step"], step["committed_at"]) for step in found["taken"]] == [("prepare", None)]
    assert (found["since_s"], found["due"]) == (None, "start")
