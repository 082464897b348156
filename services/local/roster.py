"""The list of the processes that run, for whoever looks into the state directory."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import structlog

from services.local.state import Listed, StateDir

WRITE_AGAIN_S = 1.0

logger = structlog.get_logger()


class Roster:
    """A process that died stays in the list until its successor takes its place.

    A full disk is no reason to end those that run: what could not be written is written later.
    """

    def __init__(self, state: StateDir) -> None:
        self._state = state
        self._listed: dict[str, Listed] = {}
        self._is_written = True

    def enter(self, process: Listed) -> None:
        logger.info("process started", name=process.name, pid=process.pid)
        self._listed[process.name] = process
        self._write()

    def leave(self, name: str) -> None:
        """It has ended and will not be started again."""
        if self._listed.pop(name, None) is not None:
            self._write()

    def clear(self) -> None:
        self._listed = {}
        self._write()

    async def keep_written(self) -> NoReturn:
        while True:
            await asyncio.sleep(WRITE_AGAIN_S)
            if not self._is_written:
                self._write()

    def _write(self) -> None:
        try:
            self._state.write_processes(list(self._listed.values()))
        except OSError as error:
            self._is_written = False
            logger.warning("list of processes not written", fault=str(error))
        else:
            self._is_written = True
