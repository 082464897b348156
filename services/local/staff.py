"""The nodes and the driver of this machine, taken on and dismissed while the cluster runs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog

from services.http.problems import Code
from services.local.failure import LocalServerError
from services.local.fleet import Fleet
from services.local.founding import wait_until
from services.local.ports import HeldPorts
from services.local.recipes import DRIVER_NAME, Servers, driver_recipe, node_recipes
from services.local.roster import Roster
from services.local.settling import with_driver_port
from services.local.state import Kept, StateDir

ASIDE_MAX = 1_000

logger = structlog.get_logger()


class Staff:
    """Has what is kept for the next start; it is written before anything is done about it."""

    def __init__(
        self, state: StateDir, kept: Kept, ports: HeldPorts, fleet: Fleet, roster: Roster
    ) -> None:
        self.kept = kept
        self._state = state
        self._ports = ports
        self._fleet = fleet
        self._roster = roster

    def keep(self, kept: Kept) -> None:
        if kept != self.kept:
            self._state.write_kept(kept)
        self.kept = kept

    def want(self, nodes: int) -> None:
        self.keep(msgspec.structs.replace(self.kept, nodes_wanted=nodes))

    async def start_nodes(self, servers: Servers) -> tuple[str, ...]:
        """Those that are new come one after another, so that their numbers follow their names.

        The answer is who was set back and waits for a repair, which only a running cluster can do.
        """
        for recipe in node_recipes(self._state, self.kept, servers):
            is_new = not (self._state.path / recipe.name).exists()
            self._fleet.start([recipe])
            if is_new:
                await wait_until("/readyz", [recipe.url], give_up=self._fleet.give_up)
        nodes = self.kept.node_urls
        unrepaired = await wait_until(
            "/readyz",
            list(nodes.values()),
            give_up=self._fleet.give_up,
            but=Code.NEEDS_REPAIR.value,
        )
        names = tuple(name for name, url in nodes.items() if url in unrepaired)
        if names:
            logger.warning("nodes need repair", names=names)
        return names

    def begin_driver(self) -> None:
        """Start the driver, if there is to be one and it does not run yet."""
        if self.kept.driver_port is None:
            self.keep(with_driver_port(self.kept, self._ports))
        recipe = driver_recipe(self._state, self.kept)
        if recipe is not None and not self._fleet.has(DRIVER_NAME):
            self._fleet.start([recipe])

    async def driver_ready(self) -> None:
        """Once it drives. It does so before Spark runs, which takes longer."""
        if self.kept.driver_url is not None:
            await wait_until(
                "/readyz",
                [self.kept.driver_url],
                give_up=lambda: self._fleet.give_up_on(DRIVER_NAME),
            )

    async def take_on(self, servers: Servers) -> str:
        """Start one more node; its name, once it serves."""
        port = self._ports.hold_new(self.kept.retired_ports)
        grown = self.kept.with_node(port)
        name = list(grown.node_urls)[-1]
        # Of an earlier node of that name, whose rows must not come back with this one.
        put_aside(self._state.path / name, "old")
        self.keep(grown)
        recipe = node_recipes(self._state, grown, servers)[-1]
        self._fleet.start([recipe])
        await wait_until("/readyz", [recipe.url], give_up=lambda: self._fleet.give_up_on(name))
        return name

    async def dismiss(self, name: str, label: str) -> None:
        """End the process for good; its folder stays, under a name that no node uses."""
        await self._fleet.end(name)
        put_aside(self._state.path / name, label)
        self.keep(self.kept.without_node(name))
        self._roster.leave(name)
        logger.info("node dismissed", name=name, label=label)


def put_aside(folder: Path, label: str) -> None:
    """Rename a folder, if it is there."""
    if not folder.exists():
        return
    for number in range(1, ASIDE_MAX):
        suffix = label if number == 1 else f"{label}-{number}"
        aside = folder.with_name(f"{folder.name}.{suffix}")
        if not aside.exists():
            folder.rename(aside)
            return
    raise LocalServerError(f"Too many old folders beside {folder}: remove some of them.")
