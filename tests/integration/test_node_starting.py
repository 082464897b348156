"""How a node starts: from its own disk, under its own name, in its own cluster."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from client.answers import Committed
from client.standing import State
from log.follower import Step
from log.replay import replayed
from metadata.directory import NodeId
from metadata.tokens import Token
from services.local.waiting import until
from services.node import journal as journals
from services.node.identity import ForeignDirectoryError
from services.node.running import FILE
from store.database import opened
from store.failures import FileInUseError
from tests.fixtures.postgres import _address, _made_database
from tests.integration.nodes import TIMEOUT_S, get, house, known, node, same, sql
from transformations.directory import Register, Startup
from transformations.extensions import SetExtension
from transformations.join import UnsafeJoin
from transformations.leave import Assassinate

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def home(database, tmp_path):
    async with house(database, tmp_path) as made:
        yield made


async def test_a_node_registers_itself_and_says_how_far_it_is(home):
    settings = home.settings("node-1")
    async with node(settings) as subject:
        await known(subject)
        await same(subject, home.applied)
        found = home.applied.metadata.directory.nodes[subject.engine.node]
        status, body = await get(f"{subject.url}/v1/epoch")

    assert found.addresses == {"http": settings.advertised}
    assert status == 200
    assert body["epoch"] == home.applied.metadata.epoch
    assert body["digest"] == home.applied.metadata.digest.hex()


async def test_a_node_starts_from_its_own_disk_without_a_cms(home):
    settings = home.settings("node-1")
    async with node(settings) as subject:
        await known(subject)
        await same(subject, home.applied)
    await home.commit_many(20)
    async with node(settings) as subject:
        await same(subject, home.applied)
        before = subject.engine.applied
    await home.close_cms()

    async with node(settings) as subject:
        assert subject.engine.applied.hash == before.hash
        assert subject.engine.applied.metadata.digest == before.metadata.digest
        await until(
            lambda: subject.engine.following.standing.state is State.AWAY, timeout_s=TIMEOUT_S
        )
        status, body = await get(f"{subject.url}/readyz")
        assert (status, body["state"]) == (200, "away")
        status, page = await get(f"{subject.url}/v1/log?after=1&limit=5")
        assert (status, len(page["entries"])) == (200, 5)
        await home.open_cms()
        await home.commit_many(3)
        await same(subject, home.applied)


async def test_what_was_written_down_before_the_end_counts_although_nobody_saw_it(home):
    """The process died between its journal and its publication."""
    settings = home.settings("node-1")
    async with node(settings) as subject:
        await known(subject)
        await same(subject, home.applied)
        before = subject.engine.applied
    await home.commit_many(3)
    entries = await home.engine.entries_after(
        before.metadata.epoch, entries_max=10, bytes_max=1 << 20
    )
    steps = [
        Step(sealed, applied)
        for sealed, applied in zip(entries, replayed(entries, before), strict=True)
    ]
    async with opened(settings.state_dir / FILE, [journals.SCHEMA]) as database:
        await journals.Journal(database).append(steps)
    applied = home.applied
    await home.close_cms()

    async with node(settings) as subject:
        await same(subject, applied)


async def test_the_same_node_keeps_its_number_and_commits_nothing(home):
    settings = home.settings("node-1")
    async with node(settings) as subject:
        await known(subject)
        number = subject.engine.node
    tip = home.applied.metadata.epoch
    async with node(settings) as subject:
        await until(subject.engine.following.in_touch.is_set, timeout_s=TIMEOUT_S)
        await known(subject)
        assert subject.engine.node == number
    assert home.applied.metadata.epoch == tip


async def test_a_changed_address_is_a_startup(home):
    settings = home.settings("node-1")
    async with node(settings) as subject:
        await known(subject)
        number = subject.engine.node
    moved = home.settings("node-1")
    assert moved.advertised != settings.advertised
    async with node(moved) as subject:
        await until(
            lambda: (
                home.applied.metadata.directory.nodes[number].addresses["http"] == moved.advertised
            ),
            timeout_s=TIMEOUT_S,
        )
        assert subject.engine.node == number


async def test_a_changed_version_is_a_startup(home):
    settings = home.settings("node-1")
    async with node(settings) as subject:
        await known(subject)
        number = subject.engine.node
        version = home.applied.metadata.directory.nodes[number].version
    addresses = {"http": settings.advertised}
    await home.commit(Startup(node=number, addresses=addresses, version="0.0.1"))
    async with node(settings):
        await until(
            lambda: home.applied.metadata.directory.nodes[number].version == version,
            timeout_s=TIMEOUT_S,
        )


async def test_a_start_that_is_far_behind_decides_by_the_present(home):
    """More entries behind than a page holds, and among the last of them its own old address."""
    first = home.settings("node-1")
    async with node(first) as subject:
        await known(subject)
        await same(subject, home.applied)
        number = subject.engine.node
    await home.commit_many(1500)
    moved = {"http": "127.0.0.1:9"}
    version = home.applied.metadata.directory.nodes[number].version
    await home.commit(Startup(node=number, addresses=moved, version=version))
    async with node(first):
        await until(
            lambda: (
                home.applied.metadata.directory.nodes[number].addresses["http"] == first.advertised
            ),
            timeout_s=TIMEOUT_S,
        )


async def test_a_node_that_has_left_comes_back_as_a_new_one(home):
    other = await home.commit(_registration("other", "127.0.0.1:1"))
    await home.commit(UnsafeJoin(node=other.result.node, tokens=(Token(1),)))
    settings = home.settings("node-1")
    async with node(settings) as subject:
        await known(subject)
        number = subject.engine.node
    joined = await home.commit(UnsafeJoin(node=number, tokens=(Token(2),)))
    assert isinstance(joined, Committed), joined
    left = await home.commit(Assassinate(node=number))
    assert isinstance(left, Committed), left
    async with node(settings) as subject:
        await until(lambda: subject.engine.node not in (None, number), timeout_s=TIMEOUT_S)
        nodes = home.applied.metadata.directory.nodes
        assert number not in nodes
        assert nodes[subject.engine.node].addresses == {"http": settings.advertised}


async def test_an_address_that_is_taken_is_waited_for_and_said(home, capsys):
    settings = home.settings("node-1")
    await home.commit(_registration("squatter", settings.advertised))
    squatter = NodeId(1)
    async with node(settings) as subject:
        await same(subject, home.applied)
        await until(lambda: "start_refused" in capsys.readouterr().out, timeout_s=TIMEOUT_S)
        status, body = await get(f"{subject.url}/readyz")
        assert status == 503
        assert "does not know this node" in body["detail"]
        free = {"http": "127.0.0.1:1"}
        await home.commit(Startup(node=squatter, addresses=free, version="1"))
        await known(subject)
        assert (await get(f"{subject.url}/readyz"))[0] == 200


async def test_a_directory_of_another_name_is_refused(home):
    async with node(home.settings("node-1")) as subject:
        await known(subject)
    with pytest.raises(ForeignDirectoryError, match="belongs to the node named node-1"):
        async with node(home.settings("node-2", folder="node-1")):
            pass


async def test_a_directory_in_use_is_refused(home):
    settings = home.settings("node-1")
    async with node(settings) as subject:
        await known(subject)
        with pytest.raises(FileInUseError, match="in use by another process"):
            async with node(home.settings("node-1")):
                pass


async def test_another_clusters_directory_is_refused(home, postgres, migrated_template, tmp_path):
    async with node(home.settings("node-1")) as subject:
        await known(subject)
    async with (
        _made_database(postgres, template=migrated_template) as name,
        house(_address(postgres, name), tmp_path) as elsewhere,
    ):
        with pytest.raises(ForeignDirectoryError, match="give this node a state directory"):
            async with node(elsewhere.settings("node-1")):
                pass


async def test_the_process_says_it_in_one_sentence(home):
    settings = home.settings("node-1")
    async with node(settings) as subject:
        await known(subject)
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("RINGLOG_")},
        "RINGLOG_SEEDS": home.url,
        "RINGLOG_STATE_DIR": str(settings.state_dir),
        "RINGLOG_NAME": "node-2",
        "RINGLOG_LISTEN": settings.advertised,
    }
    command = (sys.executable, "-m", "services.node")
    ended = await asyncio.to_thread(
        subprocess.run,
        command,
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "belongs to the node named node-1, not node-2" in ended.stderr


async def test_a_cms_of_another_cluster_at_the_old_address_is_not_followed(
    home, postgres, migrated_template, tmp_path
):
    settings = home.settings("node-1")
    async with node(settings) as subject:
        await known(subject)
        await same(subject, home.applied)
        before = home.applied
        await home.close_cms()
        async with _made_database(postgres, template=migrated_template) as name:
            await home.open_cms(_address(postgres, name))
            await home.found("another")
            await home.commit_many(30)
            state = lambda: subject.engine.following.standing.state  # noqa: E731
            await until(lambda: state() is State.DIVERGED, timeout_s=TIMEOUT_S)
            assert subject.engine.applied.hash == before.hash
            assert (await get(f"{subject.url}/readyz"))[0] == 409
            await home.close_cms()
    async with node(settings) as subject:
        # It knows no CMS that would say otherwise, nor one that would say so again.
        status, problem = await get(f"{subject.url}/readyz")
        assert (status, problem["code"]) == (409, "diverged")
        await home.open_cms()
        await until(lambda: state() is State.FOLLOWING, timeout_s=TIMEOUT_S)
        await same(subject, home.applied)


async def test_a_node_restored_from_an_old_copy_says_so_and_catches_up(home, tmp_path):
    settings = home.settings("node-1")
    async with node(settings) as subject:
        await known(subject)
        await same(subject, home.applied)
    shutil.copytree(settings.state_dir, tmp_path / "copy")
    async with node(settings) as subject:
        tip = await home.commit_many(10)
        await home.heard_of(subject.engine.node, tip)
        assert subject.engine.was_set_back is False
    shutil.rmtree(settings.state_dir)
    shutil.copytree(tmp_path / "copy", settings.state_dir)

    async with node(settings) as subject:
        assert subject.engine.applied.metadata.epoch < tip
        await until(lambda: subject.engine.was_set_back is not None, timeout_s=TIMEOUT_S)
        assert subject.engine.was_set_back
        await same(subject, home.applied)


async def test_a_node_that_was_away_for_long_jumps_and_starts_from_there(home):
    settings = home.settings("node-1")
    async with node(settings) as subject:
        await known(subject)
        await same(subject, home.applied)
    await home.commit_many(300)
    await home.take_snapshot()
    await home.commit(SetExtension(name="last", value="1"))

    async with node(settings) as subject:
        await same(subject, home.applied)
    assert sql(settings, "SELECT count(*) FROM journal_snapshots")[0][0] == 1
    async with node(settings) as subject:
        await same(subject, home.applied)


def _registration(host, address):
    return Register(
        host_id=host, addresses={"http": address}, datacenter="dc1", rack="r1", version="1"
    )
