"""A duty of the supervisor: nodes come and go until there are as many as are wanted."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
import structlog

from client.answers import Committed, Rejected
from client.client import Client
from client.errors import ClientError
from log.backoff import Backoff
from metadata.directory import NodeState
from metadata.locks import SequenceId
from services.local.failure import LocalServerError
from services.local.first_tokens import take_first_tokens
from services.local.looking import Look, look, tokens_for
from services.local.prepared import Preparations, Prepared
from services.local.recipes import Servers
from services.local.replicas import keyspaces, too_few
from services.local.sizing import Action, Dismiss, Join, Leave, Rest, Start, Watch, next_action
from services.local.staff import Staff
from services.local.wishes import Desk
from transformations.directory import Unregister
from transformations.join import PrepareJoin
from transformations.leave import PrepareLeave
from transformations.outcome import Reason

ACTOR = "ringlog up"
BUSY_S = 0.2
IDLE_S = 2.0
WISH_INTERVAL_S = 0.1
PAUSES = Backoff(first_s=0.5, last_s=10.0)

_OVERTAKEN = frozenset(
    reason.value
    for reason in (
        Reason.RANGES_LOCKED,
        Reason.SEQUENCE_IN_PROGRESS,
        Reason.CLEANUP_OPEN,
        Reason.TOKEN_TAKEN,
        Reason.WRONG_STATE,
        Reason.UNKNOWN_NODE,
    )
)
"""Somebody else is at it, or was quicker: look again."""

logger = structlog.get_logger()


class Scaling:
    def __init__(self, staff: Staff, servers: Servers, desk: Desk) -> None:
        self._staff = staff
        self._servers = servers
        self._desk = desk
        self._prepared = Preparations()
        self._refused: set[str] = set()

    async def run(self, token: str | None) -> None:
        """Until cancelled. What goes wrong is tried again, and never ends the cluster."""
        failures = 0
        async with Client(self._staff.kept.url, token) as client:
            while True:
                pause_s = BUSY_S
                try:
                    is_resting = await self.advance(client)
                    failures, pause_s = 0, IDLE_S if is_resting else BUSY_S
                except (ClientError, LocalServerError, OSError, msgspec.MsgspecError) as error:
                    failures += 1
                    pause_s = PAUSES.pause_s(failures, chance=1.0)
                    logger.warning("scaling failed", fault=str(error), again_in_s=pause_s)
                    self._complain(error)
                await self._pause(pause_s)

    def _complain(self, error: Exception) -> None:
        # What went wrong may be that nothing can be written.
        with suppress(OSError):
            self._desk.say(str(error))

    async def _pause(self, pause_s: float) -> None:
        """Shorter if somebody makes a wish."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + pause_s
        # One that could not be taken is there already.
        known = self._desk.new_wish()
        while loop.time() < deadline_s and self._desk.new_wish() == known:  # noqa: ASYNC110 a file
            await asyncio.sleep(WISH_INTERVAL_S)

    async def advance(self, client: Client) -> bool:
        """One look and what follows from it; true if there was nothing to do."""
        found = await look(client)
        await self._take_wish(client, found)
        self._obey_cancels(found)
        kept = self._staff.kept
        action = next_action(
            found, kept.node_urls, kept.size, driven=kept.driver, refused=self._refused
        )
        await self._do(client, found, action)
        return isinstance(action, Rest)

    async def _take_wish(self, client: Client, found: Look) -> None:
        wish = self._desk.new_wish()
        if wish is None:
            return
        ours = self._staff.kept.node_urls
        fault = too_few(found, ours, wish.nodes, await keyspaces(client))
        if fault is None and not self._staff.kept.driver and wish.nodes != len(ours):
            fault = "The cluster runs without a driver."
        logger.info("nodes wanted", nodes=wish.nodes)
        if fault is None:
            # Before it is answered: what was not kept would be said to be done.
            self._refused.clear()
            self._staff.want(wish.nodes)
        self._desk.take(wish, ours, fault)

    async def _do(self, client: Client, found: Look, action: Action) -> None:
        match action:
            case Start():
                await self._start()
            case Join():
                await self._join(client, found, action)
            case Leave():
                leave = PrepareLeave(node=action.seat.id)
                await self._prepare(client, action, leave, NodeState.LEFT)
            case Dismiss():
                await self._dismiss(client, action)
            case Watch(name=name, sequence=None):
                self._desk.say(f"waiting for {name} to make itself known")
            case Watch(name=name, sequence=item):
                assert item is not None
                self._desk.say(f"{name}: {item.kind.value} {item.id}, {item.due.value} is due")
            case Rest():
                self._desk.done(self._staff.kept.node_urls)

    async def _start(self) -> None:
        self._desk.say("starting a node")
        try:
            await self._staff.take_on(self._servers)
            self._staff.begin_driver()
        except LocalServerError as error:
            self._give_up(str(error))

    async def _join(self, client: Client, found: Look, action: Join) -> None:
        urls = self._staff.kept.node_urls.values()
        if action.seat.url not in await take_first_tokens(client, urls, actor=ACTOR):
            return
        tokens = await tokens_for(client, action.seat, found)
        join = PrepareJoin(node=action.seat.id, tokens=tokens)
        await self._prepare(client, action, join, NodeState.JOINED)

    async def _prepare(
        self,
        client: Client,
        action: Join | Leave,
        transformation: PrepareJoin | PrepareLeave,
        hoped: NodeState,
    ) -> None:
        name, what = action.name, type(action).__name__.lower()
        outcome = await client.commit(transformation, actor=ACTOR, reason=f"{name} is to {what}")
        match outcome:
            case Committed(result=result):
                assert result.sequence is not None
                sequence = SequenceId(result.sequence)
                self._prepared.add(name, Prepared(sequence, action.seat.id, hoped))
            case Rejected(code=code, detail=detail) if code in _OVERTAKEN:
                self._desk.say(f"{name} waits to {what}: {detail}")
            case Rejected():
                self._refused.add(name)
                self._give_up(f"{name} cannot {what}: {_sentence(outcome)}")

    def _obey_cancels(self, found: Look) -> None:
        """Whoever cancelled a sequence does not want it begun again."""
        for name, item in self._prepared.cancelled(found).items():
            self._refused.add(name)
            self._give_up(f"Somebody cancelled sequence {item.sequence}, which was for {name}.")

    async def _dismiss(self, client: Client, action: Dismiss) -> None:
        self._desk.say(f"stopping {action.name}")
        if action.seat is not None and not action.has_left:
            outcome = await client.commit(Unregister(node=action.seat.id), actor=ACTOR)
            if isinstance(outcome, Rejected) and outcome.code != Reason.UNKNOWN_NODE.value:
                logger.warning("not unregistered", name=action.name, detail=outcome.detail)
                return
        await self._staff.dismiss(action.name, action.label)
        if not self._desk.is_open:
            # It left because somebody else let it leave, and is not to be missed.
            self._staff.want(min(self._staff.kept.size, len(self._staff.kept.node_ports)))

    def _give_up(self, detail: str) -> None:
        """Stay as many as there are, until somebody wishes otherwise."""
        logger.warning("nodes stay as they are", why=detail)
        names = self._staff.kept.node_urls
        self._staff.want(len(names))
        self._desk.refuse(detail, names)


def _sentence(outcome: Rejected) -> str:
    remedy = f"; {outcome.remedy}" if outcome.remedy else ""
    return f"{outcome.detail}{remedy}."
