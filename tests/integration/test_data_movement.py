"""What movement asks of a node: nothing happens without a permit, nor before it is drained."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import asyncpg
import msgspec
import pytest
from aiohttp import web

from metadata.tokens import FULL
from services.http.reports import REPORTS_PATH
from services.http.roles import Role
from services.local.waiting import until
from services.node.data.manifests import tables_held
from store.rows import row_of
from tests.integration.data_cluster import data_cluster, is_fit, stuck
from tests.integration.nodes import TIMEOUT_S, Between, get, node, serving
from tests.integration.test_cms_serving import SECRETS, bearer
from transformations.extensions import SetExtension
from transformations.schema import DropTable
from transformations.sessions import CloseSession, Errand, OpenSession

POLL_S = 0.02
WHOLE = [{"left": str(FULL.left), "right": FULL.right}]
"""Tokens may be text or numbers."""


@pytest.fixture
async def three(database, tmp_path):
    async with data_cluster(database, tmp_path) as made:
        yield made


async def opened(cluster, purpose=Errand.REPAIR, nodes=(1, 2, 3)):
    outcome = await cluster.commit(OpenSession(purpose=purpose, nodes=nodes, ranges=(FULL,)))
    return outcome.epoch


async def filled(cluster, count=30):
    rows = [{"key": f"k{number}", "columns": {"a_int": number}} for number in range(count)]
    path = "/v1/tables/shop/t/rows?consistency=all"
    status, answer = await cluster.ask("POST", path, 1, {"rows": rows})
    assert status == 200
    assert not any("code" in outcome for outcome in answer["outcomes"])


def flush_of(cluster, session, **more):
    tip = cluster.home.applied.metadata.epoch
    return {"session": session, "epoch": tip, "tables": [1], "ranges": WHOLE, **more}


async def staged(cluster, session, number=2):
    """A copy of node 1's only segment in the staging folder of another node."""
    status, flushed = await cluster.internal("flush", flush_of(cluster, session))
    assert status == 200, flushed
    (segment,) = flushed["segments"]
    status, staging = await cluster.internal("staging", {"session": session}, number)
    assert status == 200
    target = Path(staging["uri"]) / "attempt-1" / "part-0.parquet"
    await asyncio.to_thread(target.parent.mkdir)
    await asyncio.to_thread(shutil.copy, segment["path"], target)
    file = {"path": str(target), "bytes": segment["bytes"], "checksum": segment["checksum"]}
    return {
        "session": session,
        "name": f"{session}/1",
        "table": 1,
        "ranges": WHOLE,
        "files": [file],
    }


async def test_segments_are_flushed_copied_and_imported_under_a_session(three):
    await filled(three)
    session = await opened(three)
    message = await staged(three, session)
    _, sizes = await three.internal("sizes", {"ranges": WHOLE})
    assert [(size["table"], size["rows"]) for size in sizes["sizes"]] == [(1, 30)]

    assert await three.internal("import", message, 2) == (200, {"registered": True})
    assert await three.internal("import", message, 2) == (200, {"registered": False})
    wanted = {"session": session, "prefix": f"{session}/"}
    _, imported = await three.internal("imported", wanted, 2)
    (segment,) = imported["segments"]
    assert (segment["path"], segment["rows"]) == (message["files"][0]["path"], 30)
    assert segment["ranges"] == [{"left": FULL.left, "right": FULL.right}]
    _, nothing = await three.internal("imported", {**wanted, "prefix": "x"}, 2)
    assert nothing == {"segments": []}
    assert await three.nodes[1].plane.store.pinning() == [session]

    await three.commit(CloseSession(session=session))
    late = {**message, "name": f"{session}/2"}
    for path, body, number in (
        ("import", late, 2),
        ("import", message, 2),
        ("flush", flush_of(three, session), 1),
        ("staging", {"session": session}, 1),
        ("repaired", {"session": session, "ranges": WHOLE}, 1),
    ):
        status, problem = await three.internal(path, body, number)
        assert (status, problem["code"]) == (409, "no_permit"), (path, problem)

    async def is_unpinned():
        return not await three.nodes[1].plane.store.pinning()

    await eventually(is_unpinned)


async def eventually(holds):
    for _ in range(int(TIMEOUT_S / POLL_S)):
        if await holds():
            return
        await asyncio.sleep(POLL_S)
    raise TimeoutError


async def test_what_was_staged_and_not_imported_goes_with_its_session(three):
    await filled(three)
    session = await opened(three)
    message = await staged(three, session)
    path = Path(message["files"][0]["path"])
    await three.commit(CloseSession(session=session))
    await until(lambda: not path.exists(), timeout_s=TIMEOUT_S)


async def test_a_disk_that_takes_no_folder_is_told(three):
    """Something else lies where it should be, as a stand-in for a disk that is full."""
    session = await opened(three)
    _, staging = await three.internal("staging", {"session": session}, 2)
    blocked = Path(staging["uri"])
    await asyncio.to_thread(blocked.rmdir)
    await asyncio.to_thread(blocked.write_text, "")

    status, problem = await three.internal("staging", {"session": session}, 2)

    assert (status, problem["code"]) == (503, "store_failed")
    assert f"{blocked} cannot be read or written" in problem["detail"]
    await asyncio.to_thread(blocked.unlink)
    assert await three.internal("staging", {"session": session}, 2) == (200, staging)


async def test_an_import_takes_only_what_it_should(three):
    await filled(three)
    session = await opened(three, nodes=(2,))
    good = await staged(three, session)
    (file,) = good["files"]
    cleanup = await opened(three, Errand.CLEANUP)
    for number, change, wanted in (
        (3, {}, (400, "malformed")),
        (2, {"files": [{**file, "path": "../../x"}]}, (400, "malformed")),
        (2, {"files": [{**file, "path": "staged/1/../../x"}]}, (400, "malformed")),
        (2, {"files": [{**file, "bytes": file["bytes"] - 1}]}, (409, "unusable_segment")),
        (2, {"files": [{**file, "checksum": "0" * 64}]}, (409, "unusable_segment")),
        (2, {"files": [{**file, "path": file["path"] + "x"}]}, (409, "unusable_segment")),
        (2, {"table": 99}, (404, "unknown_table")),
        (2, {"session": 10**9}, (503, "not_drained")),
        (2, {"session": 3}, (400, "malformed")),
        (2, {"more": 1}, (400, "malformed")),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("services.node.data.movement.CATCH_UP_TIMEOUT_S", 0.05)
            status, problem = await three.internal("import", {**good, **change}, number)
        assert (status, problem["code"]) == wanted, (change, problem)
    assert (await three.internal("imported", {"session": session, "prefix": "1"}, 2))[1] == {
        "segments": []
    }
    status, problem = await three.internal("flush", flush_of(three, cleanup), 1)
    assert (status, problem["code"]) == (409, "no_permit")
    half = [{"left": FULL.left, "right": 0}]
    good["ranges"] = half
    assert (await three.internal("import", good, 2))[1] == {"registered": True}
    named = {"session": session, "prefix": good["name"]}
    (segment,) = (await three.internal("imported", named, 2))[1]["segments"]
    assert segment["ranges"] == half, "the rest of the file does not count"
    status, problem = await three.internal("import", {**good, "files": []}, 2)
    assert (status, problem["code"]) == (409, "import_name_reused")


@asynccontextmanager
async def stored_only(subject):
    """What this node applies is on disk and not published, until `release` is called."""
    journal = subject.engine._journal
    released, written, plain = asyncio.Event(), asyncio.Event(), journal.append

    async def append(steps):
        await plain(steps)
        written.set()
        await released.wait()

    journal.append = append
    try:
        yield written, released.set
    finally:
        released.set()
        del journal.append


async def test_a_session_that_is_closed_on_disk_permits_nothing_more(three, tmp_path):
    """Even if nobody in the process has heard of it: the permit is checked where the effect is."""
    await filled(three)
    session = await opened(three)
    message = await staged(three, session)
    async with stored_only(three.nodes[2]) as (written, release):
        await three.home.commit(CloseSession(session=session))
        await asyncio.wait_for(written.wait(), TIMEOUT_S)
        assert three.nodes[2].engine.applied.metadata.sessions.find(session) is not None
        importing = asyncio.ensure_future(three.internal("import", message, 2))
        await until(lambda: three.nodes[2].engine._published.is_awaited, timeout_s=TIMEOUT_S)
        assert not importing.done()
        # As the sweep does once it hears of the end; the zombie is told of that end all the same.
        shutil.rmtree(tmp_path / "node-2" / "data" / "staged" / str(session))
        release()
        status, problem = await importing
    assert (status, problem["code"]) == (409, "no_permit")
    wanted = {"session": session, "prefix": f"{session}/"}
    assert (await three.internal("imported", wanted, 2))[1] == {"segments": []}


async def test_cleanup_deletes_what_the_node_does_not_own_and_nothing_else(database, tmp_path):
    async with data_cluster(database, tmp_path, factor=2) as cluster:
        await filled(cluster)
        metadata, table = cluster.home.applied.metadata, cluster.table()
        keys = [f"k{number}" for number in range(30)]
        strays = [key for key in keys if 1 not in cluster.owners(key)]
        assert 0 < len(strays) < len(keys)
        rows = [
            row_of(table, metadata.cluster.partitioner, key, columns={}, timestamp=9)
            for key in strays
        ]
        await cluster.nodes[1].plane.store.put(table, rows)

        session = await opened(cluster, Errand.CLEANUP, nodes=(1,))
        body = {"session": session, "ranges": WHOLE}
        status, problem = await cluster.internal("cleanup", body, 2)
        assert (status, problem["code"]) == (409, "no_permit"), "it is for node 1"
        status, cleaned = await cluster.internal("cleanup", body, 1)
        assert status == 200, cleaned
        assert [item["table"] for item in cleaned["deleted"]] == [1]
        for key in keys:
            owned = 1 in cluster.owners(key)
            assert (await cluster.held(1, key) is not None) == owned
        assert (await cluster.internal("cleanup", body, 1))[0] == 200, "it may be repeated"

        await cluster.commit(CloseSession(session=session))
        status, problem = await cluster.internal("cleanup", body, 1)
        assert (status, problem["code"]) == (409, "no_permit")
        status, problem = await cluster.internal("cleanup", {**body, "session": 999, "wait_s": 0})
        assert (status, problem["code"]) == (503, "not_drained")


async def test_a_node_has_applied_an_epoch_only_when_older_writes_have_ended(three, monkeypatch):
    monkeypatch.setattr("services.node.data.rounds.MESSAGE_TIMEOUT_S", 0.05)
    subject = three.nodes[1]
    session = await opened(three)
    epoch = three.home.applied.metadata.epoch
    async with stuck(subject, "put") as release:
        status, _ = await three.put("k", {"a_int": 1}, number=1)
        assert status == 200, "the two others are enough"
        tip = (await three.commit(SetExtension(name="x", value="y"))).epoch
        rounds = subject.plane.coordinator._rounds
        await until(lambda: not rounds._stragglers, timeout_s=TIMEOUT_S)

        path = f"{subject.url}/v1/epoch?at_least={tip}&drained=true"
        _, answer = await get(f"{path}&wait=0.1")
        assert (answer["epoch"], answer["drained"]) == (tip, epoch), "nobody waits, yet it runs"
        body = flush_of(three, session, wait_s=0.05)
        status, problem = await three.internal("flush", body, 1)
        assert (status, problem["code"]) == (503, "not_drained")

        waiting = asyncio.ensure_future(get(f"{path}&wait=20"))
        release()
        _, answer = await waiting
        assert answer["drained"] == tip
    status, flushed = await three.internal("flush", flush_of(three, session), 1)
    assert status == 200
    assert (flushed["epoch"], flushed["segments"][0]["rows"]) == (tip, 1)
    await three.home.heard_of(1, tip)


def _is_set_back(subject):
    return subject.plane.fitness._doubt.set_back


async def test_a_node_that_was_set_back_serves_no_data_until_it_is_repaired(three, tmp_path):
    await filled(three)
    await three.stop(3)
    state, copy = three.settings(3).state_dir, tmp_path / "copy"
    await asyncio.to_thread(shutil.copytree, state, copy)
    await three.start(3)
    await three.fit()
    tip = (await three.commit(SetExtension(name="x", value="y"))).epoch
    await three.home.heard_of(3, tip)
    await three.stop(3)
    await asyncio.to_thread(shutil.rmtree, state)
    await asyncio.to_thread(copy.rename, state)
    for _ in range(2):
        restored = await three.start(3)
        await until(partial(_is_set_back, restored), timeout_s=TIMEOUT_S)
        status, problem = await three.get("k1", number=3)
        assert (status, problem["code"]) == (503, "needs_repair")
        assert (await three.put("k1", {}, number=3))[1]["code"] == "needs_repair"
        status, problem = await three.put("k1", {"a_int": 1}, query="?consistency=all")
        assert (status, problem["code"]) == (503, "write_unknown")
        assert "node 3: needs_repair" in problem["detail"]
        assert (await three.get("k1", number=1))[0] == 200
        assert (await get(f"{restored.url}/readyz"))[0] == 503
        await three.stop(3)

    restored = await three.start(3)
    session = await opened(three)
    body = {"session": session, "ranges": WHOLE}
    assert (await three.internal("flush", flush_of(three, session), 3))[0] == 200
    status, repaired = await three.internal("repaired", body, 3)
    assert (status, repaired["serves"]) == (200, True)
    assert (await three.get("k1", number=3))[0] == 200
    assert (await get(f"{restored.url}/readyz"))[0] == 200


async def crashed(dsn):
    """What a Postgres that died forgets: it empties every unlogged table."""
    connection = await asyncpg.connect(dsn)
    unlogged = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relpersistence = 'u'"
    names = [row["relname"] for row in await connection.fetch(unlogged)]
    assert "reports" in names
    await connection.execute(f"TRUNCATE {', '.join(names)}")
    await connection.close()


@pytest.mark.parametrize("is_crashed", [False, True])
async def test_rows_lost_while_nothing_was_committed_are_missed(three, tmp_path, is_crashed):
    """The restored copy has the newest epoch, and lacks rows that its node acknowledged."""
    await filled(three)
    await three.stop(3)
    state, copy = three.settings(3).state_dir, tmp_path / "copy"
    await asyncio.to_thread(shutil.copytree, state, copy)
    subject = await three.start(3)
    await three.fit()
    tip = three.home.applied.metadata.epoch
    assert (await three.put("late", {"a_int": 1}, query="?consistency=all"))[0] == 200
    await told_of_writes(three, 3, await subject.plane.fitness.writes())
    await three.stop(3)
    assert three.home.applied.metadata.epoch == tip
    if is_crashed:
        await crashed(three.home.dsn)
    await asyncio.to_thread(shutil.rmtree, state)
    await asyncio.to_thread(copy.rename, state)

    restored = await three.start(3)
    assert restored.engine.restored_at == tip
    await until(partial(_is_set_back, restored), timeout_s=TIMEOUT_S)
    status, problem = await three.get("k1", number=3)
    assert (status, problem["code"]) == (503, "needs_repair")
    session = await opened(three)
    body = {"session": session, "ranges": WHOLE}
    assert (await three.internal("flush", flush_of(three, session), 3))[0] == 200
    assert (await three.internal("repaired", body, 3))[1]["serves"]
    await three.stop(3)
    # It counts on from where the lost file ended, so nothing is missed once more.
    again = await three.start(3)
    await three.fit()
    assert again.engine.was_set_back is False
    assert (await three.get("k1", number=3))[0] == 200


async def told_of_writes(cluster, number, writes):
    """Wait until the CMS has been told of as many."""
    connection = await asyncpg.connect(cluster.home.dsn)
    query = "SELECT writes FROM highest_reports WHERE node = $1"

    async def is_told():
        return (await connection.fetchval(query, number) or 0) >= writes

    await eventually(is_told)
    await connection.close()


async def test_a_node_whose_first_report_went_unanswered_was_not_set_back(three):
    """What it said of itself in this life proves nothing about an earlier one."""
    between = Between(three.home.url)

    def lose(request, found):
        is_lost = request.path == REPORTS_PATH and between.counts[REPORTS_PATH] <= 2
        return web.Response(status=500) if is_lost else found

    between.twist = lose
    async with serving(between.answer) as address:
        settings = three.home.settings("node-4", seeds=(f"http://{address}",))
        async with node(settings) as subject:
            await until(partial(is_fit, subject), timeout_s=TIMEOUT_S)
            assert between.counts[REPORTS_PATH] > 2
            assert subject.engine.was_set_back is False
            assert subject.engine.applied.metadata.epoch > 0


async def test_hot_rows_become_segments_and_a_dropped_table_leaves_nothing(three, monkeypatch):
    monkeypatch.setattr("services.node.data.upkeep.HOT_ROWS_MAX", 10)
    await filled(three)
    store = three.nodes[1].plane.store

    async def is_flushed():
        return bool(await store.segments(1, (FULL,)))

    await eventually(is_flushed)
    for number in range(30):
        _, found = await three.get(f"k{number}")
        assert found["columns"]["a_int"] == number
    await three.home.heard_of(1, three.home.applied.metadata.epoch)

    await three.commit(DropTable(keyspace="shop", name="t"))
    assert (await three.get("k1"))[1]["code"] == "unknown_table"
    database = three.nodes[1].plane.movement._database

    async def is_dropped():
        return not await database.read(tables_held)

    await eventually(is_dropped)


async def test_rows_need_a_role(database, tmp_path):
    tokens = tmp_path / "tokens.json"
    tokens.write_bytes(msgspec.json.encode({r.name.lower(): text for r, text in SECRETS.items()}))
    async with data_cluster(database, tmp_path, tokens_file=tokens) as cluster:
        path = "/v1/tables/shop/t/rows/k"
        cluster_id = cluster.home.applied.metadata.cluster.id

        async def status_of(method, role, at=path, **headers):
            given: dict | None = {"columns": {}} if method in ("PUT", "POST") else None
            return (await cluster.ask(method, at, 1, given, **bearer(role), **headers))[0]

        assert (await cluster.ask("GET", path))[0] == 401
        assert await status_of("PUT", Role.VIEWER) == 403
        assert await status_of("PUT", Role.NODE) == 200
        assert await status_of("GET", Role.VIEWER) == 200
        assert await status_of("DELETE", Role.VIEWER) == 403
        assert await status_of("DELETE", Role.OPERATOR) == 200
        flush = "/internal/v1/flush"
        assert await status_of("POST", Role.VIEWER, flush, Ringlog_Cluster=cluster_id) == 403
        assert await status_of("POST", Role.NODE, flush) == 409, "it must name the cluster"
        assert await status_of("POST", Role.NODE, flush, Ringlog_Cluster=cluster_id) == 400, "node"
