"""The supervisor with stand-ins for CMS processes: what it starts, keeps and leaves."""

import asyncio
import os
import signal
import socket
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest

from metadata.partitioners import Partitioner
from services.local.failure import LocalServerError
from services.local.marked import end_marked, marked
from services.local.settling import Wanted
from services.local.state import state_dir
from services.local.supervision import AlreadyRunningError, supervisor_of
from services.local.supervisor import Supervisor

STAND_IN = (sys.executable, str(Path(__file__).with_name("stand_in.py")))
ELSEWHERE = "postgresql://nobody@127.0.0.1:1/nothing"
BACK_TIMEOUT_S = 10.0


@pytest.fixture
def state(tmp_path):
    return state_dir(tmp_path / "state")


@asynccontextmanager
async def running(state, *, cms=1, command=STAND_IN, wanted=None):
    """A supervisor that says ready, and is asked to stop at the end."""
    ready = asyncio.get_running_loop().create_future()
    supervisor = Supervisor(
        state, wanted or Wanted(port=0, cms=cms), dsn=ELSEWHERE, cms_command=command
    )
    task = asyncio.create_task(supervisor.run(ready.set_result))
    try:
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        yield (await ready).url
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def who_serves(url):
    async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as response:
        return await response.json()


async def eventually(look, *, timeout_s=BACK_TIMEOUT_S):
    found = None
    async with asyncio.timeout(timeout_s):
        while not found:
            with suppress(aiohttp.ClientError):
                found = await look()
            await asyncio.sleep(0.05)
    return found


async def test_ready_means_that_every_address_serves(state):
    async with running(state, cms=3) as url:
        listed = state.read_processes()

        assert [process.name for process in listed] == ["cms-1", "cms-2", "cms-3"]
        assert {process.role for process in listed} == {"cms"}
        assert (await who_serves(url))["pid"] in {process.pid for process in listed}
        for process in listed:
            assert await who_serves(process.url) == {"name": process.name, "pid": process.pid}


async def test_stopping_leaves_no_process(state):
    async with running(state, cms=2):
        assert len(marked(state.path)) == 2

    assert marked(state.path) == []
    assert state.read_processes() == []


async def test_a_process_that_is_killed_is_back_at_its_address(state):
    async with running(state, cms=2) as url:
        killed = state.read_processes()[0]
        os.kill(killed.pid, signal.SIGKILL)

        async def successor():
            served = await who_serves(killed.url)
            return served if served["pid"] != killed.pid else None

        served = await eventually(successor)
        again = state.read_processes()[0]

        assert served == {"name": killed.name, "pid": again.pid}
        assert again.url == killed.url
        assert (await who_serves(url))["pid"] in {one.pid for one in state.read_processes()}


async def test_a_second_start_keeps_addresses_and_founding_entry(state):
    async with running(state, cms=2) as url:
        before = state.read_kept()
        urls = [process.url for process in state.read_processes()]
    async with running(state, wanted=Wanted()) as url_again:
        assert url_again == url
        assert state.read_kept() == before
        assert before.founded
        assert [process.url for process in state.read_processes()] == urls


async def test_two_supervisors_do_not_share_a_state_directory(state):
    async with running(state):
        assert supervisor_of(state.lock) == os.getpid()
        with pytest.raises(AlreadyRunningError):
            async with running(state):
                pass
        assert len(marked(state.path)) == 1


async def test_what_a_dead_supervisor_left_is_found_and_ended(state):
    """As after kill -9 of the supervisor: its children live on, and nobody's list names them."""
    state.make()
    orphan = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import time; time.sleep(600)",
        env={**os.environ, "RINGLOG_SUPERVISED_IN": str(state.path)},
    )
    assert marked(state.path) == [orphan.pid]

    await end_marked(state.path)

    assert await orphan.wait() == -signal.SIGTERM


async def test_a_process_that_cannot_start_ends_the_start_with_its_last_words(state):
    command = (sys.executable, "-c", "raise SystemExit('error: no such log')")
    with pytest.raises(LocalServerError, match=r"cms-1 dies as it starts.*error: no such log"):
        async with running(state, command=command):
            pass
    assert marked(state.path) == []


async def test_a_port_that_others_share_is_not_shared_with_them(state):
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(LocalServerError, match=f"Port {port} cannot be used"):
            async with running(state, wanted=Wanted(port=port)):
                pass


async def test_the_partitioner_of_a_cluster_does_not_change(state):
    async with running(state):
        pass
    with pytest.raises(LocalServerError, match="xxhash64, which cannot change"):
        async with running(state, wanted=Wanted(partitioner=Partitioner.MURMUR3)):
            pass


async def test_nodes_without_a_token_of_their_own_are_not_even_started(state):
    state.make()
    state.tokens.write_text('{"admin": "a-secret"}')
    with pytest.raises(LocalServerError, match="no token for the role node"):
        async with running(state, wanted=Wanted(port=0, nodes=1)):
            pass
    assert state.read_processes() == []
