"""A process that is kept running: started again whenever it dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import structlog

from services.local.command import reason_in
from services.local.restarts import Restarts
from services.local.state import Listed, Role

STOP_TIMEOUT_S = 35.0
LOG_EXCERPT_BYTES = 2_000

# Another folder would be searched first for what the process imports.
_FOLDER = "/"

logger = structlog.get_logger()


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How to start a process, and where it then answers."""

    name: str
    role: Role
    url: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path


class Child:
    """Tells `on_start` of each new process. Cancelling `keep` ends it, gracefully at first."""

    def __init__(self, recipe: Recipe, on_start: Callable[[Listed], None]) -> None:
        self.restarts = Restarts()
        self._recipe = recipe
        self._on_start = on_start

    @property
    def name(self) -> str:
        return self._recipe.name

    @property
    def log(self) -> Path:
        return self._recipe.log

    async def keep(self) -> None:
        while True:
            started_s = time.monotonic()
            try:
                died = await self._run()
            except OSError as error:
                # No memory, no process, no room: for now.
                died = {"fault": str(error)}
            self.restarts = self.restarts.after(time.monotonic() - started_s)
            pause_s = self.restarts.pause_s
            logger.warning("process died", name=self.name, restart_in_s=pause_s, **died)
            await asyncio.sleep(pause_s)

    async def _run(self) -> dict[str, object]:
        """Start it and wait for its end; what there is to say of that."""
        process = await self._start()
        try:
            self._on_start(self._listed(process.pid))
            return {"pid": process.pid, "status": await process.wait()}
        finally:
            await _ended(process)

    def last_words(self) -> str:
        """What the process said last, for whoever has to know why it does not serve."""
        with contextlib.suppress(FileNotFoundError):
            tail = self.log.read_bytes()[-LOG_EXCERPT_BYTES:]
            return reason_in(tail.decode(errors="replace"))
        return "it said nothing"

    def _listed(self, pid: int) -> Listed:
        recipe = self._recipe
        return Listed(name=recipe.name, role=recipe.role, pid=pid, url=recipe.url)

    async def _start(self) -> Process:
        recipe = self._recipe
        with recipe.log.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *recipe.command,
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
                cwd=_FOLDER,
                env={**os.environ, **recipe.environment},
                # Ctrl-C is for the supervisor, who ends the others in order.
                start_new_session=True,
            )


async def _ended(process: Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
