"""The client against real CMS processes: everything it promises, over a real log."""

import asyncio
import importlib.util
import runpy
import sys
import tempfile
from pathlib import Path

import pytest
import pytest_asyncio

import ringlog
from client.answers import Committed, Rejected
from client.client import Client
from client.errors import DivergedError, UnreachableError
from client.patience import Patience
from client.proposals import Proposal, new_entry_id
from log.replay import apply, replay
from metadata.tokens import Token
from services.local.settling import Wanted
from services.local.state import state_dir
from services.local.supervisor import Supervisor
from tests.fixtures.postgres import _address, _made_database
from transformations.directory import Register
from transformations.extensions import ClearExtension, SetExtension
from transformations.join import UnsafeJoin
from transformations.schema import CreateKeyspace

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        importlib.util.find_spec("services.cms.__main__") is None,
        reason="services/cms/__main__.py is missing: there is no CMS process to run",
    ),
]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def urls(postgres):
    """Two CMS processes on the server of the test run, each by its own address."""
    with tempfile.TemporaryDirectory(prefix="ringlog-client-") as folder:
        state = state_dir(Path(folder))
        async with (
            _made_database(postgres) as name,
            asyncio.TaskGroup() as group,
        ):
            ready = asyncio.get_running_loop().create_future()
            supervisor = Supervisor(state, Wanted(port=0, cms=2), dsn=_address(postgres, name))
            task = group.create_task(supervisor.run(ready.set_result))
            await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
            assert not task.done(), task
            yield [item.url for item in state.read_processes()]
            task.cancel()


@pytest_asyncio.fixture(loop_scope="module")
async def client(urls):
    async with Client(urls) as made:
        yield made


async def test_a_retry_gets_the_first_answer_from_any_address(urls):
    entry_id = new_entry_id()
    outcomes = []
    for url in urls:
        async with Client(url) as client:
            outcomes.append(
                await client.commit(SetExtension(name="a", value="1"), entry_id=entry_id)
            )

    assert isinstance(outcomes[0], Committed)
    assert outcomes[0] == outcomes[1]


async def test_a_refusal_says_what_is_wrong_and_stays(client):
    entry_id = new_entry_id()
    first = await client.commit(ClearExtension(name="later"), entry_id=entry_id)
    await client.commit(SetExtension(name="later", value="now"))
    again = await client.commit(ClearExtension(name="later"), entry_id=entry_id)

    assert isinstance(first, Rejected)
    assert first.code == "unknown_extension"
    assert again == first


async def test_a_commit_brings_the_entries_that_were_missed(client):
    before = (await client.status()).epoch
    await client.commit(SetExtension(name="b", value="1"))
    outcome = await client.commit(SetExtension(name="b", value="2"), last_known=before)

    assert [sealed.epoch for sealed in outcome.entries] == [before + 1, before + 2]
    assert outcome.entries[-1].hash == outcome.hash


async def test_a_batch_is_answered_in_order_and_an_atomic_one_whole_or_not_at_all(client):
    good = SetExtension(name="c", value="1")
    bad = ClearExtension(name="nothing")

    def batch(*transformations):
        return [Proposal(transformation=item) for item in transformations]

    outcomes = await client.commit_batch(batch(good, bad, good))
    assert [type(item) for item in outcomes] == [Committed, Rejected, Committed]

    tip = (await client.status()).epoch
    refused = await client.commit_batch(batch(good, bad), atomic=True)
    assert (refused.code, refused.index) == ("unknown_extension", 1)
    assert (await client.status()).epoch == tip

    whole = await client.commit_batch(batch(good, good), atomic=True)
    assert [item.epoch for item in whole] == [tip + 1, tip + 2]


async def test_a_follower_sees_what_is_committed_as_it_is_and_can_replay_it(client):
    tip = (await client.status()).epoch
    applied = replay(await client.entries())
    following = client.follow(applied.metadata.epoch, after_hash=applied.hash)
    for number in range(3):
        outcome = await client.commit(SetExtension(name="d", value=str(number)))
        async with asyncio.timeout(10):
            sealed = await anext(following)
        assert sealed.hash == outcome.hash
        applied = apply(sealed, applied)
    await following.aclose()

    assert applied.metadata.epoch == tip + 3
    assert (await client.metadata())["digest"] == applied.metadata.digest.hex()


async def test_another_history_is_noticed_by_its_hash_and_by_its_length(client):
    tip = (await client.status()).epoch
    for after, after_hash in ((1, b"\x01" * 32), (tip + 5, None)):
        with pytest.raises(DivergedError):
            await anext(client.follow(after, after_hash=after_hash))


async def test_owners_and_differences_are_answered(client):
    before = (await client.status()).epoch
    registered = await client.commit(
        Register(
            host_id="0c0ffee0-0000-4000-8000-00000000000a",
            addresses={"native": "127.0.0.1:9000"},
            datacenter="dc1",
            rack="r1",
            version="1",
        )
    )
    node = registered.result.node
    assert isinstance(await client.commit(UnsafeJoin(node=node, tokens=(Token(0),))), Committed)
    keyspace = {"strategy": "simple", "factor": 1}
    created = await client.commit(
        {"kind": CreateKeyspace.__name__, "name": "shop", "replication": keyspace}
    )

    owned = await client.owners("shop", key="x")
    assert (owned["epoch"], owned["readers"], owned["writers"]) == (created.epoch, [node], [node])
    assert (await client.owners("shop", token=5))["readers"] == [node]
    changed = (await client.diff(before, created.epoch))["components"]
    assert changed["directory"]["added"][0]["id"] == node
    assert (await client.component("directory", at=before))["nodes"] == []


async def run_example(monkeypatch, name, *arguments):
    path = str(EXAMPLES / name)
    monkeypatch.setattr(sys, "argv", [path, *arguments])
    await asyncio.to_thread(runpy.run_path, path, run_name="__main__")


async def test_the_example_of_connecting_runs(urls, capsys, monkeypatch):
    await run_example(monkeypatch, "connect.py", urls[0])

    assert "committed at epoch" in capsys.readouterr().out


async def test_the_example_of_following_runs(urls, client, capsys, monkeypatch):
    """It sees what is there at first as one change, and then what is committed meanwhile."""
    before = (await client.status()).epoch
    example = asyncio.create_task(run_example(monkeypatch, "follow.py", urls[0], str(before + 1)))
    shown = ""
    async with asyncio.timeout(30):
        while f"epoch {before}:" not in shown:
            await asyncio.sleep(0.02)
            shown += capsys.readouterr().out
    await client.commit(SetExtension(name="followed", value="yes"))
    await example

    shown += capsys.readouterr().out
    assert f"epoch {before + 1}: extensions" in shown
    assert f"nodes at epoch {before + 1}" in shown


async def test_a_follower_with_a_directory_starts_without_a_cms(urls, client, tmp_path):
    await client.commit(SetExtension(name="kept", value="1"))
    tip = (await client.status()).epoch
    async with ringlog.follow(urls, directory=tmp_path) as cluster:
        assert await cluster.reached(tip, timeout_s=30.0)
        digest = cluster.metadata.digest

    async with ringlog.follow("http://127.0.0.1:1", directory=tmp_path) as cluster:
        assert cluster.metadata.digest == digest
        assert cluster.standing.is_trusted


async def test_following_what_is_not_there_says_so(urls):
    with pytest.raises(UnreachableError):
        async with ringlog.follow("http://127.0.0.1:1", patience=Patience(deadline_s=0.2)):
            pass


async def test_the_synchronous_face_gives_the_same_answers(urls, client):
    def script():
        with ringlog.connect(urls) as cluster:
            return cluster.status(), cluster.metadata(at=1), cluster.component("cluster")

    status, metadata, cluster = await asyncio.to_thread(script)

    assert status == await client.status()
    assert metadata == await client.metadata(at=1)
    assert cluster == await client.component("cluster")
