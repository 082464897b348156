"""The children of a supervisor, while it starts them and keeps them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any

from services.local.children import Child, Recipe
from services.local.failure import LocalServerError
from services.local.state import Listed

DEATHS_MAX = 3


class Fleet:
    """What is started stays until the block of `running_fleet` ends."""

    def __init__(self, group: asyncio.TaskGroup, enter: Callable[[Listed], None]) -> None:
        self._group = group
        self._enter = enter
        self._children: dict[str, Child] = {}
        self._keeping: dict[str, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, recipes: Iterable[Recipe]) -> None:
        for recipe in recipes:
            child = Child(recipe, self._enter)
            self._children[child.name] = child
            self._keeping[child.name] = self.do(child.keep())

    def do(self, duty: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._group.create_task(duty)
        self._tasks.append(task)
        return task

    def has(self, name: str) -> bool:
        return name in self._children

    async def end(self, name: str) -> None:
        """Return once the process is gone; it is not started again."""
        task = self._keeping.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            self._tasks.remove(task)
        self._children.pop(name, None)

    def give_up(self) -> str | None:
        """Why it is of no use to wait any longer until all serve."""
        reasons = map(self.give_up_on, self._children)
        return next((reason for reason in reasons if reason is not None), None)

    def give_up_on(self, name: str) -> str | None:
        child = self._children[name]
        if child.restarts.in_a_row < DEATHS_MAX:
            return None
        return f"{child.name} dies as it starts, see {child.log}: {child.last_words()}"

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def running_fleet(enter: Callable[[Listed], None]) -> AsyncIterator[Fleet]:
    """Children for as long as the block runs, and none afterwards.

    A failure of the block is raised by itself, once they have ended.
    """
    failure: LocalServerError | None = None
    async with asyncio.TaskGroup() as group:
        fleet = Fleet(group, enter)
        try:
            yield fleet
        except LocalServerError as error:
            failure = error
        finally:
            fleet.stop()
    if failure is not None:
        raise failure
