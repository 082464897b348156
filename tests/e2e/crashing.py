"""A cluster in which anything is killed at a chosen moment of a sequence."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
from pathlib import Path
from typing import Any

import aiohttp

from client.answers import Committed
from metadata.tokens import Token
from tests.e2e.matrix import STEPS, Result, steps_of
from tests.e2e.spares import Spare
from transformations.ending import CancelSequence
from transformations.join import PrepareJoin
from transformations.leave import PrepareLeave
from transformations.move import PrepareMove
from transformations.replace import PrepareReplace

KNOWN_TIMEOUT_S = 60.0
SEQUENCE_TIMEOUT_S = 240.0
HEALTHY_TIMEOUT_S = 60.0
STAGED_TIMEOUT_S = 90.0
"""Longer than a node leaves alone what a job staged after its session was closed."""
LOOK_EVERY_S = 0.05
LOOK_TIMEOUT_S = 5.0
LOG_SHOWN_MAX = 6000
TOKENS = 4
OTHER = "node-2"
"""A node of the cluster that has a part in every sequence: there are as many as copies."""
THIRD = "node-3"
COMING = ("join", "replace", "replace_dead", "cancel")
GOING = ("leave", "replace", "remove", "replace_dead")
DEAD = ("remove", "replace_dead")
SERVERS = {"driver": "driver-1", "cms": "cms-1"}


class Log:
    """Which steps of a sequence are in the log, by the time they are."""

    def __init__(self, client, sequence):
        self._client = client
        self.sequence = sequence
        self.taken = {step: asyncio.Event() for step in (*STEPS, "cancel")}

    async def follow(self):
        async for sealed in self._client.follow(self.sequence):
            said = sealed.entry.transformation
            if getattr(said, "sequence", None) == self.sequence:
                name = sealed.kind.removesuffix("Sequence")
                step = next(step for step in self.taken if name.lower().startswith(step))
                self.taken[step].set()


class CrashTown:
    """As many nodes as there are copies, kept by `ringlog up`, and a spare that comes and goes."""

    def __init__(self, place, client, folder, seed):
        self.place = place
        self.client = client
        self.random = random.Random(seed)
        self.spare: Any = None
        self.next: Any = None
        self._folder = folder
        self._spares = 0
        self._used = set[int]()
        self._session = aiohttp.ClientSession()

    async def close(self):
        for spare in (self.spare, self.next):
            if spare is not None:
                await spare.stop()
        await self._session.close()

    def urls(self):
        kept = [item["url"] for item in self.place.listed() if item["role"] == "node"]
        is_there = self.spare is not None and not self.spare.is_down
        return [*kept, self.spare.url] if is_there else kept

    async def run(self, kind, cell):
        """One sequence to its end, with a blow in its course if there is a cell."""
        started_s = asyncio.get_running_loop().time()
        await self.make_room(kind)
        if cell is not None and (cell.step, cell.moment) == ("start", "before"):
            self._signal_driver(signal.SIGSTOP)
        async with self.begun(kind) as log:
            try:
                is_late, note = (False, "") if cell is None else await self._struck(cell, log)
                ended = await self.ended(kind, log)
            except TimeoutError:
                await self._tell()
                raise
        took_s = asyncio.get_running_loop().time() - started_s
        return Result(cell=cell, ended=ended, took_s=took_s, is_late=is_late, note=note)

    async def make_room(self, kind):
        """Start the node that comes, if one does; the one that is dead dies."""
        if kind in COMING:
            self.next = await self._new_spare()
        if kind in DEAD:
            await self.spare.go_down()

    @contextlib.asynccontextmanager
    async def begun(self, kind):
        """A sequence that was prepared, and is watched."""
        log = Log(self.client, await self._prepared(kind))
        following = asyncio.create_task(log.follow())
        try:
            yield log
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _new_spare(self):
        self._spares += 1
        name = f"spare-{self._spares}"
        found = Spare(self._folder / name, self._cms_url(), name)
        found.start(self._used)
        await self.until(lambda: self._number(found), KNOWN_TIMEOUT_S)
        return found

    async def _number(self, spare) -> Any:
        if spare is None:
            return None
        nodes = (await self.client.component("directory"))["nodes"]
        return next((n["id"] for n in nodes if n["addresses"].get("http") == spare.address), None)

    async def _prepared(self, kind):
        tokens = tuple(Token(self.random.randrange(-(2**63) + 1, 2**63)) for _ in range(TOKENS))
        present, coming = await self._number(self.spare), await self._number(self.next)
        wanted = {
            "join": lambda: PrepareJoin(node=coming, tokens=tokens),
            "move": lambda: PrepareMove(node=present, tokens=tokens),
            "replace": lambda: PrepareReplace(node=coming, replaced=present),
            "leave": lambda: PrepareLeave(node=present),
            "remove": lambda: PrepareLeave(node=present, dead=(present,)),
            "replace_dead": lambda: PrepareReplace(node=coming, replaced=present, dead=(present,)),
            "cancel": lambda: PrepareJoin(node=coming, tokens=tokens),
        }
        outcome = await self.client.commit(wanted[kind]())
        assert isinstance(outcome, Committed), outcome
        return outcome.result.sequence

    async def _struck(self, cell, log):
        """Kill the victim in the moment of the cell; whether that was late, and what to note."""
        await self._moment(cell, log)
        is_late = cell.moment == "before" and log.taken[cell.step].is_set()
        note = self._kill(cell)
        if (cell.step, cell.moment) == ("cancel", "before"):
            await self._turn_back(log)
        self._signal_driver(signal.SIGCONT)
        return is_late, note

    async def _turn_back(self, log):
        outcome = await self.client.commit(CancelSequence(sequence=log.sequence))
        assert isinstance(outcome, Committed), outcome

    async def _moment(self, cell, log):
        steps, place = steps_of(cell.kind), (cell.step, cell.moment)
        async with asyncio.timeout(SEQUENCE_TIMEOUT_S):
            if place == ("mid", "before") or cell.kind == "cancel":
                await log.taken["start"].wait()
                await self.until(lambda: self._is_copying(log), SEQUENCE_TIMEOUT_S)
            if place == ("cancel", "before"):
                # Nobody takes MID before the cancel is there.
                self._signal_driver(signal.SIGSTOP)
            elif cell.kind == "cancel":
                await self._turn_back(log)
            if cell.moment == "after":
                await log.taken[cell.step].wait()
            elif cell.step in ("start", "finish", "retire"):
                if cell.step != "start":
                    await log.taken[steps[steps.index(cell.step) - 1]].wait()
                    self._signal_driver(signal.SIGSTOP)
                await self._everywhere()

    async def _is_copying(self, log):
        if log.taken["mid"].is_set():
            return True
        found = await self._asked(f"{self.place.process('driver-1')['url']}/v1/sequences")
        listed = [] if found is None else found["sequences"]
        if not java_below(self.place.process("driver-1")["pid"]):
            return False
        return any((item["moved"] or {}).get("phase") == "copying" for item in listed)

    def _kill(self, cell):
        match cell.victim:
            case "driver" | "cms":
                self._kill_pid(self.place.process(SERVERS[cell.victim])["pid"])
            case "spark":
                return self._kill_spark()
            case "source" if cell.kind in ("leave", "replace"):
                self.spare.kill()
            case "source" if cell.kind in DEAD:
                self._kill_pid(self.place.process(THIRD)["pid"])
            case "target" if cell.kind not in ("leave", "remove"):
                (self.next or self.spare).kill()
            case _:
                self._kill_pid(self.place.process(OTHER)["pid"])
        return ""

    def _kill_spark(self):
        found = java_below(self.place.process("driver-1")["pid"])
        for pid in found:
            self._kill_pid(pid)
        return "" if found else "none ran"

    def _kill_pid(self, pid):
        os.kill(pid, signal.SIGKILL)

    def _signal_driver(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.place.process("driver-1")["pid"], number)

    async def ended(self, kind, log):
        """How it ended: forward, or by a cancel where it did not go forward."""
        try:
            await self.until(lambda: self._is_over(log.sequence), SEQUENCE_TIMEOUT_S)
        except TimeoutError:
            print(f"stuck: {await self.seen()}")
            await self.client.commit(CancelSequence(sequence=log.sequence))
            await self.until(lambda: self._is_over(log.sequence), SEQUENCE_TIMEOUT_S)
        async with asyncio.timeout(HEALTHY_TIMEOUT_S):
            await log.taken["retire"].wait()
        ended = "cancelled" if log.taken["cancel"].is_set() else "forward"
        await self._settle(kind, ended)
        return ended

    async def reconfigured(self, change, victim, moment):
        """The members of the CMS change; before the first step, or when it is in the log, the
        victim dies."""
        self._signal_driver(signal.SIGSTOP)
        try:
            outcome = await self.client.commit(change)
            assert isinstance(outcome, Committed), outcome
            if moment == "after":
                self._signal_driver(signal.SIGCONT)
                async with asyncio.timeout(HEALTHY_TIMEOUT_S):
                    await self._advanced(outcome.epoch)
            self._kill_pid(self.place.process(SERVERS[victim])["pid"])
        finally:
            self._signal_driver(signal.SIGCONT)
        await self.until(self._is_configured, HEALTHY_TIMEOUT_S)
        await self.until(self._is_driven, HEALTHY_TIMEOUT_S)
        await self._everywhere()
        members = (await self.client.component("cms"))["members"]
        return {member["name"]: member["state"] for member in members}

    async def _advanced(self, epoch):
        async for sealed in self.client.follow(epoch):
            if sealed.kind == "AdvanceCmsReconfiguration":
                return

    async def _is_configured(self):
        return (await self.client.component("cms"))["reconfiguration"] is None

    async def _tell(self):
        """What an operator would look at."""
        print(f"sequences: {await self.seen()}")
        for name in ("driver-1", "supervisor", "cms-1"):
            log = (self.place.path / f"{name}.log").read_text(errors="replace")
            print(f"{name}: {log[-LOG_SHOWN_MAX:]}")

    async def seen(self):
        """Sequences as the CMS tells of them."""
        found = await self._asked(f"{self._cms_url()}/v1/sequences")
        return [] if found is None else found["sequences"]

    async def _is_over(self, sequence):
        listed = (await self.client.component("sequences"))["sequences"]
        if any(item["id"] == sequence for item in listed):
            return False
        return not (await self.client.component("sessions"))["sessions"]

    def _cms_url(self):
        return next(item["url"] for item in self.place.listed() if item["role"] == "cms")

    async def _settle(self, kind, ended):
        """Who left is stopped; then everybody is back, agrees, and has nothing staged."""
        if ended == "forward" and kind in GOING:
            await self.spare.stop()
            self.spare, self.next = self.next, None
        elif ended == "forward" and kind == "join":
            self.spare, self.next = self.next, None
        elif self.next is not None:
            await self.next.stop()
            self.next = None
        if self.spare is not None and self.spare.is_down:
            self.spare.come_back()
        await self.until(self._is_driven, HEALTHY_TIMEOUT_S)
        await self._everywhere()
        try:
            await self.until(self._is_swept, STAGED_TIMEOUT_S)
        except TimeoutError:
            raise AssertionError(f"staged files stay: {self.unclaimed()}") from None

    async def _is_driven(self):
        return await self._asked(f"{self.place.process('driver-1')['url']}/readyz") is not None

    async def _everywhere(self):
        """Everybody has applied the tip, and says the same of it."""
        await self.until(self._is_agreed, HEALTHY_TIMEOUT_S)

    async def _is_agreed(self):
        tip = (await self.client.component("cluster"))["epoch"]
        urls = [*self.urls(), *([] if self.next is None else [self.next.url])]
        query = f"/v1/epoch?at_least={tip}&wait=2"
        found = [await self._asked(f"{url}{query}") for url in urls]
        seen = {item and (item["epoch"], item["digest"]) for item in found}
        if None not in seen and len({epoch for epoch, _ in seen}) == 1:
            assert len(seen) == 1, f"nodes differ at epoch {tip}: {seen}"
            return True
        return False

    async def _is_swept(self):
        return not await asyncio.to_thread(self.unclaimed)

    def unclaimed(self):
        """Files that were staged and belong to no segment, in all nodes."""
        folders = [self.place.path / item["name"] for item in self.place.listed()]
        folders += [self._folder / spare.name for spare in (self.spare, self.next) if spare]
        return [file for folder in folders for file in _unclaimed(folder)]

    async def _asked(self, url):
        timeout = aiohttp.ClientTimeout(total=LOOK_TIMEOUT_S)
        try:
            async with self._session.get(url, timeout=timeout) as response:
                return await response.json() if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None

    async def until(self, look, timeout_s):
        found = None
        try:
            async with asyncio.timeout(timeout_s):
                while not (found := await look()):  # noqa: ASYNC110 another process
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            raise TimeoutError(f"not within {timeout_s} s: {look}") from None
        return found


def _unclaimed(folder):
    staged = folder / "data" / "staged"
    # A walk passes over what is swept under it.
    files = [Path(place) / name for place, _, names in os.walk(staged) for name in names]
    if not files:
        return []
    with contextlib.closing(
        sqlite3.connect(f"file:{folder / 'node.sqlite'}?mode=ro", uri=True)
    ) as db:
        named = {path for (path,) in db.execute("SELECT path FROM store_segments")}
    return [path for path in files if str(path.relative_to(folder / "data")) not in named]


def java_below(pid):
    """The Java processes among the descendants of a process."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = stat.read_text().rpartition(")")
            parents[int(stat.parent.name)] = (int(rest.split()[1]), name.partition("(")[2])
    found = []
    for child, (_, name) in parents.items():
        above = child
        while above != pid and above in parents:
            above = parents[above][0]
        if above == pid and name == "java":
            found.append(child)
    return found
