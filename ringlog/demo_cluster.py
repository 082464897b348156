"""The cluster of the demo: real processes in a folder that goes with them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from asyncio.subprocess import DEVNULL, STDOUT
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from client.answers import Committed, Rejected
from client.client import Client
from client.connection import Connection
from client.patience import Patience
from client.transport import Answer, Request, ask, new_session
from log.entry import SealedEntry
from metadata.directory import NodeId
from metadata.epoch import EMPTY
from ringlog.commands.naming import Roster, roster
from ringlog.demo_rows import Ask
from services.local.failure import LocalServerError
from services.local.first_tokens import Seat
from services.local.lifecycle import start_detached, stop
from services.local.looking import look
from services.local.marked import MARK
from services.local.ports import ADDRESS, HeldPorts
from services.local.recipes import NODE_COMMAND
from services.local.settling import Wanted
from services.local.state import Fanout, Listed, Role, StateDir, state_dir
from services.local.waiting import until
from transformations.kinds import AnyTransformation

ACTOR = "demo"
CMS = 2
NODES = 4
RACK = "r2"
"""Where the next node of the supervisor would stand: racks are taken in turns."""
BACK_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 15.0
SEQUENCE_TIMEOUT_S = 600.0
POLL_S = 0.25
PAGES_MAX = 1_000

View = Mapping[str, Any]


class DemoCluster:
    """Four nodes have a supervisor that restarts them; those that the demo starts have none."""

    def __init__(self, state: StateDir, client: Client, cms: Connection, asked: Ask) -> None:
        self.ask = asked
        self.client = client
        self.state = state
        self._cms = cms
        self._alone: dict[str, Listed] = {}
        self._names: dict[str, str] = {}

    @property
    def processes(self) -> list[Listed]:
        return [*self.state.read_processes(), *self._alone.values()]

    @property
    def nodes(self) -> dict[str, Listed]:
        return {item.name: item for item in self.processes if item.role is Role.NODE}

    def process(self, name: str) -> Listed:
        return next(item for item in self.processes if item.name == name)

    async def commit(self, transformation: AnyTransformation, why: str = "") -> Committed:
        outcome = await self.client.commit(transformation, actor=ACTOR, reason=why or None)
        if isinstance(outcome, Rejected):
            raise LocalServerError(f"The cluster refused: {outcome.detail}.")
        return outcome

    async def seat(self, name: str) -> Seat:
        """The node of this name in the directory, once it is there."""
        url = self.process(name).url
        async with asyncio.timeout(BACK_TIMEOUT_S):
            while (found := (await look(self.client)).seats.get(url)) is None:  # noqa: ASYNC110 another process
                await asyncio.sleep(POLL_S)
        return found

    async def roster(self) -> Roster:
        listed = (await self._read("/v1/nodes"))["nodes"]
        # Those who are gone are still spoken of.
        self._names |= {item.url: item.name for item in self.processes}
        return roster(listed, self._names)

    async def start_node(self, name: str) -> Seat:
        """A node that nobody restarts: registered, and owning nothing yet."""
        with HeldPorts() as ports:
            address = f"{ADDRESS}:{ports.hold()}"
        kept = self.state.read_kept()
        broker = kept.kafka_port if kept is not None else None
        settings = {
            MARK: str(self.state.path),
            "RINGLOG_NAME": name,
            "RINGLOG_STATE_DIR": str(self.state.path / name),
            "RINGLOG_SEEDS": self._cms.urls[0],
            "RINGLOG_LISTEN": address,
            "RINGLOG_RACK": RACK,
            "RINGLOG_KAFKA": "" if broker is None else f"{ADDRESS}:{broker}",
        }
        with self.state.log_of(name).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *NODE_COMMAND,
                stdin=DEVNULL,
                stdout=log,
                stderr=STDOUT,
                env={**os.environ, **settings},
                cwd="/",
                # Ctrl-C is for the demo, which ends the others in order.
                start_new_session=True,
            )
        url = f"http://{address}"
        self._alone[name] = Listed(name=name, role=Role.NODE, pid=process.pid, url=url)
        return await self.seat(name)

    def kill(self, name: str) -> Listed:
        """With -9: no warning, nothing flushed."""
        found = self.process(name)
        os.kill(found.pid, signal.SIGKILL)
        self._alone.pop(name, None)
        return found

    async def back(self, killed: Listed) -> Listed:
        """Its successor, once the supervisor has started one."""
        await until(lambda: self.process(killed.name).pid != killed.pid, timeout_s=BACK_TIMEOUT_S)
        return self.process(killed.name)

    async def over(self, sequence: int, tell: Callable[[View], None]) -> None:
        """Once it is retired and all that nobody owns any more is cleaned away."""
        async with asyncio.timeout(SEQUENCE_TIMEOUT_S):
            while (view := await self.view(sequence)) is not None:
                tell(view)
                await asyncio.sleep(POLL_S)
            while (await self.client.component("sessions"))["sessions"]:  # noqa: ASYNC110 another process
                await asyncio.sleep(POLL_S)

    async def view(self, sequence: int) -> View | None:
        """None if it is over."""
        listed = (await self._read("/v1/sequences"))["sequences"]
        return next((view for view in listed if view["id"] == sequence), None)

    async def sequence_of(self, node: NodeId) -> int:
        """The one that is in progress for a node, once there is one."""
        async with asyncio.timeout(BACK_TIMEOUT_S):
            while (found := (await look(self.client)).sequence_of(node)) is None:  # noqa: ASYNC110 another process
                await asyncio.sleep(POLL_S)
        return found.id

    async def log(self) -> list[SealedEntry]:
        """All of it."""
        entries: list[SealedEntry] = []
        for _ in range(PAGES_MAX):
            page = await self.client.entries(entries[-1].epoch if entries else EMPTY)
            if not page:
                break
            entries += page
        return entries

    async def stop(self) -> None:
        """No process is left; the folder is."""
        await stop(self.state)

    async def _read(self, path: str) -> dict[str, Any]:
        body = await self._cms.read(Request(path=path))
        return msgspec.json.decode(body, type=dict[str, Any])


@asynccontextmanager
async def running_cluster(parent: Path, fanout: Fanout) -> AsyncIterator[DemoCluster]:
    """Leaves no process and no file."""
    state = state_dir(_new_folder(parent))
    try:
        wanted = Wanted(port=0, cms=CMS, nodes=NODES, fanout=fanout, name="demo")
        ready = await start_detached(state, wanted, None)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(ready.url))
            cluster = (await client.component("cluster"))["id"]
            cms = Connection([ready.url], token=None, cluster=cluster, patience=Patience())
            stack.push_async_callback(cms.close)
            session = await stack.enter_async_context(new_session(None, cluster))

            async def asked(url: str, request: Request) -> Answer:
                return await ask(session, url, request, timeout_s=ANSWER_TIMEOUT_S)

            yield DemoCluster(state, client, cms, asked)
    finally:
        await stop(state)
        shutil.rmtree(state.path, ignore_errors=True)


def _new_folder(parent: Path) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="demo-", dir=parent))
    # As root, Postgres runs under a user of its own, who has to pass through.
    folder.chmod(0o755)
    return folder
