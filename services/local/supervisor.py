"""Everything of a cluster on one machine, kept running for as long as this runs."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec
import structlog

from services.local import postgres
from services.local.children import Child, Recipe
from services.local.failure import LocalServerError
from services.local.founding import found, wait_until
from services.local.marked import MARK, end_marked
from services.local.ports import ADDRESS, HeldPorts
from services.local.restarts import Restarts
from services.local.settling import Wanted, settled
from services.local.state import Kept, Listed, Role, StateDir
from services.local.supervision import sole_supervisor

DEATHS_MAX = 3
POSTGRES_POLL_INTERVAL_S = 0.2
CMS_COMMAND = (sys.executable, "-m", "services.cms")

logger = structlog.get_logger()


class Supervisor:
    """Starts, founds and keeps a cluster. `dsn` is a Postgres that somebody else runs."""

    def __init__(
        self,
        state: StateDir,
        wanted: Wanted,
        *,
        dsn: str | None = None,
        cms_command: Sequence[str] = CMS_COMMAND,
    ) -> None:
        self._state = state
        self._wanted = wanted
        self._dsn = dsn
        self._cms_command = tuple(cms_command)
        self._listed: dict[str, Listed] = {}

    async def run(self, on_ready: Callable[[str], None]) -> None:
        """Until cancelled; then nothing of the cluster is left running.

        `on_ready` is told the address once the cluster serves.
        """
        self._state.make()
        async with sole_supervisor(self._state.lock):
            await end_marked(self._state.path)
            try:
                await self._run_alone(on_ready)
            finally:
                self._state.write_processes([])

    async def _run_alone(self, on_ready: Callable[[str], None]) -> None:
        with HeldPorts() as ports:
            kept = settled(self._state, self._wanted, ports, own_postgres=self._dsn is None)
            async with self._postgres(kept) as (dsn, port):
                kept = msgspec.structs.replace(kept, postgres_port=port)
                self._state.write_kept(kept)
                await self._keep(kept, dsn, on_ready)

    @contextlib.asynccontextmanager
    async def _postgres(self, kept: Kept) -> AsyncIterator[tuple[str, int | None]]:
        """Its address, and its port where it is ours."""
        if self._dsn is not None:
            yield self._dsn, None
            return
        try:
            server = await postgres.start(self._state.path, kept.postgres_port)
            self._list_postgres(server)
            yield server.dsn, server.port
        finally:
            await postgres.stop(self._state.path)

    async def _keep(self, kept: Kept, dsn: str, on_ready: Callable[[str], None]) -> None:
        url = f"http://{ADDRESS}:{kept.port}"
        children = [
            Child(self._recipe(kept, number, dsn), self._list_cms(number, port))
            for number, port in enumerate(kept.own_ports, start=1)
        ]
        failure: LocalServerError | None = None
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(child.keep()) for child in children]
            if kept.postgres_port is not None:
                tasks.append(group.create_task(self._keep_postgres(kept.postgres_port)))
            try:
                await self._make_ready(kept, url, children)
                on_ready(url)
                await asyncio.Event().wait()
            except LocalServerError as error:
                failure = error
            finally:
                for task in tasks:
                    task.cancel()
        if failure is not None:
            raise failure

    async def _make_ready(self, kept: Kept, url: str, children: Sequence[Child]) -> None:
        def give_up() -> str | None:
            for child in children:
                if child.restarts.in_a_row >= DEATHS_MAX:
                    return f"{child.name} dies as it starts, see {child.log}: {child.last_words()}"
            return None

        own_urls = [f"http://{ADDRESS}:{port}" for port in kept.own_ports]
        await wait_until("/healthz", own_urls, give_up=give_up)
        await found(url, self._state.read_tokens().get("admin"), kept)
        self._state.write_kept(msgspec.structs.replace(kept, founded=True))
        await wait_until("/readyz", [*own_urls, url], give_up=give_up)

    async def _keep_postgres(self, port: int) -> None:
        """Postgres is nobody's child: it may be older than this supervisor."""
        restarts = Restarts()
        while True:
            await asyncio.sleep(POSTGRES_POLL_INTERVAL_S)
            if postgres.find(self._state.path) is not None:
                continue
            restarts = restarts.after(0.0)
            logger.warning("postgres is gone", restart_in_s=restarts.pause_s)
            await asyncio.sleep(restarts.pause_s)
            try:
                self._list_postgres(await postgres.start(self._state.path, port))
            except LocalServerError as error:
                logger.warning("postgres does not start", fault=str(error))
            else:
                restarts = Restarts()

    def _recipe(self, kept: Kept, number: int, dsn: str) -> Recipe:
        name = f"cms-{number}"
        environment = {
            MARK: str(self._state.path),
            "RINGLOG_NAME": name,
            "RINGLOG_POSTGRES_DSN": dsn,
            "RINGLOG_LISTEN": f"{ADDRESS}:{kept.port}",
            "RINGLOG_OWN_LISTEN": f"{ADDRESS}:{kept.own_ports[number - 1]}",
        }
        if self._state.tokens.exists():
            environment["RINGLOG_TOKENS_FILE"] = str(self._state.tokens)
        return Recipe(
            name=name,
            command=self._cms_command,
            environment=environment,
            log=self._state.log_of(name),
        )

    def _list_postgres(self, server: postgres.Server) -> None:
        # Without the password: the list may be read by anybody.
        url = f"postgresql://{ADDRESS}:{server.port}/{postgres.DATABASE}"
        self._list(Listed(name="postgres", role=Role.POSTGRES, pid=server.pid, url=url))

    def _list_cms(self, number: int, port: int) -> Callable[[int], None]:
        name, url = f"cms-{number}", f"http://{ADDRESS}:{port}"
        return lambda pid: self._list(Listed(name=name, role=Role.CMS, pid=pid, url=url))

    def _list(self, process: Listed) -> None:
        """A process that died stays in the list until its successor takes its place."""
        logger.info("process started", name=process.name, pid=process.pid)
        self._listed[process.name] = process
        self._state.write_processes(list(self._listed.values()))
