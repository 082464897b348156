"""Everything of a cluster on one machine, kept running for as long as this runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from client.client import Client
from services.local import kafka, postgres
from services.local.failure import LocalServerError
from services.local.first_tokens import take_first_tokens
from services.local.fleet import Fleet, running_fleet
from services.local.founding import ACTOR, found, founder, wait_until
from services.local.looking import look
from services.local.marked import end_marked
from services.local.membership import agree, member_names
from services.local.ports import ADDRESS, HeldPorts
from services.local.recipes import CMS_COMMAND, Servers, cms_recipes
from services.local.roster import Roster
from services.local.scaling import Scaling
from services.local.settling import Wanted, settled
from services.local.sizing import departed
from services.local.staff import Staff
from services.local.standing import Standing
from services.local.state import Fanout, Kept, Listed, Role, StateDir
from services.local.supervision import sole_supervisor
from services.local.tokens import make_tokens
from services.local.wishes import Desk

NODE_ROLE = "node"
FOUNDING_ROLE = "admin"
OPERATING_ROLES = ("admin", "operator")


class Ready(msgspec.Struct, frozen=True):
    """Where the cluster serves, which of its nodes own nothing yet, and whether they will.

    `unrepaired` are nodes that were set back and serve nothing before they are repaired.
    """

    url: str
    waiting: tuple[str, ...] = ()
    driven: bool = True
    unrepaired: tuple[str, ...] = ()


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
        self._cms_command = cms_command
        self._roster = Roster(state)
        self._postgres = Standing("postgres", postgres, state.path, self._list_postgres)
        self._kafka = Standing("kafka", kafka, state.path, self._list_kafka)

    async def run(self, on_ready: Callable[[Ready], None]) -> None:
        """Until cancelled; then nothing of the cluster is left running.

        `on_ready` is told once the cluster serves.
        """
        self._state.make()
        async with sole_supervisor(self._state.lock):
            await end_marked(self._state.path)
            try:
                await self._run_alone(on_ready)
            finally:
                self._roster.clear()

    async def _run_alone(self, on_ready: Callable[[Ready], None]) -> None:
        desk = Desk(self._state)
        async with contextlib.AsyncExitStack() as stack:
            ports = stack.enter_context(HeldPorts())
            own_postgres = self._dsn is None
            kept = settled(self._state, self._wanted, ports, own_postgres=own_postgres)
            self._settle_tokens(kept)
            kept, servers = await stack.enter_async_context(self._servers(kept))
            self._state.write_kept(kept)
            fleet = await stack.enter_async_context(running_fleet(self._roster.enter))
            self._keep_servers(fleet, kept)
            fleet.do(self._roster.keep_written())
            staff = Staff(self._state, kept, ports, fleet, self._roster)
            on_ready(await self._make_ready(fleet, staff, servers))
            fleet.do(Scaling(staff, servers, desk).run(self._token(OPERATING_ROLES)))
            await asyncio.Event().wait()

    def _token(self, roles: Sequence[str]) -> str | None:
        tokens = self._state.read_tokens()
        return next((tokens[role] for role in roles if role in tokens), None)

    def _settle_tokens(self, kept: Kept) -> None:
        if not kept.tokens:
            return
        make_tokens(self._state.tokens)
        if kept.node_ports and NODE_ROLE not in self._state.read_tokens():
            raise LocalServerError(
                f"{self._state.tokens} has no token for the role {NODE_ROLE}, which nodes need: "
                "add one, or move the file away to have all of them made."
            )

    @contextlib.asynccontextmanager
    async def _servers(self, kept: Kept) -> AsyncIterator[tuple[Kept, Servers]]:
        """Those that are ours, with their ports kept."""
        async with contextlib.AsyncExitStack() as stack:
            bootstrap, dsn = None, self._dsn
            if dsn is None:
                server = await stack.enter_async_context(self._postgres.running(kept.postgres_port))
                dsn, kept = server.dsn, msgspec.structs.replace(kept, postgres_port=server.port)
            if kept.fanout is Fanout.KAFKA:
                broker = await stack.enter_async_context(self._kafka.running(kept.kafka_port))
                kept = msgspec.structs.replace(kept, kafka_port=broker.port)
                bootstrap = broker.bootstrap
            yield kept, Servers(dsn=dsn, kafka=bootstrap)

    def _keep_servers(self, fleet: Fleet, kept: Kept) -> None:
        if kept.own_postgres and kept.postgres_port is not None:
            fleet.do(self._postgres.keep(kept.postgres_port))
        if kept.fanout is Fanout.KAFKA and kept.kafka_port is not None:
            fleet.do(self._kafka.keep(kept.kafka_port))

    async def _make_ready(self, fleet: Fleet, staff: Staff, servers: Servers) -> Ready:
        """First the CMS, then the nodes: they have nobody to ask before the cluster is founded."""
        kept = staff.kept
        fleet.start(cms_recipes(self._state, kept, servers, self._cms_command))
        cms = list(kept.cms_urls.values())
        await wait_until("/healthz", cms, give_up=fleet.give_up)
        async with founder(kept.url, self._token([FOUNDING_ROLE])) as client:
            await found(client, kept)
            staff.keep(msgspec.structs.replace(kept, founded=True))
            await wait_until("/readyz", [*cms, kept.url], give_up=fleet.give_up)
            await agree(client, member_names(kept.cms_urls), actor=ACTOR)
            await self._dismiss_left(client, staff)
            staff.begin_driver()
            unrepaired = await staff.start_nodes(servers)
            nodes = staff.kept.node_urls
            waiting = await take_first_tokens(client, nodes.values(), actor=ACTOR)
        await staff.driver_ready()
        names = tuple(name for name, url in nodes.items() if url in waiting)
        return Ready(kept.url, names, kept.driver, unrepaired)

    async def _dismiss_left(self, client: Client, staff: Staff) -> None:
        """Those who left while nobody was there to stop them; started, they would come back."""
        if not staff.kept.node_ports:
            return
        for action in departed(await look(client), staff.kept.node_urls):
            await staff.dismiss(action.name, action.label)
            if self._wanted.nodes is None:
                staff.want(min(staff.kept.size, len(staff.kept.node_ports)))

    def _list_postgres(self, server: postgres.Server) -> None:
        # Without the password: the list may be read by anybody.
        url = f"postgresql://{ADDRESS}:{server.port}/{postgres.DATABASE}"
        self._roster.enter(Listed(name="postgres", role=Role.POSTGRES, pid=server.pid, url=url))

    def _list_kafka(self, server: kafka.Server) -> None:
        url = server.bootstrap
        self._roster.enter(Listed(name="kafka", role=Role.KAFKA, pid=server.pid, url=url))
