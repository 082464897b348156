"""The data plane of one node, put together."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

from log.listeners import Listeners
from services.http.routing import Route
from services.node.data import fitness as fitnesses
from services.node.data import manifests
from services.node.data.coordinator import Coordinator
from services.node.data.fitness import Fitness
from services.node.data.messaging import Messenger
from services.node.data.movement import Movement
from services.node.data.paths import DataPaths
from services.node.data.replica import Replica
from services.node.data.rounds import Rounds
from services.node.data.routes import client_routes, inner_routes
from services.node.data.rows import RowsApi
from services.node.data.timestamps import Timestamps
from services.node.data.upkeep import Upkeep
from services.node.engine import NodeEngine
from services.node.roads import neighbours
from store import store as stores
from store.database import Database
from store.folder import folder_at
from store.store import Store

SCHEMAS = (fitnesses.SCHEMA, manifests.SCHEMA, *stores.SCHEMAS)
FOLDER = "data"
MICROSECONDS = 1_000_000


class DataPlane(msgspec.Struct, frozen=True, kw_only=True):
    store: Store
    fitness: Fitness
    replica: Replica
    coordinator: Coordinator
    movement: Movement
    upkeep: Upkeep
    rows: RowsApi

    @property
    def client_routes(self) -> tuple[Route, ...]:
        return client_routes(self.rows)

    @property
    def inner_routes(self) -> tuple[Route, ...]:
        return inner_routes(self.replica, self.movement)


@asynccontextmanager
async def assembled(
    engine: NodeEngine,
    database: Database,
    store: Store,
    listeners: Listeners,
    session: aiohttp.ClientSession,
    root: Path,
) -> AsyncIterator[DataPlane]:
    """Ready to serve; nobody is written to any more when the block ends."""
    fitness = Fitness(database, engine)
    await fitness.begin()
    upkeep = Upkeep(engine, store, database)
    await upkeep.begin()
    listeners.add(upkeep.heard)
    replica = Replica(engine, store, fitness, upkeep.count_written)
    messenger = Messenger(
        session,
        lambda: neighbours(engine.applied.metadata, engine.node),
        engine.following.clock,
    )
    rounds = Rounds(engine, replica, messenger)
    coordinator = Coordinator(engine, rounds, fitness, Timestamps(_now_us))
    try:
        yield DataPlane(
            store=store,
            fitness=fitness,
            replica=replica,
            coordinator=coordinator,
            movement=Movement(engine, store, database, fitness, DataPaths(root)),
            upkeep=upkeep,
            rows=RowsApi(engine, coordinator),
        )
    finally:
        await rounds.close()
        await replica.close()


def root_in(state_dir: Path) -> Path:
    return (state_dir / FOLDER).absolute()


def store_in(database: Database, state_dir: Path) -> Store:
    return Store(database, folder_at(str(root_in(state_dir))))


def _now_us() -> int:
    return int(time.time() * MICROSECONDS)
