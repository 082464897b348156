"""A Postgres and CMS processes for tests: real ones, which may be killed and come back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, STDOUT
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from log.entry import SealedEntry
from log.postgres import PostgresLog
from log.postgres_sessions import Sessions
from metadata.epoch import EMPTY
from services.local import postgres
from services.local.ports import ADDRESS, HeldPorts
from tests.fixtures.postgres import server_folder

ROOT = Path(__file__).parents[2]
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 40.0
POLL_S = 0.05
LOG_SHOWN_CHARS = 4_000
PAGE_ENTRIES = 10_000
PAGE_BYTES = 64 * 1024 * 1024

_BACKENDS = """
SELECT pid, application_name FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY pid
"""


class Cms:
    """One process at an address of its own, which it keeps when it is started again."""

    def __init__(self, name, folder, environment, url):
        self.name = name
        self.url = url
        self.log = folder / f"{name}.log"
        self._environment = environment
        self._process: Any = None
        self._turn = asyncio.Lock()

    @property
    def pid(self):
        return self._process.pid

    @property
    def is_running(self):
        return self._process is not None and self._process.returncode is None

    async def start(self):
        others = {k: v for k, v in os.environ.items() if not k.startswith("RINGLOG_")}
        with self.log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "services.cms"),
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
                cwd=ROOT,
                env={**others, **self._environment},
            )

    async def ready(self, timeout_s=READY_TIMEOUT_S):
        deadline_s = time.monotonic() + timeout_s
        async with aiohttp.ClientSession() as session:
            while not await self._answers(session):
                assert self.is_running, f"{self.name} ended: {self.last_words()}"
                assert time.monotonic() < deadline_s, f"not ready: {self.last_words()}"
                await asyncio.sleep(POLL_S)

    async def crash(self):
        """-9, and up again at once. One that has not come up yet may be hit as well."""
        async with self._turn:
            await self.kill()
            await self.start()

    async def kill(self):
        """As power loss would: no warning, nothing flushed, nothing answered."""
        assert self.is_running, f"{self.name} ended by itself: {self.last_words()}"
        self._process.kill()
        await self._process.wait()

    async def stop(self):
        """As an operator would, and gives the status it ended with."""
        if self.is_running:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), STOP_TIMEOUT_S)
            except TimeoutError:
                await self.kill()
        return None if self._process is None else self._process.returncode

    async def pause(self, duration_s):
        """It holds its connections and its lease, and does nothing."""
        process = self._process
        # Somebody may kill it meanwhile.
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(duration_s)
            finally:
                process.send_signal(signal.SIGCONT)

    async def is_sequencing(self):
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/healthz") as response,
        ):
            return (await response.json())["sequencing"]

    def memory_bytes(self, field="VmRSS"):
        """Resident now; by `VmHWM` the most there ever was."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        (line,) = (line for line in status.splitlines() if line.startswith(f"{field}:"))
        return int(line.split()[1]) * 1024

    def last_words(self):
        return self.log.read_text(encoding="utf-8", errors="replace")[-LOG_SHOWN_CHARS:]

    async def _answers(self, session):
        timeout = aiohttp.ClientTimeout(total=2)
        try:
            async with session.get(f"{self.url}/readyz", timeout=timeout) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False


class Cluster:
    """`url` is the port that all CMS processes share; each also has its own."""

    def __init__(self, folder, server, url, members):
        self.server = server
        self.url = url
        self.members = members
        self._folder = folder

    @property
    def urls(self):
        return [self.url, *(cms.url for cms in self.members)]

    async def cut_backend(self, pick):
        """End one of the connections to Postgres, which `pick` chooses; gives its name."""
        async with self._connected() as connection:
            rows = await connection.fetch(_BACKENDS)
            if not rows:
                return None
            # First what for: there are several that read and one for each CMS that appends.
            name = pick(sorted({row["application_name"] for row in rows}))
            row = pick([row for row in rows if row["application_name"] == name])
            await connection.execute("SELECT pg_terminate_backend($1)", row["pid"])
            return name or "other"

    async def restart_postgres(self):
        """In order, on the same port."""
        await postgres.stop(self._folder)
        self.server = await postgres.start(self._folder, self.server.port)

    async def crash_postgres(self):
        """One backend dies by -9; the server then drops all others and recovers from its log."""
        async with self._connected() as connection:
            rows = await connection.fetch(_BACKENDS)
        os.kill(rows[0]["pid"], signal.SIGKILL)

    @asynccontextmanager
    async def _connected(self):
        connection = await asyncpg.connect(self.server.dsn)
        try:
            yield connection
        finally:
            await connection.close()

    async def entries(self):
        """The whole log, as the database holds it."""
        sessions = Sessions(self.server.dsn)
        store = PostgresLog(sessions)
        found: list[SealedEntry] = []
        try:
            while page := await store.read_after(
                found[-1].epoch if found else EMPTY, entries_max=PAGE_ENTRIES, bytes_max=PAGE_BYTES
            ):
                found += page
        finally:
            await sessions.close()
        return found


@asynccontextmanager
async def cluster(cms_count, more=None):
    """Everything is ready when the block begins, and gone when it has ended.

    `more` is what the CMS processes are told besides.
    """
    async with AsyncExitStack() as stack:
        ports = stack.enter_context(HeldPorts())
        folder = stack.enter_context(server_folder())
        server = await stack.enter_async_context(postgres.running(folder))
        shared = f"{ADDRESS}:{ports.hold_shared(0)}"
        members = []
        for number in range(1, cms_count + 1):
            name, own = f"cms-{number}", f"{ADDRESS}:{ports.hold()}"
            environment = {
                "RINGLOG_POSTGRES_DSN": server.dsn,
                "RINGLOG_LISTEN": shared,
                "RINGLOG_OWN_LISTEN": own,
                "RINGLOG_NAME": name,
                **(more or {}),
            }
            members.append(Cms(name, folder, environment, f"http://{own}"))
        for cms in members:
            stack.push_async_callback(cms.stop)
            await cms.start()
        await asyncio.gather(*(cms.ready() for cms in members))
        yield Cluster(folder, server, f"http://{shared}", members)
