"""Servers that are nobody's children: they may be older than the supervisor, and outlive it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Generic, NoReturn, Protocol, TypeVar

import structlog

from services.local.failure import LocalServerError
from services.local.restarts import Restarts

POLL_INTERVAL_S = 0.25

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)

logger = structlog.get_logger()


class Program(Protocol[S_co]):
    """A module that starts one server per state directory."""

    def find(self, state_dir: Path) -> S_co | None: ...

    async def start(self, state_dir: Path, port: int | None = None) -> S_co: ...

    async def stop(self, state_dir: Path) -> None: ...


class Standing(Generic[S]):
    """One server of a state directory. `enter` is told each one that was started."""

    def __init__(
        self, name: str, program: Program[S], state_dir: Path, enter: Callable[[S], None]
    ) -> None:
        self._name = name
        self._program = program
        self._state_dir = state_dir
        self._enter = enter

    @contextlib.asynccontextmanager
    async def running(self, port: int | None) -> AsyncIterator[S]:
        try:
            server = await self._program.start(self._state_dir, port)
            self._enter(server)
            yield server
        finally:
            await self._program.stop(self._state_dir)

    async def keep(self, port: int) -> NoReturn:
        """Start it again at its port whenever it is gone."""
        restarts = Restarts()
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            if self._program.find(self._state_dir) is not None:
                continue
            restarts = restarts.after(0.0)
            logger.warning("server is gone", name=self._name, restart_in_s=restarts.pause_s)
            await asyncio.sleep(restarts.pause_s)
            try:
                self._enter(await self._program.start(self._state_dir, port))
            except LocalServerError as error:
                logger.warning("server does not start", name=self._name, fault=str(error))
            else:
                restarts = Restarts()
