"""The list of the processes that run, for whoever looks into the state directory."""

from __future__ import annotations

import structlog

from services.local.state import Listed, StateDir

logger = structlog.get_logger()


class Roster:
    """A process that died stays in the list until its successor takes its place."""

    def __init__(self, state: StateDir) -> None:
        self._state = state
        self._listed: dict[str, Listed] = {}

    def enter(self, process: Listed) -> None:
        logger.info("process started", name=process.name, pid=process.pid)
        self._listed[process.name] = process
        self._state.write_processes(list(self._listed.values()))

    def leave(self, name: str) -> None:
        """It has ended and will not be started again."""
        if self._listed.pop(name, None) is not None:
            self._state.write_processes(list(self._listed.values()))

    def clear(self) -> None:
        self._listed = {}
        self._state.write_processes([])
