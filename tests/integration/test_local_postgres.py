"""PostgreSQL from its own binaries, in one state directory."""

import asyncio
import os
import signal
import socket
import stat
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from services.local.account import account_for
from services.local.failure import LocalServerError
from services.local.postgres import find, running, start, stop
from services.local.postgres_files import files_in, programs
from services.local.postmaster import processes
from services.local.waiting import until
from tests.fixtures.postgres import server_folder

STARTER = """
import asyncio, pathlib, signal, sys
from services.local.postgres import start
print(asyncio.run(start(pathlib.Path(sys.argv[1]))).pid, flush=True)
signal.pause()
"""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may start it as another user")


@pytest.fixture(scope="module")
def state_dir():
    """One folder for all tests, so that the data is made once; each starts and stops a server."""
    with server_folder() as folder:
        yield folder


@asynccontextmanager
async def connected(server, **options):
    connection = await asyncpg.connect(server.dsn, **options)
    try:
        yield connection
    finally:
        # The server may be gone.
        connection.terminate()


async def test_a_restart_keeps_the_data(state_dir):
    async with running(state_dir) as server, connected(server) as connection:
        await connection.execute("CREATE TABLE kept AS SELECT 1 AS value")

    async with running(state_dir) as server, connected(server) as connection:
        assert await connection.fetchval("SELECT value FROM kept") == 1


async def test_recovers_from_a_killed_postmaster(state_dir):
    """What was committed is there, and a session that outlived the postmaster is not."""
    data = files_in(state_dir).data
    async with running(state_dir) as first:
        async with connected(first) as busy, connected(first) as connection:
            await connection.execute("CREATE TABLE committed AS SELECT 1 AS value")
            # Computes without looking up, so it does not notice that its postmaster is gone.
            endless = asyncio.ensure_future(
                busy.fetch("SELECT count(*) FROM generate_series(1, 1e12)")
            )
            session = busy.get_server_pid()
            await until_it_runs(connection, session)
            os.kill(first.pid, signal.SIGKILL)
            await until(lambda: find(state_dir) is None, timeout_s=10)
            assert session in processes(data)

            second = await start(state_dir, first.port)

            assert session not in processes(data)
            with pytest.raises((asyncpg.PostgresError, OSError)):
                await endless
        assert second.dsn == first.dsn
        assert second.pid != first.pid
        async with connected(second) as connection:
            assert await connection.fetchval("SELECT value FROM committed") == 1


async def until_it_runs(connection, session):
    state = None
    async with asyncio.timeout(10):
        while state != "active":
            state = await connection.fetchval(
                "SELECT state FROM pg_stat_activity WHERE pid = $1", session
            )


async def test_a_second_start_adopts_the_server(state_dir):
    async with running(state_dir) as first:
        assert await start(state_dir) == first
        assert await start(state_dir, first.port + 1) == first
        assert find(state_dir) == first


async def test_starts_at_once_give_one_server(state_dir):
    try:
        servers = await asyncio.gather(*(start(state_dir) for _ in range(4)))

        assert len({server.pid for server in servers}) == 1
    finally:
        await stop(state_dir)


async def test_a_server_outlives_its_starter_and_is_adopted(state_dir):
    starter = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STARTER, str(state_dir), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert starter.stdout is not None
        pid = int(await asyncio.wait_for(starter.stdout.readline(), timeout=30))
        starter.kill()
        await starter.communicate()

        async with running(state_dir) as server, connected(server) as connection:
            assert server.pid == pid
            assert await connection.fetchval("SELECT 1") == 1
    finally:
        await stop(state_dir)


async def test_a_lock_file_that_names_a_stranger_is_stale(state_dir):
    """The pid of a crashed postmaster may be anybody's by now, also that of the same user."""
    async with running(state_dir) as server:
        files = files_in(state_dir)
        lock = (files.data / "postmaster.pid").read_text()
    account = await account_for(files.home, programs(files) / "postgres")
    stranger = await asyncio.create_subprocess_exec(*account.prefix, "sleep", "60")
    try:
        (files.data / "postmaster.pid").write_text(lock.replace(str(server.pid), str(stranger.pid)))
        account.take(files.data / "postmaster.pid")

        assert find(state_dir) is None
        async with running(state_dir) as server:
            assert server.pid != stranger.pid
        assert stranger.returncode is None
    finally:
        stranger.kill()
        await stranger.wait()


async def test_commits_are_on_disk_before_they_are_acknowledged(state_dir):
    expected = {
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "data_checksums": "on",
        "server_encoding": "UTF8",
        "password_encryption": "scram-sha-256",
        "unix_socket_directories": "",
    }
    async with running(state_dir) as server, connected(server) as connection:
        found = {name: await connection.fetchval(f"SHOW {name}") for name in expected}

        assert found == expected
        assert await connection.fetchval("SELECT 'ä' > 'z'"), "the order is that of the bytes"


async def test_a_file_cannot_turn_durability_off(state_dir):
    async with running(state_dir) as server, connected(server) as connection:
        await connection.execute("ALTER SYSTEM SET fsync = off")

    async with running(state_dir) as server, connected(server) as connection:
        assert await connection.fetchval("SHOW fsync") == "on"


async def test_listens_on_the_loopback_address_only(state_dir):
    async with running(state_dir) as server:
        found = [
            address
            for table in ("tcp", "tcp6")
            for address in listening(Path("/proc/net", table), server.port)
        ]

        assert found == ["0100007F"]


def listening(table, port):
    """Local addresses, in the kernel's hexadecimal, that somebody listens at."""
    for line in table.read_text().splitlines()[1:]:
        _, local, _, state, *_ = line.split()
        address, _, number = local.partition(":")
        if state == "0A" and int(number, 16) == port:
            yield address


@pytest.mark.parametrize("password", ["", "wrong"])
async def test_a_password_is_needed(state_dir, password):
    async with running(state_dir) as server:
        with pytest.raises(asyncpg.InvalidPasswordError):
            async with connected(server, password=password):
                pass


async def test_only_its_owner_reads_the_password(state_dir):
    async with running(state_dir) as server:
        file = files_in(state_dir).password

        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text() in server.dsn


async def test_stop_leaves_no_process(state_dir):
    """Also where somebody is connected; and a second stop finds nothing to do."""
    server = await start(state_dir)
    async with connected(server):
        assert server.pid in processes(files_in(state_dir).data)

        await stop(state_dir)

    assert processes(files_in(state_dir).data) == []
    assert find(state_dir) is None
    await stop(state_dir)


async def test_takes_the_port_it_is_given(state_dir):
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]

        async with running(state_dir, port) as server:
            assert server.port == port
            assert f"127.0.0.1:{port}/" in server.dsn


async def test_says_that_a_port_is_taken(state_dir):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(LocalServerError, match=f"Port {port} cannot be used"):
            await start(state_dir, port)


async def test_says_why_it_does_not_start(state_dir):
    files = files_in(state_dir)
    async with running(state_dir):
        pass
    control = files.data / "global" / "pg_control"
    control.rename(control.with_suffix(".away"))
    try:
        with pytest.raises(LocalServerError, match="pg_control"):
            await start(state_dir)
    finally:
        control.with_suffix(".away").rename(control)


async def test_goes_on_after_a_start_that_died_early():
    """Half-made data and a password without data are no obstacle."""
    with server_folder() as folder:
        files = files_in(folder)
        files.make_home()
        (files.home / "unfinished-1").mkdir()
        files.password.write_text("forgotten")

        async with running(folder) as server, connected(server) as connection:
            assert await connection.fetchval("SELECT 1") == 1
        assert sorted(path.name for path in files.home.iterdir()) == ["data", "password"]


@as_root
async def test_root_starts_it_under_another_user_behind_closed_doors():
    """The folder belongs to that user; the one above it is closed and stays so."""
    with server_folder() as folder:
        folder.chmod(0o700)

        async with running(folder / "state") as server, connected(server) as connection:
            # Needs a library of the installation, found by its path.
            await connection.execute("DO $$ BEGIN PERFORM 1; END $$")
            owner = owner_of(Path(f"/proc/{server.pid}"))

        assert owner != 0
        assert owner_of(files_in(folder / "state").data) == owner
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def owner_of(path):
    return path.stat().st_uid
